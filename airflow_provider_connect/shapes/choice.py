"""Shapes that choose columns: ``drop`` and ``select``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.shapes.names import ColumnNames
from airflow_provider_connect.shapes.shape import Columns, Shape, Shaped, Step, require, unknown_columns, values_in

if TYPE_CHECKING:
    import pyarrow as pa


class Drop(Shape):
    """Leaves columns out. Counts the values that were in them."""

    name: ClassVar[str] = "drop"
    hides: ClassVar[bool] = True

    columns: ColumnNames = Field(description="The columns to leave out.")

    def after(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the others.

        :raises ConfigError: there is no such column, or no other.
        """
        require(unknown_columns(self.columns, schema))
        kept = _others(schema.names, self.columns)
        require([] if kept else ["no column would be left"])
        return _schema_of(schema, kept)

    def lineage(self, schema: pa.Schema, made_of: Columns) -> Columns:
        """Return the others."""
        return {name: made_of[name] for name in _others([*made_of], self.columns)}

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return what leaves the columns out."""
        return _keep(schema, self.after(schema))


class Select(Shape):
    """Keeps the named columns alone, in this order. Counts the values that were in the others."""

    name: ClassVar[str] = "select"
    hides: ClassVar[bool] = True

    columns: ColumnNames = Field(description="The columns to keep, in the order that they are to have.")

    def after(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of these columns.

        :raises ConfigError: there is no such column.
        """
        require(unknown_columns(self.columns, schema))
        return _schema_of(schema, self.columns)

    def lineage(self, schema: pa.Schema, made_of: Columns) -> Columns:
        """Return these columns."""
        return {name: made_of[name] for name in self.columns}

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return what keeps the columns."""
        return _keep(schema, self.after(schema))


def _others(names: Sequence[str], out: Sequence[str]) -> list[str]:
    left_out = set(out)
    return [name for name in names if name not in left_out]


def _schema_of(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in names], metadata=schema.metadata)


def _keep(before: pa.Schema, after: pa.Schema) -> Step:
    import pyarrow as pa

    kept = [before.get_field_index(name) for name in after.names]
    out = sorted({*range(len(before))} - {*kept})

    def step(batch: pa.RecordBatch) -> Shaped:
        columns = batch.columns
        made = pa.RecordBatch.from_arrays([columns[index] for index in kept], schema=after)
        return Shaped(made, values_in(columns[index] for index in out))

    return step
