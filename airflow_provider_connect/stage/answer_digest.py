"""The digest of an answer: all its rows with every column, whatever their order.

Each row becomes bytes that say everything about it and that nothing else becomes: first what has a fixed width, which
is numbers, lengths and whether a value is there, then its texts. A hash of these bytes is added up over the rows, so
neither order nor batches nor partitions matter. The digest begins with a hash of the columns' names and types.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.stage.key_digest import sum_digests

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_SCHEMA_DIGITS, _SUM_DIGITS = 16, 32
_MODULUS = 1 << 128
_SLICE_BYTES = 16 << 20
"""Rows are hashed in pieces of this size: each is copied twice on the way."""
_WORD_BYTES = 8
_OF_REJECTS = 1
"""The hash's seed for rejects: a reject is never taken for a row."""


def combine_answer_digests(contents: Iterable[str | None]) -> str | None:
    """Return the digest of all parts of an answer; None if one has none, or other columns than the rest."""
    found = list(contents)
    known = [text for text in found if text is not None]
    schemas = {text[:_SCHEMA_DIGITS] for text in known}
    if len(known) != len(found) or len(schemas) != 1:
        return None
    return _text(schemas.pop(), sum(int(text[_SCHEMA_DIGITS:], 16) for text in known))


def _text(schema: str, total: int) -> str:
    return f"{schema}{total % _MODULUS:0{_SUM_DIGITS}x}"


