"""The shape that makes columns of what is inside columns: ``flatten``."""

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
    """Makes a column of each field of structs, of structs inside them too, in the place of the column that held them.

    Where the struct is NULL its fields are. Lists and maps stay as they are. Counts the values of the new columns.
    """

    name: ClassVar[str] = "flatten"

    columns: Annotated[tuple[str, ...], AfterValidator(require_unique)] = Field(
        default=(), description="The columns to take apart; by default all that are structs."
    )
    separator: str = Field(
        default="_", min_length=1, description="What stands between the names: address_city for address.city."
    )

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with the fields in place of the structs.

        :raises ConfigError: there is no such column, it is no struct, or two columns would have one name.
        """
        import pyarrow as pa

        wrong = unknown_column_problems(self.columns, schema)
        for name in self.columns:
            if name in schema.names and not pa.types.is_struct(schema.field(name).type):
                wrong.append(f"column {name!r} is no struct{_hint(schema.field(name))}")
        fields = [each for field in schema for each in (self._inside(field) if self._is_taken(field) else [field])]
        kept = [field.name for field in schema if not self._is_taken(field)]
        new = [each.name for field in schema if self._is_taken(field) for each in self._inside(field)]
        if not fields:
            wrong.append("no column would be left")
        refuse_any(wrong + name_conflicts(new, kept))
        return pa.schema(fields, metadata=schema.metadata)

    def _is_taken(self, field: pa.Field) -> bool:
        import pyarrow as pa

        return pa.types.is_struct(field.type) and (not self.columns or field.name in self.columns)

    def _inside(self, field: pa.Field) -> Iterator[pa.Field]:
        import pyarrow as pa

        for child in field.type:
            made = child.with_name(f"{field.name}{self.separator}{child.name}")
            made = made.with_nullable(child.nullable or field.nullable)
            yield from self._inside(made) if pa.types.is_struct(child.type) else [made]

    def lineage(self, schema: pa.Schema, origins: ColumnOrigins) -> ColumnOrigins:
        """Return the columns; each field is made of what its struct was."""
        found: dict[str, tuple[str, ...]] = {}
        for field in schema:
            names = [each.name for each in self._inside(field)] if self._is_taken(field) else [field.name]
            found |= dict.fromkeys(names, tuple(origins.get(field.name, ())))
        return found

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return what takes structs apart."""
        import pyarrow as pa

        after = self.result_schema(schema)
        is_taken = [self._is_taken(field) for field in schema]

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            arrays: list[pa.Array] = []
            values = 0
            for array, taken_apart in zip(batch.columns, is_taken, strict=True):
                inner = [*_leaves(array)] if taken_apart else [array]
                values += count_values(inner) if taken_apart else 0
                arrays += inner
            return ShapedBatch(pa.RecordBatch.from_arrays(arrays, schema=after), values)

        return step


def _leaves(array: pa.StructArray) -> Iterator[pa.Array]:
    import pyarrow as pa

    for child in array.flatten():
        yield from _leaves(child) if pa.types.is_struct(child.type) else [child]


def _hint(field: pa.Field) -> str:
    return ": it holds JSON documents, whose fields extract takes out" if json_mark(field) else ""
