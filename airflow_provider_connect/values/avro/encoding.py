"""Avro's binary encoding of Arrow columns, column by column: the values of the ``avro`` converter."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_connect.values import times
from airflow_provider_connect.values.arrays import (
    Piece,
    Refuse,
    Refused,
    below,
    binary,
    decoded,
    gathered,
    join,
    optional,
    utf8,
)
from airflow_provider_connect.values.arrow import is_binary, is_list, is_text, lists
from airflow_provider_connect.values.avro import schema as avro
from airflow_provider_connect.values.decimals import big_endian, decimal_digits, width_bytes
from airflow_provider_connect.values.encoded import (
    DAY,
    Converter,
    Encoded,
    Kind,
    SchemaRef,
    checked,
    encoded,
    framed,
)
from airflow_provider_connect.values.fields import legal_name, name_problems
from airflow_provider_connect.values.json.text import once_each
from airflow_provider_connect.values.types import unwritable
from airflow_provider_connect.values.varints import fixed, prefixed, zigzag, zigzags

if TYPE_CHECKING:
    import pyarrow as pa

_END = zigzag(0)  # of the blocks of an array or a map


class AvroConverter(Converter):
    """Avro records with their logical types, behind the id of their schema."""

    kind: ClassVar[Kind | None] = "AVRO"

    def problems(self) -> list[str]:
        """Name every column that Avro has no form for."""
        return name_problems(self.record_name) + unwritable(self.schema, "Avro")

    def document(self) -> str:
        """Return the schema as JSON."""
        return self._document

    @cached_property
    def _document(self) -> str:
        return avro.document(self.schema, self.record_name, self.day)

    def encode(self, batch: pa.RecordBatch, ref: SchemaRef | None) -> Encoded:
        """Return each row as one record, written by the registered schema."""
        start = framed(ref)
        record = json.loads((ref and ref.document) or self._document)
        writer = _Writer(avro.named(record))
        own = {legal_name(field.name): field for field in self.schema}
        refused = Refused()
        pieces: list[Piece] = [start]
        for part in record["fields"]:
            name, kind = part["name"], part["type"]
            if name == DAY and self.day is not None:
                pieces += writer.constant(self.day.toordinal() - times.EPOCH_ORDINAL, kind)
            elif name in own:
                array = checked(batch, own[name], refused)
                pieces += writer.pieces(array, kind, refused.of(own[name].name))
            else:
                pieces += writer.nothing(kind)
        return encoded(pieces, batch.num_rows, refused)


class _Writer:
    """Writes columns by a schema that takes them, as :func:`.avro.schema.misfits` finds out before.

    :param names: the named types of the schema.
    """

    def __init__(self, names: dict[str, avro.Avro]) -> None:
        self.names = names

    def constant(self, number: int, kind: avro.Avro) -> list[Piece]:
        """Return the same whole number for all rows."""
        _, null, place = avro.without_null(kind, self.names)
        return [(b"" if null is None else zigzag(place)) + zigzag(number)]

    def nothing(self, kind: avro.Avro) -> list[Piece]:
        """Return NULL for all rows."""
        return [zigzag(avro.without_null(kind, self.names)[1] or 0)]

    def pieces(self, array: pa.Array, kind: avro.Avro, refuse: Refuse) -> list[Piece]:
        """Return the pieces of a column's values."""
        array = decoded(array)
        plain, null, place = avro.without_null(kind, self.names)
        body = self._value(array, plain, refuse)
        if null is not None:
            return optional(array, body, zigzag(place), zigzag(null))
        if array.null_count:
            refuse(array.is_null(), "NULL, which the registered schema does not take")
        return [zigzag(place), *body] if isinstance(kind, list) else body

    def _value(self, array: pa.Array, kind: Any, refuse: Refuse) -> list[Piece]:
        from pyarrow import types

        if types.is_struct(array.type):
            return self._record(array, kind, refuse)
        if types.is_map(array.type):
            return self._map(array, kind, refuse)
        if is_list(array.type):
            lengths, elements = lists(array)
            inner = self.pieces(elements, kind["items"], below(refuse, lengths))
            return _blocks(lengths, join(inner, len(elements)))
        return _leaf(array, refuse)

    def _record(self, array: pa.StructArray, kind: Any, refuse: Refuse) -> list[Piece]:
        own = {legal_name(field.name): child for field, child in zip(array.type, array.flatten(), strict=True)}
        pieces: list[Piece] = []
        for part in kind["fields"]:
            known = part["name"] in own
            pieces += self.pieces(own[part["name"]], part["type"], refuse) if known else self.nothing(part["type"])
        return pieces

    def _map(self, array: pa.MapArray, kind: Any, refuse: Refuse) -> list[Piece]:
        lengths, entries = lists(array)
        keys, items = entries.flatten()
        once_each(keys, lengths, refuse)
        inner = below(refuse, lengths)
        if is_text(array.type.key_type):
            found = [*_leaf(decoded(keys), inner), *self.pieces(items, kind["values"], inner)]
        else:
            entry = avro.without_null(kind["items"], self.names)[0]
            types = {part["name"]: part["type"] for part in entry["fields"]}  # type: ignore[index,call-overload]
            found = [*self.pieces(keys, types["key"], inner), *self.pieces(items, types["value"], inner)]
        return _blocks(lengths, join(found, len(entries)))


def _blocks(lengths: Any, elements: pa.Array) -> list[Piece]:
    """Return lists as one block each, the number of elements before it; an empty one has no block at all."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    counts = zigzags(lengths)
    empty = pa.array(np.asarray(lengths) == 0)
    counts = pc.if_else(empty, pa.scalar(b"", counts.type), counts)
    return [counts, gathered(elements, lengths, b""), _END]


def _leaf(array: pa.Array, refuse: Refuse) -> list[Piece]:
    from pyarrow import types

    kind = array.type
    if types.is_null(kind):
        return []
    if is_text(kind) or is_binary(kind):
        return prefixed(utf8(array, refuse) if is_text(kind) else binary(array), signed=True)
    if times.is_time(kind):
        return [zigzags(times.whole(array, refuse))]
    if decimal_digits(kind) is not None:
        return [zigzag(width_bytes(kind)), big_endian(array)]
    return [_number(array)]


def _number(array: pa.Array) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    zero = array.fill_null(pa.scalar(0, pa.int8()).cast(array.type))
    numbers = zero.to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(array.type):
        return fixed(numbers.astype(np.uint8))
    if pa.types.is_floating(array.type):
        return fixed(numbers.astype(np.float32) if array.type.bit_width == 16 else numbers)
    return zigzags(numbers)