class AnswerDigest:
    """Adds up the rows of batches, and what was set aside.

    Rows of a type that it cannot read, such as a union, have no digest: they are never called unchanged.
    """

    def __init__(self, schema: pa.Schema) -> None:
        from xxhash import xxh3_64_hexdigest

        plain = [_plain(field.type) for field in schema]
        self._is_known = bool(plain) and all(kind is not None for kind in plain)
        names = repr([(field.name, str(kind)) for field, kind in zip(schema, plain, strict=True)])
        self._schema = xxh3_64_hexdigest(names.encode("utf-8", "surrogatepass"))
        self._sum = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch's rows."""
        from xxhash import xxh3_128_digest

        if not self._is_known or not batch.num_rows:
            return
        rows = max(1, min(batch.num_rows, batch.num_rows * _SLICE_BYTES // max(batch.nbytes, 1)))
        for start in range(0, batch.num_rows, rows):
            piece = batch.slice(start, rows)
            texts = _joined(piece.columns, piece.num_rows).to_numpy(zero_copy_only=False).tolist()
            self._sum += sum_digests(b"".join(map(xxh3_128_digest, texts)))

    def add_rejects(self, rejects: Iterable[tuple[str, bytes]]) -> None:
        """Add what could not become a row, reasons and records: it is published, too, where a sink has rejects."""
        from xxhash import xxh3_128_digest

        texts = (reason.encode("utf-8", "surrogatepass") + b"\0" + record for reason, record in rejects)
        self._sum += sum_digests(b"".join(xxh3_128_digest(text, _OF_REJECTS) for text in texts))

    @property
    def text(self) -> str | None:
        """The digest as 48 hex digits; None where rows cannot be read."""
        return _text(self._schema, self._sum) if self._is_known else None


class _Parts:
    """Columns on their way to bytes.

    :ivar words: arrays of eight bytes for each value.
    :ivar tails: Arrow arrays of binary values, as long as a word says.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.words: list[np.ndarray[Any, Any]] = []
        self.tails: list[pa.Array] = []

    def add(self, array: pa.Array) -> None:
        """Add a column of a type that :func:`_plain` knows.

        Its first word says which values are there. What lies below a null is whatever lay there, and counts as nothing.
        """
        import numpy as np
        from pyarrow import types

        array = _decoded(array)
        valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else np.ones(self.rows, np.bool_)
        if types.is_struct(array.type):
            self.words.append(valid)
            for child in array.flatten():
                self.add(child)
        elif types.is_list(array.type):
            self._add_list(array, valid)
        elif (width := _width(array.type)) is not None:
            self.words.append(valid)
            self._add_words(array, width, valid)
        elif not types.is_null(array.type):
            self._add_text(array, valid)

    def _add_text(self, array: pa.Array, valid: np.ndarray[Any, Any]) -> None:
        import numpy as np
        import pyarrow as pa

        array = array.cast(pa.binary())
        ends = np.frombuffer(array.buffers()[1], np.int32, self.rows + 1, array.offset * 4)
        self.words.append(np.where(valid, np.diff(ends), -1) if array.null_count else np.diff(ends))
        self.tails.append(array)

    def _add_list(self, array: pa.Array, valid: np.ndarray[Any, Any]) -> None:
        """Add the bytes of each list's elements, one after another: how long each is, its own bytes say."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        lengths = np.diff(np.frombuffer(array.buffers()[1], np.int32, self.rows + 1, array.offset * 4))
        self.words.append(np.where(valid, lengths, -1))
        elements = array.flatten()  # without those of lists that are null
        ends = np.concatenate([[0], np.cumsum(np.where(valid, lengths, 0))]).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(ends), _joined([elements], len(elements)))
        self.tails.append(pc.binary_join(lists, pa.scalar(b"", pa.binary())))

    def _add_words(self, array: pa.Array, width: int, valid: np.ndarray[Any, Any]) -> None:
        import numpy as np
        import pyarrow as pa

        if pa.types.is_boolean(array.type):
            array = array.cast(pa.uint8())
        count, kind = max(1, width // 8), f"<u{min(width, 8)}"
        values = np.frombuffer(array.buffers()[1], kind, self.rows * count, array.offset * width)
        for word in values.reshape(self.rows, count).T:
            self.words.append(np.where(valid, word, 0) if array.null_count else word)


def _joined(columns: Iterable[pa.Array], rows: int) -> pa.Array:
    """Return the bytes of each row."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if not rows:
        return pa.array([], pa.binary())
    parts = _Parts(rows)
    for column in columns:
        parts.add(column)
    heads = np.empty((rows, len(parts.words)), "<i8")
    for at, word in enumerate(parts.words):
        heads[:, at] = word.view("<i8") if word.dtype.itemsize == _WORD_BYTES else word
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(len(parts.words) * _WORD_BYTES)
    head = pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(ends), pa.py_buffer(heads)])
    if not parts.tails:
        return head
    separator = pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(head, *parts.tails, separator, null_handling="replace", null_replacement=b"")


def _width(kind: pa.DataType) -> int | None:
    """Return how many bytes each value takes, where all take 1, 2, 4, 8 or a multiple of 8."""
    from pyarrow import types

    if types.is_boolean(kind):
        return 1
    if types.is_primitive(kind) or types.is_decimal(kind) or types.is_interval(kind):
        return int(kind.bit_width) // 8
    return None


def _plain(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that a column counts as, however it is encoded; None if it cannot be read."""
    import pyarrow as pa
    from pyarrow import types

    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _plain(kind.value_type)
    if types.is_nested(kind):
        return _plain_nested(kind)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.large_binary()
    return kind


def _plain_nested(kind: pa.DataType) -> pa.DataType | None:
    import pyarrow as pa
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        value = _plain(kind.value_type)
        return None if value is None else pa.list_(value)
    if types.is_map(kind):
        return _plain(pa.list_(_entries(kind)))
    if types.is_struct(kind):
        found = [(field.name, _plain(field.type)) for field in kind]
        return None if any(value is None for _, value in found) else pa.struct(found)
    return None


def _entries(kind: pa.MapType) -> pa.StructType:
    import pyarrow as pa

    return pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])


def _decoded(array: pa.Array) -> pa.Array:
    """Return the values of a column without its encoding; those inside a list or struct may still have one."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    kind, plain = array.type, None
    if isinstance(kind, pa.BaseExtensionType):
        plain = array.storage
    elif types.is_dictionary(kind):
        plain = array.dictionary_decode()
    elif types.is_run_end_encoded(kind):
        plain = pc.run_end_decode(array)
    elif types.is_string_view(kind) or types.is_binary_view(kind):
        plain = array.cast(_plain(kind))
    elif types.is_map(kind):
        plain = array.cast(pa.list_(_entries(kind)))
    elif types.is_large_list(kind) or types.is_fixed_size_list(kind):
        plain = array.cast(pa.list_(kind.value_field))
    return array if plain is None else _decoded(plain)
