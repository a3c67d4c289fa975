"""JSON text of Arrow columns, without a look at single rows: the values of the ``json`` converter, and JSON keys.

==========================  =====================================================================
whole and decimal numbers   a JSON number, all digits
floating point              a JSON number; NaN and the infinities are refused
timestamp                   ISO 8601 with microseconds, ``Z`` where the column has a zone
date, time of day           ISO 8601
binary                      base64
struct                      object, every field named, NULL as ``null``
list                        array
map                         object where keys are strings, else array of ``[key, value]``
field metadata ``json``     the document itself; ``checked`` ones byte for byte, ``unchecked`` ones are parsed before
==========================  =====================================================================
"""

from __future__ import annotations

import binascii
import json
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.values import times
from airflow_provider_connect.values.arrays import (
    Piece,
    Refuse,
    Refused,
    below,
    binary,
    bytes_of,
    decoded,
    gathered,
    join,
    optional,
    utf8,
)
from airflow_provider_connect.values.arrow import is_binary, is_list, is_text, json_mark, lists, true_rows
from airflow_provider_connect.values.encoded import DAY, Converter, Encoded, SchemaRef, checked, encoded
from airflow_provider_connect.values.types import unwritable

if TYPE_CHECKING:
    import datetime as dt

    import pyarrow as pa

NULL = b"null"


class JsonConverter(Converter):
    """Plain JSON objects, without a schema."""

    def __init__(self, schema: pa.Schema, day: dt.date | None, record_name: str) -> None:
        super().__init__(schema, day, record_name)
        self.writer = Writer()

    def problems(self) -> list[str]:
        """Name every column that JSON has no form for."""
        return unwritable(self.schema, "JSON")

    def encode(self, batch: pa.RecordBatch, ref: SchemaRef | None) -> Encoded:
        """Return each row as one object: ``day`` if it has one, then the columns."""
        refused = Refused()
        pieces = self.objects(batch, refused)
        return encoded(pieces, batch.num_rows, refused)

    def objects(self, batch: pa.RecordBatch, refused: Refused) -> list[Piece]:
        """Return the pieces of each row's object."""
        pieces: list[Piece] = [] if self.day is None else [b",", f'"{DAY}":"{self.day.isoformat()}"'.encode()]
        for field in self.schema:
            array = checked(batch, field, refused)
            pieces += [b",", text_of(field.name), b":", *self.writer.pieces(array, field, refused.of(field.name))]
        return [b"{", *pieces[1:], b"}"]


def text_of(value: str) -> bytes:
    """Return a JSON string, quotes included."""
    return json.dumps(value, ensure_ascii=False).encode()


class Writer:
    """Writes columns as plain JSON; a subclass may write single values in another way."""

    def pieces(self, array: pa.Array, field: pa.Field, refuse: Refuse) -> list[Piece]:
        """Return the pieces of a column's JSON values; NULL is ``null``."""
        if array.null_count == len(array):
            return [NULL]
        array = decoded(array)
        return optional(array, self._value(array, field, refuse), b"", NULL)

    def leaf(self, array: pa.Array, field: pa.Field, refuse: Refuse) -> list[Piece]:
        """Return the pieces of values without parts; what is returned for NULL is dropped."""
        from pyarrow import types

        kind = array.type
        if types.is_null(kind):
            return [NULL]
        if is_text(kind):
            mark = json_mark(field)
            return [documents(array, mark, refuse)] if mark else quoted(array, refuse)
        if is_binary(kind):
            return [b'"', base64(array), b'"']
        if times.is_time(kind):
            return [b'"', times.text(array, refuse), b'"']
        return [numbers(array, refuse)]

    def _value(self, array: pa.Array, field: pa.Field, refuse: Refuse) -> list[Piece]:
        from pyarrow import types

        kind = array.type
        if types.is_struct(kind):
            return self._object(array, refuse)
        if types.is_map(kind):
            return self._map(array, refuse)
        if is_list(kind):
            lengths, elements = lists(array)
            inner = self.pieces(elements, kind.value_field, below(refuse, lengths))
            return [b"[", gathered(join(inner, len(elements)), lengths, b","), b"]"]
        return self.leaf(array, field, refuse)

    def _object(self, array: pa.StructArray, refuse: Refuse) -> list[Piece]:
        pieces: list[Piece] = []
        for field, child in zip(array.type, array.flatten(), strict=True):
            pieces += [b"," if pieces else b"", text_of(field.name), b":", *self.pieces(child, field, refuse)]
        return [b"{", *pieces, b"}"]

    def _map(self, array: pa.MapArray, refuse: Refuse) -> list[Piece]:
        """Return objects where keys are strings, as Connect's JsonConverter does, else arrays of pairs."""
        lengths, entries = lists(array)
        keys, items = entries.flatten()
        once_each(keys, lengths, refuse)
        inner = below(refuse, lengths)
        key = self.pieces(keys, array.type.key_field, inner)
        item = self.pieces(items, array.type.item_field, inner)
        if is_text(array.type.key_type):
            return [b"{", gathered(join([*key, b":", *item], len(entries)), lengths, b","), b"}"]
        pairs = join([b"[", *key, b",", *item, b"]"], len(entries))
        return [b"[", gathered(pairs, lengths, b","), b"]"]


