"""Shapes that leave values as they are: ``drop``, ``select``, ``rename`` and ``filter``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import refuse_any
from airflow_provider_connect.shapes.condition import Condition, bind_row_filter, condition_problems
from airflow_provider_connect.shapes.shape import (
    ColumnNames,
    ColumnOrigins,
    Shape,
    ShapedBatch,
    Step,
    count_values,
    name_conflicts,
    unknown_column_problems,
)

if TYPE_CHECKING:
    import pyarrow as pa


class _Choice(Shape):
    """Keeps some columns. Counts the values that were in the others."""

    hides_values: ClassVar[bool] = True

    columns: ColumnNames

    @abstractmethod
    def kept_columns(self, names: Sequence[str]) -> Sequence[str]:
        """Return the columns that are kept, in their order."""

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the columns that are kept.

        :raises ConfigError: there is no such column, or none would be left.
        """
        import pyarrow as pa

        refuse_any(unknown_column_problems(self.columns, schema))
        names = self.kept_columns(schema.names)
        refuse_any([] if names else ["no column would be left"])
        return pa.schema([schema.field(name) for name in names], metadata=schema.metadata)

    def lineage(self, schema: pa.Schema, origins: ColumnOrigins) -> ColumnOrigins:
        """Return the columns that are kept."""
        return {name: origins[name] for name in self.kept_columns([*origins])}

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return what leaves the other columns out."""
        import pyarrow as pa

        after = self.result_schema(schema)
        kept = [schema.get_field_index(name) for name in after.names]
        out = sorted({*range(len(schema))} - {*kept})

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            columns = batch.columns
            made = pa.RecordBatch.from_arrays([columns[index] for index in kept], schema=after)
            return ShapedBatch(made, count_values(columns[index] for index in out))

        return step


class Drop(_Choice):
    """Leaves columns out. Counts the values that were in them."""

    name: ClassVar[str] = "drop"

    columns: ColumnNames = Field(description="The columns to leave out.")

    def kept_columns(self, names: Sequence[str]) -> Sequence[str]:
        """Return the others."""
        left_out = set(self.columns)
        return [name for name in names if name not in left_out]


class Select(_Choice):
    """Keeps the named columns alone, in this order. Counts the values that were in the others."""

    name: ClassVar[str] = "select"

    columns: ColumnNames = Field(description="The columns to keep, in the order that they are to have.")

    def kept_columns(self, names: Sequence[str]) -> Sequence[str]:
        """Return these columns."""
        return self.columns


class Rename(Shape):
    """Gives columns other names; place, type and comment stay. Counts the values in them.

    Two columns may change names with each other. Options of a sink that name columns, such as ``key``, have the new
    names.
    """

    name: ClassVar[str] = "rename"

    columns: dict[str, str] = Field(min_length=1, description="By the name before, the name behind it.")

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with the new names.

        :raises ConfigError: there is no such column, or two would have one name.
        """
        import pyarrow as pa

        fields = [field.with_name(self.columns.get(field.name, field.name)) for field in schema]
        empty = [f"column {old!r}: the new name is empty" for old, new in self.columns.items() if not new]
        others = [name for name in schema.names if name not in self.columns]
        refuse_any(
            unknown_column_problems(self.columns, schema) + empty + name_conflicts([*self.columns.values()], others)
        )
        return pa.schema(fields, metadata=schema.metadata)

    def lineage(self, schema: pa.Schema, origins: ColumnOrigins) -> ColumnOrigins:
        """Return the columns under their new names."""
        return {self.columns.get(name, name): sources for name, sources in origins.items()}

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return what names the columns anew; nothing is copied."""
        import pyarrow as pa

        after = self.result_schema(schema)
        named = [schema.get_field_index(name) for name in self.columns]

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            columns = batch.columns
            made = pa.RecordBatch.from_arrays(columns, schema=after)
            return ShapedBatch(made, count_values(columns[at] for at in named))

        return step


class Filter(Shape):
    """Keeps the rows where a condition holds. Counts those that it leaves out, and those of all filters together."""

    name: ClassVar[str] = "filter"

    where: Condition = Field(description="Which rows are kept: those where it is true, neither false nor unknown.")

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema as it is.

        :raises ConfigError: the condition names a column that is not there, or a value that is not of its type.
        """
        refuse_any(condition_problems(self.where, schema))
        return schema

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return what leaves rows out; a batch of which all stay is not copied."""
        refuse_any(condition_problems(self.where, schema))
        rows = bind_row_filter(self.where, schema)

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            kept = rows(batch)
            out = batch.num_rows - (batch.num_rows if kept is None else kept.true_count)
            return ShapedBatch(batch.filter(kept) if out else batch, out)

        return step
