"""Protobuf's wire format of Arrow columns, column by column: the values of the ``protobuf`` converter.

https://protobuf.dev/programming-guides/encoding/ (2026-11)
"""

from __future__ import annotations

from functools import cached_property, lru_cache
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
from airflow_provider_connect.values.arrow import is_binary, is_text, lists
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
from airflow_provider_connect.values.json.text import numbers, once_each
from airflow_provider_connect.values.protobuf import schema as protobuf
from airflow_provider_connect.values.protobuf.text import printed
from airflow_provider_connect.values.types import unwritable
from airflow_provider_connect.values.varints import fixed, prefixed, varint, varints, zigzag

if TYPE_CHECKING:
    import pyarrow as pa

_VARINT, _EIGHT_BYTES, _PREFIXED, _FOUR_BYTES = 0, 1, 2, 5
_NULL_ELEMENT = "NULL inside a list, which Protobuf has not"


class ProtobufConverter(Converter):
    """Protobuf messages behind the id of their schema and the place of the message in it."""

    kind: ClassVar[Kind | None] = "PROTOBUF"

    def problems(self) -> list[str]:
        """Name every column that Protobuf has no form for; or say that Google's library is missing."""
        try:
            import google.protobuf  # noqa: F401
        except ModuleNotFoundError as error:
            return [
                f"{error.name} is missing: install airflow-provider-connect[registry] where tasks and executors run"
            ]
        found = name_problems(self.record_name) + unwritable(self.schema, "Protobuf")
        return found or protobuf.problems(self.schema, self.record_name, self.day)

    def document(self) -> str:
        """Return the source text of the one file."""
        return printed(self._descriptor)

    @cached_property
    def _descriptor(self) -> Any:
        return protobuf.descriptor(self.schema, self.record_name, self.day)

    def encode(self, batch: pa.RecordBatch, ref: SchemaRef | None) -> Encoded:
        """Return each row as one message, by the numbers of the registered schema."""
        start = framed(ref)
        file = _registered(ref.document) if ref and ref.document else self._descriptor
        place, message = protobuf.message_of(file, self.record_name)
        writer = _Writer(protobuf.inner_messages(file))
        fields = {field.name: field for field in message.field}
        refused = Refused()
        pieces: list[Piece] = [start + _index(place)]
        if self.day is not None:
            day = self.day.isoformat().encode()
            pieces.append(_tag(fields[DAY], _PREFIXED) + varint(len(day)) + day)
        for field in sorted(self.schema, key=lambda field: fields[legal_name(field.name)].number):
            array = checked(batch, field, refused)
            pieces += writer.pieces(array, fields[legal_name(field.name)], refused.of(field.name))
        return encoded(pieces, batch.num_rows, refused)


@lru_cache(maxsize=8)
def _registered(text: str) -> Any:
    """Return a registered schema's descriptor, which every batch needs."""
    return protobuf.parsed(text)


def _index(place: int) -> bytes:
    """Return the path to the message: its length, then each place; the first message of a file is a mere 0."""
    return zigzag(1) + zigzag(place) if place else b"\0"


def _tag(field: Any, wire: int) -> bytes:
    return varint(field.number << 3 | wire)


