"""Shapes that do not change values: ``drop``, ``select``, ``rename`` and ``filter``."""

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
    hides_values: ClassVar[bool] = True

    columns: ColumnNames

    @abstractmethod
    def kept_columns(self, names: Sequence[str]) -> Sequence[str]:
        """Return the kept columns, in order."""

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        import pyarrow as pa

        refuse_any(unknown_column_problems(self.columns, schema))
        names = self.kept_columns(schema.names)
        refuse_any([] if names else ["no column would remain"])
        return pa.schema([schema.field(name) for name in names], metadata=schema.metadata)

    def lineage(self, schema: pa.Schema, origins: ColumnOrigins) -> ColumnOrigins:
        return {name: origins[name] for name in self.kept_columns([*origins])}

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        import pyarrow as pa

        result_schema = self.result_schema(schema)
        kept_indices = [schema.get_field_index(name) for name in result_schema.names]
        dropped_indices = sorted({*range(len(schema))} - {*kept_indices})

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            columns = batch.columns
            result = pa.RecordBatch.from_arrays([columns[index] for index in kept_indices], schema=result_schema)
            return ShapedBatch(result, count_values(columns[index] for index in dropped_indices))

        return step


class Drop(_Choice):
    """Removes the named columns."""

    name: ClassVar[str] = "drop"

    columns: ColumnNames = Field(description="Columns to drop.")

    def kept_columns(self, names: Sequence[str]) -> Sequence[str]:
        """Return the names that are not dropped."""
        left_out = set(self.columns)
        return [name for name in names if name not in left_out]


class Select(_Choice):
    """Keeps only the named columns, in this order."""

    name: ClassVar[str] = "select"

    columns: ColumnNames = Field(description="Columns to keep, in their new order.")

    def kept_columns(self, names: Sequence[str]) -> Sequence[str]:
        """Return the option ``columns``."""
        return self.columns


class Rename(Shape):
    """Renames columns. Their position, type and comment stay.

    Two columns may swap names.
    """

    name: ClassVar[str] = "rename"

    columns: dict[str, str] = Field(min_length=1, description="New names, by old name.")

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with the new names."""
        import pyarrow as pa

        fields = [field.with_name(self.columns.get(field.name, field.name)) for field in schema]
        empty = [f"column {old!r}: the new name is empty" for old, new in self.columns.items() if not new]
        unchanged_names = [name for name in schema.names if name not in self.columns]
        refuse_any(
            unknown_column_problems(self.columns, schema)
            + empty
            + name_conflicts([*self.columns.values()], unchanged_names)
        )
        return pa.schema(fields, metadata=schema.metadata)

    def lineage(self, schema: pa.Schema, origins: ColumnOrigins) -> ColumnOrigins:
        """Return the origins under the new names."""
        return {self.columns.get(name, name): sources for name, sources in origins.items()}

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return a function that renames the columns without a copy."""
        import pyarrow as pa

        result_schema = self.result_schema(schema)
        renamed_indices = [schema.get_field_index(name) for name in self.columns]

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            columns = batch.columns
            result = pa.RecordBatch.from_arrays(columns, schema=result_schema)
            return ShapedBatch(result, count_values(columns[at] for at in renamed_indices))

        return step


class Filter(Shape):
    """Keeps the rows for which a condition is true."""

    name: ClassVar[str] = "filter"

    where: Condition = Field(
        description="Condition that selects the rows to keep. Rows for which it is false or unknown are removed."
    )

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema unchanged."""
        refuse_any(condition_problems(self.where, schema))
        return schema

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return a function that removes rows."""
        refuse_any(condition_problems(self.where, schema))
        rows = bind_row_filter(self.where, schema)

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            is_kept = rows(batch)
            removed_rows = batch.num_rows - (batch.num_rows if is_kept is None else is_kept.true_count)
            return ShapedBatch(batch.filter(is_kept) if removed_rows else batch, removed_rows)

        return step