def once_each(keys: pa.Array, lengths: Any, refuse: Refuse) -> None:
    """Refuse maps that hold a key twice, of which a reader would see one."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = np.repeat(np.arange(len(lengths)), lengths)
    table = pa.table({"row": rows, "key": decoded(keys)})
    counts = table.group_by(["row", "key"]).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1))["row"].to_numpy()
    if len(twice):
        mask = np.zeros(len(lengths), bool)
        mask[twice] = True
        refuse(mask, "a map with a key that comes twice")


def quoted(array: pa.Array, refuse: Refuse) -> list[Piece]:
    """Return texts as JSON strings."""
    return [b'"', escaped(utf8(array, refuse)), b'"']


def documents(array: pa.Array, mark: str, refuse: Refuse) -> pa.Array:
    """Return a column of JSON documents as it is; ``unchecked`` ones are parsed, and refused if they are no JSON."""
    import msgspec
    import numpy as np

    if mark == "checked":
        return binary(array)
    texts = utf8(array, refuse)
    decoder = msgspec.json.Decoder(strict=False)
    bad = np.zeros(len(texts), bool)
    for row, text in enumerate(texts.to_pylist()):
        try:
            if text is not None:
                decoder.decode(text)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            bad[row] = True
    refuse(bad, "a text that is no JSON")
    return texts


def numbers(array: pa.Array, refuse: Refuse) -> pa.Array:
    """Return numbers and booleans as JSON has them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(array.type):
        array = array.cast(pa.float32()) if pa.types.is_float16(array.type) else array
        finite = pc.is_finite(array)
        if not pc.all(finite, min_count=0).as_py():
            refuse(pc.invert(finite), "NaN or an infinity, which JSON has not")
    return array.cast(pa.large_string()).cast(pa.large_binary())


def escaped(texts: pa.Array) -> pa.Array:
    """Return UTF-8 texts (``large_binary``) with JSON's escapes; the array itself where there is nothing to escape."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    data, ends = bytes_of(texts)
    control = (data < 0x20).nonzero()[0]
    if not len(control) and not (data == 0x22).any() and not (data == 0x5C).any():
        return texts
    mask = np.zeros(len(texts), bool)
    mask[np.searchsorted(ends, control, side="right")] = True
    for special in ('"', "\\"):
        mask[true_rows(pc.match_substring(texts, special))] = True
    found = texts.filter(pa.array(mask)).to_pylist()
    # A look at single rows after all: two searches by Python in a row's bytes are faster than one by numpy in all.
    one = _escaped if len(control) else _backslashed
    return pc.replace_with_mask(texts, pa.array(mask), pa.array([one(text) for text in found], texts.type))


def _backslashed(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def _escaped(text: bytes) -> bytes:
    # A text that is no UTF-8 is refused elsewhere, with its row; until then it must not stop the batch.
    return text_of(text.decode("utf-8", "replace"))[1:-1]


def base64(array: pa.Array) -> pa.Array:
    """Return binaries as base64 text."""
    import pyarrow as pa

    texts = [None if value is None else binascii.b2a_base64(value, newline=False) for value in array.to_pylist()]
    return pa.array(texts, pa.large_binary())
