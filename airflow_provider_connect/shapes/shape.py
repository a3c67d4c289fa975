"""What a shape is: one small change of rows on their way from source to sink, in Arrow."""

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
    """Return names, each of which stands once.

    :raises ValueError: naming those that do not.
    """
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"stands twice: {', '.join(map(repr, twice))}")
    return names


ColumnNames = Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(require_unique)]
"""Names of columns, at least one, each once."""

TypeName = Annotated[str, AfterValidator(plain_type_name)]
"""A type without parts, as Spark's DDL names it: ``BIGINT``, ``DECIMAL(10,2)``; kept in capitals."""


ColumnOrigins = Mapping[str, Sequence[str]]
"""By column, the source's columns that it is made of."""


class ShapedBatch(NamedTuple):
    """What a shape made of a batch.

    :param values: how many values it took away, changed or made; NULL does not count. Of a filter, how many rows.
    :param misfits: how many values did not fit, and are NULL.
    """

    batch: pa.RecordBatch
    values: int
    misfits: int = 0


_OURS = {RECORD_KEY, "day"}
"""The key of a row, and the column that sinks add."""

Step = Callable[["pa.RecordBatch"], ShapedBatch]


class Shape(Options):
    """One change of rows: what becomes of the schema, of the columns' lineage, and of each batch.

    Pure data, safe and cheap to import in a DAG file. The same rows always give the same result: nothing depends on the
    clock, on other rows or on their order.

    :cvar name: as pipelines' files, messages and counts have it.
    :cvar hides: whether values are taken away or made unreadable, so that they must be written nowhere.
    """

    model_config = ConfigDict(defer_build=True)  # a DAG file imports all shapes, and uses some

    name: ClassVar[str]
    hides_values: ClassVar[bool] = False

    @property
    def conn_ids(self) -> tuple[str, ...]:
        """The connections that it needs."""
        return ()

    def serialize(self) -> dict[str, Any]:
        """Return name and options as plain JSON, as a person would write them: without defaults."""
        return {self.name: self.model_dump(mode="json", exclude_defaults=True, warnings=not self.templates)}

    @abstractmethod
    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema behind it. Driver, once a job; and executors.

        :raises ConfigError: naming everything that does not fit the schema.
        """

    def lineage(self, schema: pa.Schema, origins: ColumnOrigins) -> ColumnOrigins:
        """Return what the columns behind it are made of: by default of what they were. Driver, once a job.

        :param schema: before it.
        :param made_of: what its columns are made of.
        """
        return origins

    @abstractmethod
    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return what changes batches. Executor, once a poll; what it returns is called for each batch, in one thread.

        :param schema: of the batches; what comes out has the schema :meth:`result_schema` it.
        :param connections: by conn_id, at least :attr:`conn_ids`.
        :raises ConfigError: a connection lacks something.
        """


def unknown_column_problems(names: Iterable[str], schema: pa.Schema) -> list[str]:
    """Return a problem for each column that a schema does not have."""
    known = set(schema.names)
    return [f"no column {name!r}; {suggest_nearest(name, known)}" for name in names if name not in known]


def count_values(arrays: Iterable[pa.Array]) -> int:
    """Return how many values arrays have; NULL does not count."""
    return sum(len(array) - array.null_count for array in arrays)


def name_conflicts(new: Sequence[str], others: Iterable[str]) -> list[str]:
    """Return a problem for each new column whose name is not free; sinks do not tell case apart."""
    lower = [name.lower() for name in (*others, *new)]
    problems = []
    for name in dict.fromkeys(new):
        if name.lower() in _OURS:
            problems.append(f"{name!r} is a column of ours: take another name")
        elif lower.count(name.lower()) > 1:
            problems.append(f"another column is called {name!r}, or so but for its case")
    return problems


def key_column_problems(names: Iterable[str]) -> list[str]:
    """Return a problem for each column whose values may not be changed."""
    return [
        f"column {name!r} tells rows apart, and is made of nothing that can be read: leave it as it is, or drop it"
        for name in names
        if name == RECORD_KEY
    ]
