"""Values that are one column alone: its text or its bytes, without a name or a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow_provider_connect.values.arrays import Piece, Refused, as_binary, as_utf8
from airflow_provider_connect.values.arrow import is_text, shape_of
from airflow_provider_connect.values.encoded import Converter, SchemaRef

if TYPE_CHECKING:
    import pyarrow as pa


class StringConverter(Converter):
    """The UTF-8 text of one string column; a NULL has no value."""

    form = "strings"
    is_only_text: ClassVar[bool] = True

    def problems(self) -> list[str]:
        """Say what is wrong with the column."""
        kind = self.schema.field(self.value_field).type
        if is_text(kind) or (shape_of(kind) == "binary" and not self.is_only_text):
            return []
        return [f"value_field: column {self.value_field!r} is {kind}; this converter writes {self.form}: use json"]

    def pieces(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: Refused) -> list[Piece]:
        """Return the column; its NULLs are still there."""
        array, refuse = refused.column(batch, self.schema.field(self.value_field))
        return [as_utf8(array, refuse) if self.is_only_text else as_binary(array)]

    def joined(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: Refused) -> pa.Array:
        """Return the column as it is: a value that is NULL is none, and not an empty one."""
        (column,) = self.pieces(batch, ref, refused)
        return column


class BytesConverter(StringConverter):
    """The bytes of one binary or string column; a NULL has no value."""

    form = "bytes or strings"
    is_only_text = False
