"""Values that are one column alone: its text or its bytes, without a name or a schema."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, ClassVar

from airflow_provider_connect.values.arrays import Piece, Refused, as_binary, as_utf8, without_dictionary
from airflow_provider_connect.values.arrow import is_text, shape_of
from airflow_provider_connect.values.encoded import Converter, Encoded, SchemaRef, column_of

if TYPE_CHECKING:
    import pyarrow as pa


class StringConverter(Converter):
    """The UTF-8 text of one string column; a NULL has no value."""

    form = "strings"
    is_only_text: ClassVar[bool] = True

    def __init__(self, schema: pa.Schema, day: dt.date | None, record_name: str, value_field: str | None) -> None:
        super().__init__(schema, day, record_name)
        self.value_field = value_field

    def problems(self) -> list[str]:
        """Say what is wrong with ``value_field``."""
        if self.value_field is None:
            return [f"value_field is missing: name the column of {self.form} that is the value"]
        if self.value_field not in self.schema.names:
            return [f"value_field: the source has no column {self.value_field!r}"]
        kind = self.schema.field(self.value_field).type
        if is_text(kind) or (shape_of(kind) == "binary" and not self.is_only_text):
            return []
        return [f"value_field: column {self.value_field!r} is {kind}; this converter writes {self.form}: use json"]

    def encode(self, batch: pa.RecordBatch, ref: SchemaRef | None) -> Encoded:
        """Return the column's values as they are."""
        refused = Refused()
        (values,) = self.pieces(batch, ref, refused)
        return Encoded.from_array(values, refused)

    def pieces(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: Refused) -> list[Piece]:
        """Return the column; its NULLs are still there."""
        field = self.schema.field(self.value_field)
        array = without_dictionary(column_of(batch, field, refused))
        return [as_utf8(array, refused.in_column(field.name)) if self.is_only_text else as_binary(array)]


class BytesConverter(StringConverter):
    """The bytes of one binary or string column; a NULL has no value."""

    form = "bytes or strings"
    is_only_text = False
