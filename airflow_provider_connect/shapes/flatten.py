"""The shape ``flatten``, which turns the fields of structs into columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import AfterValidator, Field

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import refuse_any
from airflow_provider_connect.shapes.shape import (
    ColumnOrigins,
    Shape,
    ShapedBatch,
    Step,
    count_values,
    name_conflicts,
    require_unique,
    unknown_column_problems,
)
from airflow_provider_connect.values.arrow import json_mark

if TYPE_CHECKING:
    import pyarrow as pa


class Flatten(Shape):
    """Replaces each struct, with the structs inside it, by a column for each field, in the struct's position.

    The fields of a NULL struct are NULL. Lists and maps stay.
    """

    name: ClassVar[str] = "flatten"

    columns: Annotated[tuple[str, ...], AfterValidator(require_unique)] = Field(
        default=(), description="Struct columns to split. By default all."
    )
    separator: str = Field(
        default="_", min_length=1, description="Text between the names: address_city for address.city."
    )

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with fields instead of structs."""
        import pyarrow as pa

        problems = unknown_column_problems(self.columns, schema)
        for name in self.columns:
            if name in schema.names and not pa.types.is_struct(schema.field(name).type):
                problems.append(f"column {name!r} is not a struct{_hint(schema.field(name))}")
        fields = [
            column
            for field in schema
            for column in (self._leaf_fields(field) if self._is_flattened(field) else [field])
        ]
        kept_names = [field.name for field in schema if not self._is_flattened(field)]
        new_names = [
            column.name for field in schema if self._is_flattened(field) for column in self._leaf_fields(field)
        ]
        if not fields:
            problems.append("no column would remain")
        refuse_any(problems + name_conflicts(new_names, kept_names))
        return pa.schema(fields, metadata=schema.metadata)

    def _is_flattened(self, field: pa.Field) -> bool:
        import pyarrow as pa

        return pa.types.is_struct(field.type) and (not self.columns or field.name in self.columns)

    def _leaf_fields(self, field: pa.Field) -> Iterator[pa.Field]:
        import pyarrow as pa

        for child in field.type:
            field_inside = child.with_name(f"{field.name}{self.separator}{child.name}")
            field_inside = field_inside.with_nullable(child.nullable or field.nullable)
            yield from self._leaf_fields(field_inside) if pa.types.is_struct(child.type) else [field_inside]

    def lineage(self, schema: pa.Schema, origins: ColumnOrigins) -> ColumnOrigins:
        """Return the origins. Each field has those of its struct."""
        result: dict[str, tuple[str, ...]] = {}
        for field in schema:
            names = [column.name for column in self._leaf_fields(field)] if self._is_flattened(field) else [field.name]
            result |= dict.fromkeys(names, tuple(origins.get(field.name, ())))
        return result

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return a function that splits structs."""
        import pyarrow as pa

        result_schema = self.result_schema(schema)
        is_flattened = [self._is_flattened(field) for field in schema]

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            arrays: list[pa.Array] = []
            values = 0
            for array, must_split in zip(batch.columns, is_flattened, strict=True):
                leaf_arrays = [*_leaves(array)] if must_split else [array]
                values += count_values(leaf_arrays) if must_split else 0
                arrays += leaf_arrays
            return ShapedBatch(pa.RecordBatch.from_arrays(arrays, schema=result_schema), values)

        return step


def _leaves(array: pa.StructArray) -> Iterator[pa.Array]:
    import pyarrow as pa

    for child in array.flatten():
        yield from _leaves(child) if pa.types.is_struct(child.type) else [child]


def _hint(field: pa.Field) -> str:
    return ": it contains JSON documents, use extract" if json_mark(field) else ""
