"""The shape that changes columns' types: ``cast``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import DataError, refuse_any
from airflow_provider_connect.shapes.conversions import TimeFormat, cast_values, find_cast
from airflow_provider_connect.shapes.shape import (
    Shape,
    ShapedBatch,
    Step,
    TypeName,
    count_values,
    key_column_problems,
    unknown_column_problems,
)
from airflow_provider_connect.values.arrow import inner_types, type_group
from airflow_provider_connect.values.ddl import arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

OnError = Literal["fail", "null"]


class Cast(Shape):
    """Gives columns another type. Counts the values, and those that do not fit.

    A value becomes the same value of the other type or does not fit; only between FLOAT, DOUBLE and from DECIMAL to
    them it becomes the nearest, and a DATE has no time of day. Times are UTC's.
    """

    name: ClassVar[str] = "cast"

    columns: dict[str, TypeName] = Field(
        min_length=1, description="By column, its type behind it as Spark's DDL has it, such as DECIMAL(10,2)."
    )
    format: TimeFormat = Field(
        default="iso", description="How numbers tell a time: epoch_s, epoch_ms or epoch_us. Texts are ISO 8601."
    )
    on_error: OnError = Field(
        default="fail", description="What a value does that does not fit: fail the day, or become NULL and be counted."
    )

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with the new types; names, places and comments stay.

        :raises ConfigError: there is no such column, or nothing makes the type of it.
        """
        wrong = unknown_column_problems(self.columns, schema) + key_column_problems(self.columns)
        for name, wanted in self.columns.items():
            if name in schema.names and find_cast(schema.field(name).type, wanted, self.format) is None:
                wrong.append(f"column {name!r}: {_why_not(schema.field(name).type, wanted)}")
        refuse_any(wrong)
        for name, wanted in self.columns.items():
            at = schema.get_field_index(name)
            schema = schema.set(at, self._field(schema.field(at), wanted))
        return schema

    def _field(self, field: pa.Field, wanted: str) -> pa.Field:
        import pyarrow as pa

        metadata = dict(field.metadata or {})
        if type_group(field.type) != "text" or wanted != "STRING":
            metadata.pop(b"json", None)
        if wanted == "STRING" and inner_types(field.type) and type_group(field.type) in ("struct", "list", "map"):
            metadata[b"json"] = b"checked"
        is_nullable = field.nullable or self.on_error == "null"
        return pa.field(field.name, arrow_type(wanted), is_nullable, metadata or None)

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return what casts; with ``on_error="fail"`` it raises DataError, naming columns and how many values."""
        import pyarrow as pa

        after = self.result_schema(schema)
        casts = []
        for name, wanted in self.columns.items():
            at = schema.get_field_index(name)
            cast = find_cast(schema.field(at).type, wanted, self.format)
            assert cast is not None  # after() has refused what has none
            casts.append((at, cast, wanted))

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            arrays, values, misfits = batch.columns, 0, {}
            for at, cast, wanted in casts:
                arrays[at], bad = cast_values(cast, arrays[at], schema.field(at), after.field(at).type)
                values += count_values([arrays[at]])
                if bad:
                    misfits[f"{bad:,} values of column {schema.field(at).name!r} are no {wanted}"] = bad
            if misfits and self.on_error == "fail":
                raise DataError(misfit_message([*misfits], batch.num_rows))
            return ShapedBatch(pa.RecordBatch.from_arrays(arrays, schema=after), values, sum(misfits.values()))

        return step


def misfit_message(misfits: list[str], rows: int) -> str:
    """Return what to say of values that do not fit."""
    return f"of {rows:,} rows, {'; '.join(misfits)}: take another type, or on_error='null' to have NULL and a count"


def _why_not(kind: pa.DataType, wanted: str) -> str:
    shapes = {type_group(kind), type_group(arrow_type(wanted))}
    if shapes == {"integer", "timestamp"}:
        return "say with format what the numbers count: epoch_s, epoch_ms or epoch_us"
    return f"nothing makes {wanted} of {kind}"
