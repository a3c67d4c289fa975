"""The shapes of a task, one behind the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, refuse_any, refuse_text
from airflow_provider_connect.shapes.added import Constant, Route
from airflow_provider_connect.shapes.cast import Cast
from airflow_provider_connect.shapes.choice import Drop, Filter, Rename, Select
from airflow_provider_connect.shapes.column import shapes_of_column
from airflow_provider_connect.shapes.digests import shape_digests
from airflow_provider_connect.shapes.extract import Extract
from airflow_provider_connect.shapes.flatten import Flatten
from airflow_provider_connect.shapes.mask import Mask
from airflow_provider_connect.shapes.shape import ColumnOrigins, Shape
from airflow_provider_connect.stage.counts import FILTERED

if TYPE_CHECKING:
    import pyarrow as pa

_ALL: tuple[type[Shape], ...] = (Select, Drop, Rename, Cast, Mask, Filter, Flatten, Extract, Constant, Route)
_Entry = TypeVar("_Entry")
SHAPES: dict[str, type[Shape]] = {cls.name: cls for cls in _ALL}


@dataclass(frozen=True)
class Chain:
    """The shapes of a task, in order. One without shapes is false, and changes nothing."""

    shapes: tuple[Shape, ...] = ()

    @classmethod
    def of(cls, entries: Sequence[Shape | Mapping[str, Any]]) -> Chain:
        """Return the chain of shapes, or of what :meth:`serialize` and files have: ``{"drop": {"columns": ["a"]}}``.

        :raises ConfigError: naming everything that is wrong in any of them, each with its position.
        """
        refuse_text("shape", entries)
        return cls(tuple(_each(entries, lambda entry: entry if isinstance(entry, Shape) else _shape_of(entry))))

    def __bool__(self) -> bool:
        """Tell whether there is any shape."""
        return bool(self.shapes)

    def serialize(self) -> list[dict[str, Any]]:
        """Return the shapes as plain JSON, as :meth:`of` takes them, without options that have their default."""
        return [shape.serialize() for shape in self.shapes]

    @property
    def hides_values(self) -> bool:
        """Whether some value is taken away or made unreadable, so that rejects must not keep records."""
        return any(shape.hides_values for shape in self.shapes)

    @property
    def conn_ids(self) -> tuple[str, ...]:
        """The connections that shapes need, each once."""
        return tuple(dict.fromkeys(conn_id for shape in self.shapes for conn_id in shape.conn_ids))

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema behind the last shape.

        :raises ConfigError: with the position and name of the first shape that does not fit, and all that it says.
        """
        for index, shape in enumerate(self.shapes):
            with _told_of(index, shape):
                schema = shape.result_schema(schema)
        return schema

    def column_origins(self, schema: pa.Schema) -> ColumnOrigins:
        """Return what the columns behind the last shape are made of: columns of the schema before the first.

        :raises ConfigError: as :meth:`result_schema`.
        """
        made_of: ColumnOrigins = {name: (name,) for name in schema.names}
        for index, shape in enumerate(self.shapes):
            with _told_of(index, shape):
                made_of, schema = shape.lineage(schema, made_of), shape.result_schema(schema)
        return made_of

    def bind(
        self, schema: pa.Schema, connections: Mapping[str, Connection]
    ) -> Callable[[pa.RecordBatch, Counter[str]], pa.RecordBatch]:
        """Return what changes each batch of a poll, in one thread, and counts what it did.

        The counts are ``shape_<position>_<name>`` for each shape, that with ``_null`` for values that did not fit and
        are NULL, and ``shape_filtered`` for the rows of all filters.

        :param schema: before the first shape.
        :return: raises DataError, with position and name of a shape, for values that do not fit and fail the day.
        :raises ConfigError: as :meth:`result_schema`, or a connection lacks something.
        """
        steps = []
        for index, shape in enumerate(self.shapes):
            with _told_of(index, shape):
                steps.append((shape, f"shape_{index}_{shape.name}", shape.bind(schema, connections)))
                schema = shape.result_schema(schema)

        def shaped(batch: pa.RecordBatch, counts: Counter[str]) -> pa.RecordBatch:
            for index, (shape, name, step) in enumerate(steps):
                rows = batch.num_rows
                with _told_of(index, shape):
                    batch, values, misfits = step(batch)
                counts[name] += values
                if misfits:
                    counts[f"{name}_null"] += misfits
                if batch.num_rows < rows:
                    counts[FILTERED] += rows - batch.num_rows
            return batch

        return shaped


