"""The contract of a shape, which changes rows between source and sink, as Arrow batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import AfterValidator, ConfigDict, Field

from airflow_provider_connect.config import Options, suggest_nearest
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.stage.key_digest import RECORD_KEY
from airflow_provider_connect.values.ddl import plain_type_name

if TYPE_CHECKING:
    import pyarrow as pa


def require_unique(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names if each occurs once.

    :raises ValueError: with the duplicate names.
    """
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"occurs twice: {', '.join(map(repr, twice))}")
    return names


ColumnNames = Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(require_unique)]
"""Names of columns: at least one, without duplicates."""

TypeName = Annotated[str, AfterValidator(plain_type_name)]
"""A type without parts, as in Spark's DDL: ``BIGINT``, ``DECIMAL(10,2)``. Stored in capitals."""


ColumnOrigins = Mapping[str, Sequence[str]]
"""Source columns from which each column originates."""


class ShapedBatch(NamedTuple):
    """A batch after a shape.

    :param values: removed, changed or created values, or removed rows.
    :param misfits: values that became NULL.
    """

    batch: pa.RecordBatch
    values: int
    misfits: int = 0


_RESERVED_NAMES = {RECORD_KEY, "day"}
"""Names that no shape may give: the row's key, and a column that sinks add."""

Step = Callable[["pa.RecordBatch"], ShapedBatch]


class Shape(Options):
    """One change of rows: of the schema, of the columns' origins, and of each batch.

    Pure data. The result depends only on the row.

    :cvar hides_values: true if values are removed or made unreadable.
    """

    model_config = ConfigDict(defer_build=True)  # a DAG file imports all shapes, and uses some

    name: ClassVar[str]
    hides_values: ClassVar[bool] = False

    @property
    def conn_ids(self) -> tuple[str, ...]:
        """Ids of the connections that the shape needs."""
        return ()

    def serialize(self) -> dict[str, Any]:
        """Return name and options as in a pipeline file, without default values."""
        return {self.name: self.model_dump(mode="json", exclude_defaults=True, warnings=not self.templates)}

    @abstractmethod
    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema after this shape. Driver, once a job, and executors.

        :raises ConfigError: with everything that does not fit.
        """

    def lineage(self, schema: pa.Schema, origins: ColumnOrigins) -> ColumnOrigins:
        """Return the origins of the columns after this shape. Driver, once a job."""
        return origins

    @abstractmethod
    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return a function that changes a batch in one thread. Executor, once a poll.

        :param connections: by conn_id.
        :raises ConfigError: a connection is incomplete.
        """


def unknown_column_problems(names: Iterable[str], schema: pa.Schema) -> list[str]:
    """Return a problem for each name that the schema lacks."""
    known_names = set(schema.names)
    return [f"no column {name!r}; {suggest_nearest(name, known_names)}" for name in names if name not in known_names]


def count_values(arrays: Iterable[pa.Array]) -> int:
    """Return the number of values in arrays, without NULL."""
    return sum(len(array) - array.null_count for array in arrays)


def name_conflicts(new: Sequence[str], others: Iterable[str]) -> list[str]:
    """Return a problem for each new name that is taken or reserved. Ignores case."""
    lower = [name.lower() for name in (*others, *new)]
    problems = []
    for name in dict.fromkeys(new):
        if name.lower() in _RESERVED_NAMES:
            problems.append(f"{name!r} is reserved: choose another name")
        elif lower.count(name.lower()) > 1:
            problems.append(f"another column is called {name!r}, ignoring case")
    return problems


def key_column_problems(names: Iterable[str]) -> list[str]:
    """Return a problem for each column that must not be changed: the row's key."""
    return [
        f"column {name!r} identifies rows and contains no readable value: leave it unchanged, or drop it"
        for name in names
        if name == RECORD_KEY
    ]
