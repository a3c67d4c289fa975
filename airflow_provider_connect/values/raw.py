"""Values that are one column alone: a text or bytes, without a field's name or a schema."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from airflow_provider_connect.values.arrays import Refused, binary, decoded, utf8, values
from airflow_provider_connect.values.arrow import is_binary, is_text
from airflow_provider_connect.values.encoded import Converter, Encoded, SchemaRef, checked

if TYPE_CHECKING:
    import pyarrow as pa


class StringConverter(Converter):
    """The UTF-8 text of one string column; NULL is a record without a value, which compaction takes as a deletion."""

    wanted = "strings"
    only_text = True

    def __init__(self, schema: pa.Schema, day: dt.date | None, record_name: str, value_field: str | None) -> None:
        super().__init__(schema, day, record_name)
        self.value_field = value_field

    def problems(self) -> list[str]:
        """Say what is wrong with ``value_field``."""
        if self.value_field is None:
            return [f"value_field is missing: name the column of {self.wanted} that is the value"]
        if self.value_field not in self.schema.names:
            return [f"value_field: the source has no column {self.value_field!r}"]
        kind = self.schema.field(self.value_field).type
        if self.holds(kind):
            return []
        return [f"value_field: column {self.value_field!r} is {kind}; this converter writes {self.wanted}: use json"]

    def holds(self, kind: pa.DataType) -> bool:
        """Tell whether a column of that type may be the value."""
        return is_text(kind) or (is_binary(kind) and not self.only_text)

    def encode(self, batch: pa.RecordBatch, ref: SchemaRef | None) -> Encoded:
        """Return the column's values as they are."""
        refused = Refused()
        field = self.schema.field(self.value_field)
        array = decoded(checked(batch, field, refused))
        found = values(utf8(array, refused.of(field.name)) if self.only_text else binary(array))
        for row in refused.rows:
            found[row] = None
        return Encoded(found, refused.rows)


class BytesConverter(StringConverter):
    """The bytes of one binary or string column; NULL as :class:`StringConverter` has it."""

    wanted = "bytes or strings"
    only_text = False
