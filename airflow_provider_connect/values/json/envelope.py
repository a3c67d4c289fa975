"""Kafka Connect's own envelope, ``{"schema": …, "payload": …}``: the ``json_schema_envelope`` converter.

``org.apache.kafka.connect.json.JsonConverter`` reads this format with ``schemas.enable=true``, including the logical
types of ``org.apache.kafka.connect.data`` (https://kafka.apache.org/documentation/#connect, 2026-11). Finer times are
refused.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.values import times
from airflow_provider_connect.values.arrays import Piece, Refuse, RefusedRows
from airflow_provider_connect.values.arrow import TypeGroup, plain_type, true_rows, type_group
from airflow_provider_connect.values.converters import DAY, SchemaRef
from airflow_provider_connect.values.json.text import JsonConverter, JsonWriter, base64_texts, quote_texts
from airflow_provider_connect.values.numbers import big_endian, decimal_digits

if TYPE_CHECKING:
    import datetime as dt

    import pyarrow as pa


def _logical(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "name": f"org.apache.kafka.connect.data.{name}", "version": 1}


_TYPES: dict[str | None, dict[str, Any]] = {
    "null": {"type": "string"},
    "boolean": {"type": "boolean"},
    "text": {"type": "string"},
    "binary": {"type": "bytes"},
    "date": _logical("int32", "Date"),
    "time": _logical("int32", "Time"),
    "timestamp": _logical("int64", "Timestamp"),
}


class _ConnectWriter(JsonWriter):
    def leaf_pieces(self, array: pa.Array, shape: TypeGroup | None, field: pa.Field, refuse: Refuse) -> list[Piece]:
        if shape == "text":
            return quote_texts(array, refuse)
        if decimal_digits(array.type) is not None:
            return [b'"', base64_texts(big_endian(array)), b'"']
        if shape in times.TIME_GROUPS:
            return [_milliseconds(array, refuse)]
        return super().leaf_pieces(array, shape, field, refuse)


class EnvelopeConverter(JsonConverter):
    """JSON objects, each with its Kafka Connect schema."""

    writer = _ConnectWriter()

    @cached_property
    def _envelope(self) -> bytes:
        fields = [] if self.day is None else [{"field": DAY, "optional": False, **_TYPES["date"]}]
        fields += [_field(field, optional=field.nullable) for field in self.schema]
        schema = {"type": "struct", "fields": fields, "optional": False, "name": self.record_name}
        return json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode()

    def pieces(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: RefusedRows) -> list[Piece]:
        """Return each row with its schema."""
        return [b'{"schema":', self._envelope, b',"payload":', *super().pieces(batch, ref, refused), b"}"]

    def day_value(self, day: dt.date) -> bytes:
        """Return the day as Kafka Connect's logical type."""
        return str(day.toordinal() - times.EPOCH_ORDINAL).encode()


def _milliseconds(array: pa.Array, refuse: Refuse) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    numbers = times.whole_numbers(array, refuse)
    if not pa.types.is_date(array.type):
        numbers, remainders = np.divmod(numbers, 1000)
        refuse(
            true_rows(remainders != 0),
            "a time finer than a millisecond, which Kafka Connect's logical types do not have",
        )
    return pa.array(numbers).cast(pa.large_string()).cast(pa.large_binary())


def _field(field: pa.Field, *, optional: bool) -> dict[str, Any]:
    # Without comments as docs: every record repeats the schema.
    return {"field": field.name, "optional": optional, **_type(field.type)}


def _inner(kind: pa.DataType, *, optional: bool = True) -> dict[str, Any]:
    return {"optional": optional, **_type(kind)}


def _type(kind: pa.DataType) -> dict[str, Any]:
    kind, shape = plain_type(kind), type_group(kind)
    if shape == "struct":
        return {"type": "struct", "fields": [_field(field, optional=True) for field in kind]}
    if shape == "map":
        return {"type": "map", "keys": _inner(kind.key_type, optional=False), "values": _inner(kind.item_type)}
    if shape == "list":
        return {"type": "array", "items": _inner(kind.value_type)}
    return _leaf(kind)


def _leaf(kind: pa.DataType) -> dict[str, Any]:
    from pyarrow import types

    shape, digits = type_group(kind), decimal_digits(kind)
    if digits is not None:
        parameters = {"scale": str(digits[1]), "connect.decimal.precision": str(digits[0])}
        return _logical("bytes", "Decimal") | {"parameters": parameters}
    if shape == "integer":
        # Kafka Connect's integers are signed: an unsigned one needs the next wider.
        return {"type": f"int{kind.bit_width * (1 if types.is_signed_integer(kind) else 2)}"}
    if shape == "float":
        return {"type": "double" if kind.bit_width == 64 else "float"}
    return _TYPES[shape]
