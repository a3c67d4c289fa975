"""The shapes of a task, applied in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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

_SHAPE_CLASSES: tuple[type[Shape], ...] = (Select, Drop, Rename, Cast, Mask, Filter, Flatten, Extract, Constant, Route)
_Entry = TypeVar("_Entry")
SHAPES: dict[str, type[Shape]] = {cls.name: cls for cls in _SHAPE_CLASSES}


@dataclass(frozen=True)
class Chain:
    """The shapes of a task, in order."""

    shapes: tuple[Shape, ...] = ()

    @classmethod
    def of(cls, entries: Sequence[Shape | Mapping[str, Any]]) -> Chain:
        """Create a chain from shapes, or from mappings as in pipeline files: ``{"drop": {"columns": ["a"]}}``.

        :raises ConfigError: with all problems of all shapes.
        """
        refuse_text("shape", entries)
        return cls(
            tuple(_make_shapes(entries, lambda entry: entry if isinstance(entry, Shape) else _parse_shape(entry)))
        )

    def __bool__(self) -> bool:
        return bool(self.shapes)

    def serialize(self) -> list[dict[str, Any]]:
        """Return the shapes as plain JSON for :meth:`of`, without default options."""
        return [shape.serialize() for shape in self.shapes]

    @property
    def hides_values(self) -> bool:
        """True if rejects must not keep records."""
        return any(shape.hides_values for shape in self.shapes)

    @property
    def conn_ids(self) -> tuple[str, ...]:
        """Ids of the shapes' connections, without duplicates."""
        return tuple(dict.fromkeys(conn_id for shape in self.shapes for conn_id in shape.conn_ids))

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema after the last shape.

        :raises ConfigError: with all problems of the first shape that does not fit.
        """
        for index, shape in enumerate(self.shapes):
            with _name_shape_in_errors(index, shape):
                schema = shape.result_schema(schema)
        return schema

    def column_origins(self, schema: pa.Schema) -> ColumnOrigins:
        """Return the columns of ``schema`` from which each column after the last shape originates."""
        made_of: ColumnOrigins = {name: (name,) for name in schema.names}
        for index, shape in enumerate(self.shapes):
            with _name_shape_in_errors(index, shape):
                made_of, schema = shape.lineage(schema, made_of), shape.result_schema(schema)
        return made_of

    def bind(
        self, schema: pa.Schema, connections: Mapping[str, Connection]
    ) -> Callable[[pa.RecordBatch, Counter[str]], pa.RecordBatch]:
        """Return a function that applies all shapes to a batch, in one thread, and adds to the given counts.

        Their keys are ``shape_<position>_<name>``, the same with ``_null`` for values that became NULL, and
        ``shape_filtered`` for filtered rows. The function raises DataError if values do not fit and ``on_error`` is
        ``fail``.
        """
        steps = []
        for index, shape in enumerate(self.shapes):
            with _name_shape_in_errors(index, shape):
                steps.append((shape, f"shape_{index}_{shape.name}", shape.bind(schema, connections)))
                schema = shape.result_schema(schema)

        def shaped(batch: pa.RecordBatch, counts: Counter[str]) -> pa.RecordBatch:
            for index, (shape, name, step) in enumerate(steps):
                rows = batch.num_rows
                with _name_shape_in_errors(index, shape):
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
    """Shapes that change each polled batch. Contains secrets, and is never printed.

    :param connections: the shapes' connections, by id.
    """

    chain: Chain = field(default_factory=Chain)
    connections: Mapping[str, Connection] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, chain: Chain, connections: Mapping[str, Connection]) -> Shaping:
        """Create the shaping with the chain's connections."""
        return cls(chain, {conn_id: connections[conn_id] for conn_id in chain.conn_ids})

    def followed_by(self, entries: Sequence[Mapping[str, Any]]) -> Shaping:
        """Return the shaping with further shapes, as in :meth:`Chain.of`, which need no connection."""
        if not entries:
            return self
        return replace(self, chain=Chain((*self.chain.shapes, *Chain.of(entries).shapes)))

    def digests(self, context: str) -> dict[str, str]:
        """Return :func:`.shapes.digests.shape_digests` of the shapes. Takes 50 ms for each mask's key."""
        return shape_digests(self.chain.shapes, self.connections, context)

    def column_digest(self, column: str, context: str) -> str:
        """Return a digest of the shapes that create a target column, and of their keys, or "".

        :param context: as for :meth:`digests`.
        """
        column_shapes = shapes_of_column(self.chain.shapes, column)
        return "" if column_shapes is None else column_shapes.digest(self.connections, context)

    def bind(self, schema: pa.Schema) -> Callable[[pa.RecordBatch, Counter[str]], pa.RecordBatch]:
        """Return a function that applies the shapes to a batch. Executor, once a poll."""
        return self.chain.bind(schema, self.connections) if self.chain else lambda batch, _: batch


def validate_shapes(shapes: Sequence[Shape]) -> list[Shape]:
    """Return the shapes after validating their rendered templates.

    :raises ConfigError: with all problems of all shapes.
    """
    return _make_shapes(shapes, Shape.checked)


def _make_shapes(entries: Iterable[_Entry], make_shape: Callable[[_Entry], Shape]) -> list[Shape]:
    shapes, problems = [], []
    for index, entry in enumerate(entries):
        try:
            shapes.append(make_shape(entry))
        except ConfigError as error:
            problems.append(f"shape[{index}]: {error}")
    refuse_any(problems)
    return shapes


def _parse_shape(entry: Mapping[str, Any]) -> Shape:
    if not isinstance(entry, Mapping) or len(entry) != 1:
        raise ConfigError("must be a shape, or a mapping with one name, such as {'drop': {'columns': […]}}")
    ((name, options),) = entry.items()
    if name not in SHAPES:
        raise ConfigError(f"no shape is called {name!r}; {suggest_nearest(str(name), SHAPES)}")
    if not isinstance(options, Mapping) or not all(isinstance(option, str) for option in options):
        raise ConfigError(f"{name}: must be a mapping of options")
    return SHAPES[name].from_options(dict(options))


@contextmanager
def _name_shape_in_errors(index: int, shape: Shape) -> Iterator[None]:
    try:
        yield
    except (ConfigError, DataError) as error:
        raise type(error)(f"shape[{index}] ({shape.name}): {error}") from None
