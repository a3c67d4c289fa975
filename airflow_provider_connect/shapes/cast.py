"""The shape ``cast``, which changes columns' types."""

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
    """Changes the type of columns.

    Casts of DOUBLE to FLOAT, and of DECIMAL to either, round to the nearest number. A cast to DATE drops the time of
    day. Times are in UTC.
    """

    name: ClassVar[str] = "cast"

    columns: dict[str, TypeName] = Field(
        min_length=1, description="By column, its new type as in Spark's DDL, such as DECIMAL(10,2)."
    )
    format: TimeFormat = Field(
        default="iso",
        description="Unit of numbers that become times: epoch_s, epoch_ms or epoch_us. Texts are ISO 8601.",
    )
    on_error: OnError = Field(
        default="fail", description="Effect of a value that does not fit: fail the day, or store NULL and count it."
    )

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with the new types."""
        problems = unknown_column_problems(self.columns, schema) + key_column_problems(self.columns)
        for name, type_name in self.columns.items():
            if name in schema.names and find_cast(schema.field(name).type, type_name, self.format) is None:
                problems.append(f"column {name!r}: {_no_cast_reason(schema.field(name).type, type_name)}")
        refuse_any(problems)
        for name, type_name in self.columns.items():
            at = schema.get_field_index(name)
            schema = schema.set(at, self._field(schema.field(at), type_name))
        return schema

    def _field(self, field: pa.Field, type_name: str) -> pa.Field:
        import pyarrow as pa

        metadata = dict(field.metadata or {})
        if type_group(field.type) != "text" or type_name != "STRING":
            metadata.pop(b"json", None)
        if type_name == "STRING" and inner_types(field.type) and type_group(field.type) in ("struct", "list", "map"):
            metadata[b"json"] = b"checked"
        is_nullable = field.nullable or self.on_error == "null"
        return pa.field(field.name, arrow_type(type_name), is_nullable, metadata or None)

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return a function that casts. With ``on_error="fail"`` it raises DataError."""
        import pyarrow as pa

        result_schema = self.result_schema(schema)
        casts = []
        for name, type_name in self.columns.items():
            at = schema.get_field_index(name)
            cast = find_cast(schema.field(at).type, type_name, self.format)
            assert cast is not None  # result_schema() has refused types without a cast
            casts.append((at, cast, type_name))

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            arrays, values, misfits = batch.columns, 0, {}
            for at, cast, type_name in casts:
                arrays[at], misfit_count = cast_values(cast, arrays[at], schema.field(at), result_schema.field(at).type)
                values += count_values([arrays[at]])
                if misfit_count:
                    misfits[f"{misfit_count:,} values of column {schema.field(at).name!r} do not fit {type_name}"] = (
                        misfit_count
                    )
            if misfits and self.on_error == "fail":
                raise DataError(misfit_message([*misfits], batch.num_rows))
            return ShapedBatch(pa.RecordBatch.from_arrays(arrays, schema=result_schema), values, sum(misfits.values()))

        return step


def misfit_message(misfits: list[str], rows: int) -> str:
    """Return the message about values that do not fit."""
    return f"of {rows:,} rows, {'; '.join(misfits)}. Use another type, or set on_error='null' to store NULL and count"


def _no_cast_reason(kind: pa.DataType, type_name: str) -> str:
    shapes = {type_group(kind), type_group(arrow_type(type_name))}
    if shapes == {"integer", "timestamp"}:
        return "set format to the unit of the numbers: epoch_s, epoch_ms or epoch_us"
    return f"nothing makes {type_name} of {kind}"
