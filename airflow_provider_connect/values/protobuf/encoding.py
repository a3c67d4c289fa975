"""Protobuf's wire format of Arrow columns: the ``protobuf`` converter.

https://protobuf.dev/programming-guides/encoding/ (2026-11)
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_connect.values import times
from airflow_provider_connect.values.arrays import (
    Piece,
    Refuse,
    RefusedRows,
    as_binary,
    as_numbers,
    as_utf8,
    join_by_row,
    join_pieces,
    pieces_or_null,
    refuse_by_element,
    refuse_doubled_keys,
    without_dictionary,
)
from airflow_provider_connect.values.arrow import lengths_and_elements, true_rows, type_group
from airflow_provider_connect.values.converters import DAY, Converter, SchemaLanguage, SchemaRef, registry_prefix
from airflow_provider_connect.values.json.text import number_texts
from airflow_provider_connect.values.names import children_by_legal_name, legal_name
from airflow_provider_connect.values.numbers import length_prefixed, little_endian, varint, varints, zigzag
from airflow_provider_connect.values.protobuf import schema as protobuf
from airflow_provider_connect.values.protobuf.text import source_text

if TYPE_CHECKING:
    import pyarrow as pa

_VARINT, _EIGHT_BYTES, _PREFIXED, _FOUR_BYTES = 0, 1, 2, 5


class ProtobufConverter(Converter):
    """Protobuf messages, each after the id of its schema and the index of its message type there."""

    kind: ClassVar[SchemaLanguage | None] = "PROTOBUF"
    format_name = "Protobuf"

    def problems(self) -> list[str]:
        """Return a problem for each column that Protobuf cannot hold, or for a missing library."""
        try:
            import google.protobuf  # noqa: F401
        except ModuleNotFoundError as error:
            return [
                f"{error.name} is missing: install airflow-provider-connect[registry] where tasks and executors run"
            ]
        return super().problems() or protobuf.problems(self.schema, self.record_name, self.day)

    @cached_property
    def document(self) -> str:
        """Source text of the ``.proto`` file."""
        return source_text(self._descriptor)

    @cached_property
    def _descriptor(self) -> Any:
        return protobuf.descriptor(self.schema, self.record_name, self.day)

    def pieces(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: RefusedRows) -> list[Piece]:
        """Return the schema's id and each row as a message with the registered schema's field numbers."""
        start = registry_prefix(ref)
        file = _registered(ref.document) if ref and ref.document else self._descriptor
        index, message = protobuf.find_message(file, self.record_name)
        writer = _Writer(protobuf.messages_by_name(file))
        fields = {field.name: field for field in message.field}
        pieces: list[Piece] = [start + _message_path(index)]
        if self.day is not None:
            day = self.day.isoformat().encode()
            pieces.append(_tag(fields[DAY], _PREFIXED) + varint(len(day)) + day)
        for field in sorted(self.schema, key=lambda field: fields[legal_name(field.name)].number):
            array, refuse = refused.read_column(batch, field)
            pieces += writer.pieces(array, fields[legal_name(field.name)], refuse)
        return pieces


@lru_cache(maxsize=8)
def _registered(text: str) -> Any:
    return protobuf.parse_registered(text)


def _message_path(index: int) -> bytes:
    return zigzag(1) + zigzag(index) if index else b"\0"


def _tag(field: Any, wire: int) -> bytes:
    return varint(field.number << 3 | wire)


class _Writer:
    def __init__(self, messages: dict[str, Any]) -> None:
        self.messages = messages

    def pieces(self, array: pa.Array, field: Any, refuse: Refuse) -> list[Piece]:
        """Return the pieces of a column's fields, with tags. NULL and empty lists have no field."""
        array = without_dictionary(array)
        if protobuf.is_repeated(field):
            return self._repeated(array, field, refuse)
        wire, body = self._value(array, field, refuse)
        return pieces_or_null(array, body, _tag(field, wire), b"")

    def _value(self, array: pa.Array, field: Any, refuse: Refuse) -> tuple[int, list[Piece]]:
        if type_group(array.type) == "struct":
            return _PREFIXED, self._message(children_by_legal_name(array), field, len(array), refuse)
        return _leaf(array, refuse)

    def _message(self, columns: dict[str, pa.Array], field: Any, rows: int, refuse: Refuse) -> list[Piece]:
        pieces: list[Piece] = []
        for part in self.messages[field.type_name].field:
            if part.name in columns:
                pieces += self.pieces(columns[part.name], part, refuse)
        return length_prefixed(join_pieces(pieces, rows), signed=False)

    def _repeated(self, array: pa.Array, field: Any, refuse: Refuse) -> list[Piece]:
        lengths, elements = lengths_and_elements(array)
        elements = without_dictionary(elements)
        inner = refuse_by_element(refuse, lengths)
        if type_group(array.type) == "map":
            refuse_doubled_keys(elements.field("key"), lengths, refuse)
        elif elements.null_count and not protobuf.needs_message(elements.type):
            inner(true_rows(elements.is_null()), "NULL inside a list, which Protobuf does not have")
        if protobuf.needs_message(elements.type):
            body = self._message({protobuf.LIST_FIELD: elements}, field, len(elements), inner)
            wire = _PREFIXED
        else:
            wire, body = self._value(elements, field, inner)
        if wire == _PREFIXED:
            return [join_by_row(join_pieces([_tag(field, wire), *body], len(elements)), lengths, b"")]
        return _packed(join_by_row(join_pieces(body, len(elements)), lengths, b""), field)


def _packed(numbers: pa.Array, field: Any) -> list[Piece]:
    import pyarrow as pa
    import pyarrow.compute as pc

    packed_field = join_pieces([_tag(field, _PREFIXED), *length_prefixed(numbers, signed=False)], len(numbers))
    return [pc.if_else(pc.equal(pc.binary_length(numbers), 0), pa.scalar(b"", packed_field.type), packed_field)]


def _leaf(array: pa.Array, refuse: Refuse) -> tuple[int, list[Piece]]:
    import numpy as np

    shape = type_group(array.type)
    if shape == "timestamp" and array.type.tz:
        return _PREFIXED, _timestamp(array, refuse)
    if shape not in ("boolean", "integer", "float"):
        return _PREFIXED, length_prefixed(_text(array, refuse), signed=False)
    numbers = as_numbers(array)
    if shape == "float":
        return (_FOUR_BYTES if numbers.itemsize == 4 else _EIGHT_BYTES), [little_endian(numbers)]
    # A negative number is written as 64 bits, whatever its type.
    return _VARINT, [varints(numbers if numbers.dtype == np.uint64 else numbers.astype(np.int64))]


def _text(array: pa.Array, refuse: Refuse) -> pa.Array:
    import pyarrow as pa

    shape = type_group(array.type)
    if shape == "null":
        return pa.nulls(len(array), pa.large_binary())
    if shape == "text":
        return as_utf8(array, refuse)
    if shape == "binary":
        return as_binary(array)
    return number_texts(array, refuse) if shape == "decimal" else times.iso_texts(array, refuse)


def _timestamp(array: pa.Array, refuse: Refuse) -> list[Piece]:
    import numpy as np

    seconds, micros = np.divmod(times.whole_numbers(array, refuse), 1_000_000)
    parts: list[Piece] = [varint(1 << 3), varints(seconds), varint(2 << 3), varints(micros * 1000)]
    return length_prefixed(join_pieces(parts, len(array)), signed=False)
