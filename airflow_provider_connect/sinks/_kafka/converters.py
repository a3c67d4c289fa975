"""Converters of keys and values, with Kafka Connect's names."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.values.arrays import Piece, RefusedRows
from airflow_provider_connect.values.arrow import is_text
from airflow_provider_connect.values.avro.encoding import AvroConverter
from airflow_provider_connect.values.converters import (
    BytesConverter,
    Converter,
    EncodedBatch,
    SchemaRef,
    StringConverter,
)
from airflow_provider_connect.values.json.envelope import EnvelopeConverter
from airflow_provider_connect.values.json.schema import JsonSchemaConverter
from airflow_provider_connect.values.json.text import JsonConverter, JsonWriter
from airflow_provider_connect.values.protobuf.encoding import ProtobufConverter

if TYPE_CHECKING:
    import pyarrow as pa


ConverterName = Literal["json", "json_schema_envelope", "string", "bytes", "avro", "json_schema", "protobuf"]

_CONVERTERS: dict[ConverterName, type[Converter]] = {
    "json": JsonConverter,
    "json_schema_envelope": EnvelopeConverter,
    "string": StringConverter,
    "bytes": BytesConverter,
    "avro": AvroConverter,
    "json_schema": JsonSchemaConverter,
    "protobuf": ProtobufConverter,
}
KeyConverterName = Literal["string", "json", "avro", "json_schema", "protobuf"]


def make_converter(
    name: ConverterName, schema: pa.Schema, day: dt.date | None, *, record_name: str, value_field: str | None = None
) -> Converter:
    """Return the converter with this name.

    :param day: None omits the first field ``day``.
    :param value_field: the whole value, for ``string`` and ``bytes``.
    """
    return _CONVERTERS[name](schema, day, record_name, value_field)


class KeyEncoder:
    """Encodes record keys. A row has no key if its only key column is NULL.

    :param name: ``string`` writes one string column unchanged, one other column as JSON text, and several columns as a
        JSON array. Other names write a record of the columns in this format.
    :param fields: key columns. Empty gives records without keys.
    :param record_name: full name of the key record.
    """

    def __init__(self, name: KeyConverterName, schema: pa.Schema, fields: tuple[str, ...], record_name: str) -> None:
        import pyarrow as pa

        self.fields = fields
        key_columns = [schema.field(field) for field in fields]
        self._may_be_null = len(key_columns) == 1 and key_columns[0].nullable
        if len(key_columns) == 1:
            key_columns = [key_columns[0].with_nullable(nullable=False)]  # keeps the schema the same in every run
        key_schema = pa.schema(key_columns)
        self.converter: Converter | None = None
        if name != "string" and fields:
            self.converter = make_converter(name, key_schema, None, record_name=record_name)
        elif len(key_columns) == 1 and is_text(key_columns[0].type):
            self.converter = StringConverter(key_schema, None, record_name, fields[0])
        elif fields:
            self.converter = _JsonKeys(key_schema, None, record_name)

    def problems(self) -> list[str]:
        return [f"key_fields: {text}" for text in self.converter.problems()] if self.converter else []

    def encode(self, batch: pa.RecordBatch, ref: SchemaRef | None) -> EncodedBatch:
        """Return each row's key. Refuses NaN, and text that is not UTF-8.

        :param ref: if the converter needs one.
        """
        if self.converter is None:
            return EncodedBatch([None] * batch.num_rows, {})
        if not self._may_be_null or not batch.column(self.fields[0]).null_count:
            return self.converter.encode(batch, ref)
        has_key = batch.column(self.fields[0]).is_valid()
        rows = has_key.to_numpy(zero_copy_only=False).nonzero()[0].tolist()
        encoded_batch = self.converter.encode(batch.filter(has_key), ref)
        keys: list[bytes | None] = [None] * batch.num_rows
        for row, value in zip(rows, encoded_batch.values, strict=True):
            keys[row] = value
        return EncodedBatch(keys, {rows[index]: reason for index, reason in encoded_batch.refused.items()})


class _JsonKeys(Converter):
    format_name = "JSON"

    def pieces(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: RefusedRows) -> list[Piece]:
        pieces: list[Piece] = []
        for field in self.schema:
            array, refuse = refused.read_column(batch, field)
            pieces += [b",", *JsonWriter().pieces(array, field, refuse)]
        return [b"[", *pieces[1:], b"]"] if len(self.schema) > 1 else pieces[1:]