@dataclass(frozen=True)
class Shaping:
    """What a poll does to each batch of rows before anything is written. Holds secrets; it is never printed.

    :param connections: those of the shapes alone, by their ids.
    """

    chain: Chain = field(default_factory=Chain)
    connections: Mapping[str, Connection] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, chain: Chain, connections: Mapping[str, Connection]) -> Shaping:
        """Take from all connections of a task what the shapes need."""
        return cls(chain, {conn_id: connections[conn_id] for conn_id in chain.conn_ids})

    def digests(self, context: str) -> dict[str, str]:
        """Return digests of the shapes (``shapes``) and of each mask's key (``key[<position>]``). Takes 50 ms a key.

        Equal digests mean that equal rows become equal rows. Keys cannot be read from digests (:mod:`.shapes.digests`).

        :param context: where the digests are kept, such as the target's name. Digests of two contexts cannot be
            compared.
        :raises ConfigError: a connection has no key, or a short one.
        """
        return shape_digests(self.chain.shapes, self.connections, context)

    def column_digest(self, column: str, context: str) -> str:
        """Return the digest of the shapes that make a column, and of their masks' keys; "" if no shape makes it.

        :param column: as the target has it.
        :param context: where the digest is kept: digests of two contexts cannot be compared.
        :raises ConfigError: a connection has no key, or a short one.
        """
        made = shapes_of_column(self.chain.shapes, column)
        return "" if made is None else made.digest(self.connections, context)

    def bind(self, schema: pa.Schema) -> Callable[[pa.RecordBatch, Counter[str]], pa.RecordBatch]:
        """Return what changes each batch of a poll; without shapes, what changes nothing. Executor, once a poll.

        :param schema: of the source's rows.
        """
        return self.chain.bind(schema, self.connections) if self.chain else lambda batch, _: batch


def validate_shapes(shapes: Sequence[Shape]) -> list[Shape]:
    """Return shapes after validating what their templates became. Airflow, once a task.

    :raises ConfigError: naming everything that is wrong in any of them, each with its position.
    """
    return _each(shapes, Shape.checked)


def _each(entries: Iterable[_Entry], make: Callable[[_Entry], Shape]) -> list[Shape]:
    made, problems = [], []
    for index, entry in enumerate(entries):
        try:
            made.append(make(entry))
        except ConfigError as error:
            problems.append(f"shape[{index}]: {error}")
    refuse_any(problems)
    return made


def _shape_of(entry: Mapping[str, Any]) -> Shape:
    if not isinstance(entry, Mapping) or len(entry) != 1:
        raise ConfigError("is to be a shape, or one mapping with its name alone, such as {'drop': {'columns': […]}}")
    ((name, options),) = entry.items()
    if name not in SHAPES:
        raise ConfigError(f"no shape is called {name!r}; {suggest_nearest(str(name), SHAPES)}")
    if not isinstance(options, Mapping) or not all(isinstance(option, str) for option in options):
        raise ConfigError(f"{name}: is to be a mapping of options")
    return SHAPES[name].from_options(dict(options))


@contextmanager
def _told_of(index: int, shape: Shape) -> Iterator[None]:
    try:
        yield
    except (ConfigError, DataError) as error:
        raise type(error)(f"shape[{index}] ({shape.name}): {error}") from None