class _Writer:
    """Writes columns by a descriptor that takes them, as :func:`.protobuf.schema.misfits` finds out before.

    :param messages: all messages of the file, by full name.
    """

    def __init__(self, messages: dict[str, Any]) -> None:
        self.messages = messages

    def pieces(self, array: pa.Array, field: Any, refuse: Refuse) -> list[Piece]:
        """Return the pieces of a column's fields, tags included; NULL has none, and a NULL list is an empty one."""
        array = decoded(array)
        if protobuf.is_repeated(field):
            return self._repeated(array, field, refuse)
        wire, body = self._value(array, field, refuse)
        return optional(array, body, _tag(field, wire), b"")

    def _value(self, array: pa.Array, field: Any, refuse: Refuse) -> tuple[int, list[Piece]]:
        from pyarrow import types

        if types.is_struct(array.type):
            return _PREFIXED, self._message(_children(array), field, len(array), refuse)
        return _leaf(array, refuse)

    def _message(self, columns: dict[str, pa.Array], field: Any, rows: int, refuse: Refuse) -> list[Piece]:
        pieces: list[Piece] = []
        for part in self.messages[field.type_name].field:
            if part.name in columns:
                pieces += self.pieces(columns[part.name], part, refuse)
        return prefixed(join(pieces, rows), signed=False)

    def _repeated(self, array: pa.Array, field: Any, refuse: Refuse) -> list[Piece]:
        from pyarrow import types

        lengths, elements = lists(array)
        elements = decoded(elements)
        inner = below(refuse, lengths)
        if types.is_map(array.type):
            once_each(elements.field("key"), lengths, refuse)
        elif elements.null_count and not protobuf.wraps(elements.type):
            inner(elements.is_null(), _NULL_ELEMENT)
        if protobuf.wraps(elements.type):
            body = self._message({protobuf.INNER: elements}, field, len(elements), inner)
            wire = _PREFIXED
        else:
            wire, body = self._value(elements, field, inner)
        if wire == _PREFIXED:
            return [gathered(join([_tag(field, wire), *body], len(elements)), lengths, b"")]
        return _packed(gathered(join(body, len(elements)), lengths, b""), field)


def _packed(numbers: pa.Array, field: Any) -> list[Piece]:
    """Return all numbers of a row behind one tag; none where there are none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = join([_tag(field, _PREFIXED), *prefixed(numbers, signed=False)], len(numbers))
    return [pc.if_else(pc.equal(pc.binary_length(numbers), 0), pa.scalar(b"", whole.type), whole)]


def _children(array: pa.StructArray) -> dict[str, pa.Array]:
    return {legal_name(field.name): child for field, child in zip(array.type, array.flatten(), strict=True)}


def _leaf(array: pa.Array, refuse: Refuse) -> tuple[int, list[Piece]]:
    """Return how values are delimited, and their pieces."""
    from pyarrow import types

    kind = array.type
    if types.is_timestamp(kind) and kind.tz:
        return _PREFIXED, _timestamp(array, refuse)
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_floating(kind):
        return _number(array)
    return _PREFIXED, prefixed(_text(array, refuse), signed=False)


def _text(array: pa.Array, refuse: Refuse) -> pa.Array:
    import pyarrow as pa

    kind = array.type
    if pa.types.is_null(kind):
        return pa.nulls(len(array), pa.large_binary())
    if is_text(kind):
        return utf8(array, refuse)
    if is_binary(kind):
        return binary(array)
    return times.text(array, refuse) if times.is_time(kind) else numbers(array, refuse)


def _number(array: pa.Array) -> tuple[int, list[Piece]]:
    import numpy as np
    import pyarrow as pa

    found = array.fill_null(pa.scalar(0, pa.int8()).cast(array.type)).to_numpy(zero_copy_only=False)
    if not pa.types.is_floating(array.type):
        # A negative number is written as 64 bits, whatever its type.
        return _VARINT, [varints(found if pa.types.is_uint64(array.type) else found.astype(np.int64))]
    found = found.astype(np.float32) if array.type.bit_width == 16 else found
    return (_FOUR_BYTES if found.itemsize == 4 else _EIGHT_BYTES), [fixed(found)]


def _timestamp(array: pa.Array, refuse: Refuse) -> list[Piece]:
    """Return messages of seconds and, from 0 up, nanoseconds."""
    import numpy as np

    seconds, micros = np.divmod(times.whole(array, refuse), 1_000_000)
    parts: list[Piece] = [varint(1 << 3), varints(seconds), varint(2 << 3), varints(micros * 1000)]
    return prefixed(join(parts, len(array)), signed=False)
