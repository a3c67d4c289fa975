"""The shape ``extract``, which reads JSON documents into typed columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import DataError, refuse_any
from airflow_provider_connect.shapes.cast import OnError, misfit_message
from airflow_provider_connect.shapes.condition import Condition, bind_row_filter, condition_problems
from airflow_provider_connect.shapes.conversions import TimeFormat
from airflow_provider_connect.shapes.documents import DocumentField, make_reader
from airflow_provider_connect.shapes.shape import (
    ColumnOrigins,
    Shape,
    ShapedBatch,
    Step,
    TypeName,
    count_values,
    name_conflicts,
    unknown_column_problems,
)
from airflow_provider_connect.values.arrays import without_dictionary
from airflow_provider_connect.values.arrow import is_text, json_mark
from airflow_provider_connect.values.ddl import arrow_type
from airflow_provider_connect.values.json.paths import FieldPath, path_steps

if TYPE_CHECKING:
    import pyarrow as pa


class Part(BaseModel):
    """A new column, and the path to its value in the document."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    type: TypeName = Field(
        description="Its type as in Spark's DDL. STRING takes any value: a text as it is, others as JSON text."
    )
    at: FieldPath | None = Field(
        default=None,
        description="Path of the value: a field's name, which may contain dots, or a JSON Pointer such as /utm/source. "
        "Default: the column's name.",
    )
    format: TimeFormat = Field(default="iso", description="Format of times: iso, epoch_s, epoch_ms or epoch_us.")

    @field_validator("type")
    @classmethod
    def _is_in_json(cls, name: str) -> str:
        if name == "BINARY":
            raise ValueError("JSON has no bytes: use STRING")
        return name


def _spelled_out(value: Any) -> Any:
    return {"type": value} if isinstance(value, str) else value


class Extract(Shape):
    """Adds typed columns from JSON documents. A missing or null value is NULL.

    The documents stay.
    """

    name: ClassVar[str] = "extract"

    column: str = Field(min_length=1, description="Text column with the documents.")
    into: dict[str, Annotated[Part, BeforeValidator(_spelled_out, json_schema_input_type=str | Part)]] = Field(
        min_length=1, description="New columns by name: a type, or type and at, the path in the document."
    )
    on_error: OnError = Field(
        default="null", description="Effect of a value that does not fit: store NULL and count it, or fail the day."
    )
    when: Condition | None = Field(
        default=None, description="Rows with documents to read. Other rows have NULL. By default all rows are read."
    )

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with the new columns at the end."""
        import pyarrow as pa

        problems = (
            unknown_column_problems([self.column], schema)
            + name_conflicts([*self.into], schema.names)
            + condition_problems(self.when, schema)
        )
        if self.column in schema.names and not is_text(schema.field(self.column).type):
            kind = schema.field(self.column).type
            hint = ": use flatten for its fields" if pa.types.is_struct(kind) else ""
            problems.append(f"column {self.column!r} is {kind}, not text{hint}")
        refuse_any(problems)
        for name, part in self.into.items():
            comment = {"comment": f"{(part.at or name)!r} of {self.column!r}, where it is a {part.type}."}
            few = {"few_values": "yes"} if part.type == "STRING" else {}
            schema = schema.append(pa.field(name, arrow_type(part.type), nullable=True, metadata=comment | few))
        return schema

    def lineage(self, schema: pa.Schema, origins: ColumnOrigins) -> ColumnOrigins:
        """Return the origins, for new columns those of the documents' column."""
        return {**origins, **dict.fromkeys(self.into, tuple(origins.get(self.column, ())))}

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return a function that reads documents. With ``on_error="fail"`` it raises DataError."""
        import pyarrow as pa
        import pyarrow.compute as pc

        result_schema, rows = self.result_schema(schema), bind_row_filter(self.when, schema)
        index = schema.get_field_index(self.column)
        fields = [
            DocumentField(name, path_steps(name if part.at is None else part.at), part.type, part.format)
            for name, part in self.into.items()
        ]
        read = make_reader(fields, are_checked=json_mark(schema.field(index)) == "checked")

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            documents, is_selected = without_dictionary(batch.column(index)), rows(batch)
            if is_selected is not None:
                documents = pc.if_else(is_selected, documents, pa.scalar(None, documents.type))
            columns, misfits = read(documents)
            if misfits and self.on_error == "fail":
                misfit_texts = [f"{count:,} {_misfit_text(name, self.column)}" for name, count in misfits.items()]
                raise DataError(misfit_message(misfit_texts, batch.num_rows))
            result = pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=result_schema)
            return ShapedBatch(result, count_values(columns), sum(misfits.values()))

        return step


def _misfit_text(name: str | None, column: str) -> str:
    return f"texts of column {column!r} are not JSON" if name is None else f"values do not fit column {name!r}"
