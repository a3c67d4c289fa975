"""JSON text of Arrow columns, one column at a time: the ``json`` converter.

``docs/kafka.md`` lists the text of each type.
"""

from __future__ import annotations

import binascii
import json
from typing import TYPE_CHECKING

from airflow_provider_connect.values import times
from airflow_provider_connect.values.arrays import (
    Piece,
    Refuse,
    RefusedRows,
    as_binary,
    as_utf8,
    data_and_ends,
    join_by_row,
    join_pieces,
    keys_and_items,
    pieces_or_null,
    refuse_by_element,
    without_dictionary,
)
from airflow_provider_connect.values.arrow import (
    TypeGroup,
    is_text,
    json_mark,
    lengths_and_elements,
    true_rows,
    type_group,
)
from airflow_provider_connect.values.converters import DAY, Converter, SchemaRef

if TYPE_CHECKING:
    import datetime as dt

    import pyarrow as pa

NULL = b"null"


def json_string(value: str) -> bytes:
    """Return a text as a JSON string, including quotes."""
    return json.dumps(value, ensure_ascii=False).encode()


class JsonWriter:
    """Writer of columns as plain JSON."""

    def pieces(self, array: pa.Array, field: pa.Field, refuse: Refuse) -> list[Piece]:
        """Return the pieces of a column's JSON values. NULL is ``null``."""
        if array.null_count == len(array):
            return [NULL]
        array = without_dictionary(array)
        return pieces_or_null(array, self._value(array, field, refuse), b"", NULL)

    def leaf_pieces(self, array: pa.Array, shape: TypeGroup | None, field: pa.Field, refuse: Refuse) -> list[Piece]:
        """Return the pieces of values that are neither struct, map nor list. Pieces of NULL rows are dropped."""
        if shape == "text":
            mark = json_mark(field)
            return [document_texts(array, mark, refuse)] if mark else quote_texts(array, refuse)
        if shape == "binary":
            return [b'"', base64_texts(array), b'"']
        if shape in times.TIME_GROUPS:
            return [b'"', times.iso_texts(array, refuse), b'"']
        return [number_texts(array, refuse)]

    def _value(self, array: pa.Array, field: pa.Field, refuse: Refuse) -> list[Piece]:
        shape = type_group(array.type)
        if shape == "struct":
            return self._object(array, refuse)
        if shape == "map":
            return self._map(array, refuse)
        if shape == "list":
            lengths, elements = lengths_and_elements(array)
            inner = self.pieces(elements, array.type.value_field, refuse_by_element(refuse, lengths))
            return [b"[", join_by_row(join_pieces(inner, len(elements)), lengths, b","), b"]"]
        return self.leaf_pieces(array, shape, field, refuse)

    def _object(self, array: pa.StructArray, refuse: Refuse) -> list[Piece]:
        pieces: list[Piece] = []
        for field, child in zip(array.type, array.flatten(), strict=True):
            pieces += [b"," if pieces else b"", json_string(field.name), b":", *self.pieces(child, field, refuse)]
        return [b"{", *pieces, b"}"]

    def _map(self, array: pa.MapArray, refuse: Refuse) -> list[Piece]:
        lengths, keys, items, inner = keys_and_items(array, refuse)
        key = self.pieces(keys, array.type.key_field, inner)
        item = self.pieces(items, array.type.item_field, inner)
        if is_text(array.type.key_type):
            return [b"{", join_by_row(join_pieces([*key, b":", *item], len(keys)), lengths, b","), b"}"]
        pairs = join_pieces([b"[", *key, b",", *item, b"]"], len(keys))
        return [b"[", join_by_row(pairs, lengths, b","), b"]"]


class JsonConverter(Converter):
    """Plain JSON objects without a schema: ``day`` if set, then the columns."""

    format_name = "JSON"
    writer = JsonWriter()

    def pieces(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: RefusedRows) -> list[Piece]:
        """Return the pieces of each row's object."""
        pieces: list[Piece] = [] if self.day is None else [b",", f'"{DAY}":'.encode(), self.day_value(self.day)]
        for field in self.schema:
            array, refuse = refused.read_column(batch, field)
            pieces += [b",", json_string(field.name), b":", *self.writer.pieces(array, field, refuse)]
        return [b"{", *pieces[1:], b"}"]

    def day_value(self, day: dt.date) -> bytes:
        """Return the day as a JSON value."""
        return json_string(day.isoformat())


def quote_texts(array: pa.Array, refuse: Refuse) -> list[Piece]:
    """Return texts as JSON strings."""
    return [b'"', escape_texts(as_utf8(array, refuse)), b'"']


def document_texts(array: pa.Array, mark: str, refuse: Refuse) -> pa.Array:
    """Return JSON documents unchanged. Refuses ``unchecked`` ones that are not JSON."""
    import msgspec

    if mark == "checked":
        return as_binary(array)
    texts = as_utf8(array, refuse)
    decoder = msgspec.json.Decoder(strict=False)
    bad_rows = []
    for row, text in enumerate(texts.to_pylist()):
        try:
            if text is not None:
                decoder.decode(text)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            bad_rows.append(row)
    refuse(bad_rows, "a text that is not JSON")
    return texts


def number_texts(array: pa.Array, refuse: Refuse) -> pa.Array:
    """Return numbers and booleans as JSON text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(array.type):
        array = array.cast(pa.float32()) if pa.types.is_float16(array.type) else array
        finite = pc.is_finite(array)
        if not pc.all(finite, min_count=0).as_py():
            refuse(true_rows(pc.invert(finite)), "NaN or an infinity, which JSON does not have")
    return array.cast(pa.large_string()).cast(pa.large_binary())


def escape_texts(texts: pa.Array) -> pa.Array:
    """Return UTF-8 texts (``large_binary``) with JSON escapes."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    data, ends = data_and_ends(texts)
    control = (data < 0x20).nonzero()[0]
    if not len(control) and not (data == 0x22).any() and not (data == 0x5C).any():
        return texts
    mask = np.zeros(len(texts), bool)
    mask[np.searchsorted(ends, control, side="right")] = True
    for special in ('"', "\\"):
        mask[true_rows(pc.match_substring(texts, special))] = True
    to_escape = texts.filter(pa.array(mask)).to_pylist()
    # Row by row after all: two searches by Python in one row's bytes are faster than one by numpy in all of them.
    escape = _escaped if len(control) else _backslashed
    return pc.replace_with_mask(texts, pa.array(mask), pa.array([escape(text) for text in to_escape], texts.type))


def _backslashed(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def _escaped(text: bytes) -> bytes:
    # A text that is not UTF-8 is refused elsewhere; here it must not stop the batch.
    return json_string(text.decode("utf-8", "replace"))[1:-1]


def base64_texts(array: pa.Array) -> pa.Array:
    """Return binaries as base64 text."""
    import pyarrow as pa

    texts = [None if value is None else binascii.b2a_base64(value, newline=False) for value in array.to_pylist()]
    return pa.array(texts, pa.large_binary())
