"""Connect's own envelope, ``{"schema": …, "payload": …}``: the ``json_schema_envelope`` converter.

What ``org.apache.kafka.connect.json.JsonConverter`` writes with ``schemas.enable=true`` and reads back, logical types
of ``org.apache.kafka.connect.data`` among it (https://kafka.apache.org/documentation/#connect, 2026-11). These know no
time finer than a millisecond: such rows are refused.
"""

from __future__ import annotations

import binascii
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.values import times
from airflow_provider_connect.values.arrays import Piece, Refuse, Refused
from airflow_provider_connect.values.arrow import is_binary, is_list, is_text
from airflow_provider_connect.values.decimals import big_endian, decimal_digits
from airflow_provider_connect.values.encoded import DAY, Encoded, SchemaRef, checked, encoded
from airflow_provider_connect.values.fields import name_problems
from airflow_provider_connect.values.json.text import JsonConverter, Writer, quoted, text_of

if TYPE_CHECKING:
    import datetime as dt

    import pyarrow as pa

_LOGICAL = "org.apache.kafka.connect.data"
_DATE = {"type": "int32", "name": f"{_LOGICAL}.Date", "version": 1}


class EnvelopeConverter(JsonConverter):
    """JSON objects, each with Connect's schema of itself."""

    def __init__(self, schema: pa.Schema, day: dt.date | None, record_name: str) -> None:
        super().__init__(schema, day, record_name)
        self.writer = _ConnectWriter()

    def problems(self) -> list[str]:
        """Name every column that JSON has no form for."""
        return name_problems(self.record_name) + super().problems()

    @cached_property
    def _envelope(self) -> bytes:
        fields = [] if self.day is None else [{"field": DAY, "optional": False, **_DATE}]
        fields += [_field(field, optional=field.nullable) for field in self.schema]
        schema = {"type": "struct", "fields": fields, "optional": False, "name": self.record_name}
        return json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode()

    def encode(self, batch: pa.RecordBatch, ref: SchemaRef | None) -> Encoded:
        """Return each row with its schema."""
        refused = Refused()
        pieces: list[Piece] = []
        if self.day is not None:
            pieces = [b",", f'"{DAY}":{self.day.toordinal() - times.EPOCH_ORDINAL}'.encode()]
        for field in self.schema:
            array = checked(batch, field, refused)
            pieces += [b",", text_of(field.name), b":", *self.writer.pieces(array, field, refused.of(field.name))]
        start: list[Piece] = [b'{"schema":', self._envelope, b',"payload":{']
        return encoded([*start, *pieces[1:], b"}}"], batch.num_rows, refused)


class _ConnectWriter(Writer):
    def leaf(self, array: pa.Array, field: pa.Field, refuse: Refuse) -> list[Piece]:
        if is_text(array.type):
            return quoted(array, refuse)
        if decimal_digits(array.type) is not None:
            return [b'"', _base64(array), b'"']
        if times.is_time(array.type):
            return [_millis(array, refuse)]
        return super().leaf(array, field, refuse)


def _base64(array: pa.Array) -> pa.Array:
    import pyarrow as pa

    numbers = big_endian(array).to_pylist()
    return pa.array([binascii.b2a_base64(number, newline=False) for number in numbers], pa.large_binary())


def _millis(array: pa.Array, refuse: Refuse) -> pa.Array:
    """Return milliseconds; of a date its days."""
    import numpy as np
    import pyarrow as pa

    found = times.whole(array, refuse)
    if not pa.types.is_date(array.type):
        found, rest = np.divmod(found, 1000)
        refuse(rest != 0, "a time finer than a millisecond, which Connect's logical types have not")
    return pa.array(found).cast(pa.large_string()).cast(pa.large_binary())


def _field(field: pa.Field, *, optional: bool) -> dict[str, Any]:
    # Without comments as docs: the schema is repeated in every record.
    return {"field": field.name, "optional": optional, **_type(field.type)}


def _inner(kind: pa.DataType, *, optional: bool = True) -> dict[str, Any]:
    return {"optional": optional, **_type(kind)}


def _type(kind: pa.DataType) -> dict[str, Any]:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _type(kind.value_type)
    if types.is_struct(kind):
        return {"type": "struct", "fields": [_field(field, optional=True) for field in kind]}
    if types.is_map(kind):
        return {"type": "map", "keys": _inner(kind.key_type, optional=False), "values": _inner(kind.item_type)}
    if is_list(kind):
        return {"type": "array", "items": _inner(kind.value_type)}
    digits = decimal_digits(kind)
    if digits is not None:
        parameters = {"scale": str(digits[1]), "connect.decimal.precision": str(digits[0])}
        return {"type": "bytes", "name": f"{_LOGICAL}.Decimal", "version": 1, "parameters": parameters}
    return _time(kind) if times.is_time(kind) else {"type": _plain(kind)}


def _time(kind: pa.DataType) -> dict[str, Any]:
    from pyarrow import types

    if types.is_date(kind):
        return _DATE
    if types.is_time(kind):
        return {"type": "int32", "name": f"{_LOGICAL}.Time", "version": 1}
    return {"type": "int64", "name": f"{_LOGICAL}.Timestamp", "version": 1}


def _plain(kind: pa.DataType) -> str:
    from pyarrow import types

    if types.is_boolean(kind):
        return "boolean"
    if types.is_floating(kind):
        return "double" if types.is_float64(kind) else "float"
    if types.is_integer(kind):
        # Connect's integers are signed: an unsigned one needs the next wider.
        return f"int{kind.bit_width * (1 if types.is_signed_integer(kind) else 2)}"
    return "bytes" if is_binary(kind) else "string"
