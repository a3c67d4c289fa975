"""Values as bytes, made column by column: what all converters of Kafka records share.

A value is cut into pieces: bytes that are the same in every row, and arrays with one entry a row. All pieces of a
record are joined in one pass, so that Python sees no single row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_provider_connect.values.arrow import not_utf8, true_rows

if TYPE_CHECKING:
    import pyarrow as pa

Piece: TypeAlias = "bytes | pa.Array"
"""Bytes for all rows, or an array of ``large_binary``; an entry that is NULL counts for nothing."""

Refuse = Callable[[Any, str], None]
"""Takes a mask (Arrow or numpy) of rows and the reason, which completes "rows with …" without a value of theirs."""


class Refused:
    """The rows of a batch that cannot be written: index, then the first column that is the reason, and why."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[str, str]] = {}

    def of(self, column: str) -> Refuse:
        """Return what takes the rows that a column refuses."""

        def refuse(mask: Any, reason: str) -> None:
            for row in true_rows(mask).tolist():
                self.rows.setdefault(row, (column, reason))

        return refuse


def below(refuse: Refuse, lengths: Any) -> Refuse:
    """Return what refuses the rows that hold the refused elements of their lists.

    :param lengths: how many elements each row has; a numpy array.
    """
    import numpy as np

    def refuse_rows(mask: Any, reason: str) -> None:
        rows = np.zeros(len(lengths), bool)
        rows[np.repeat(np.arange(len(lengths)), lengths)[true_rows(mask)]] = True
        refuse(rows, reason)

    return refuse_rows


def join(pieces: Sequence[Piece], rows: int) -> pa.Array:
    """Return each row's pieces, one after the other; none of them is NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.large_binary()
    merged: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += piece
        elif len(piece):
            merged.append(piece)
    if all(isinstance(piece, bytes) for piece in merged):
        return pa.repeat(pa.scalar(merged[0] if merged else b"", kind), rows)
    if len(merged) == 1 and not merged[0].null_count:  # type: ignore[union-attr]
        return merged[0]
    parts = [pa.scalar(piece, kind) if isinstance(piece, bytes) else piece for piece in merged]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", kind), null_handling="replace", null_replacement="")


def optional(array: pa.Array, body: Sequence[Piece], present: bytes, absent: bytes) -> list[Piece]:
    """Return the pieces of a column that may hold NULL.

    :param body: what a value becomes; whatever there is in the rows of a NULL is dropped.
    :param present: before a value.
    :param absent: what NULL becomes.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not array.null_count:
        return [present, *body]
    if array.null_count == len(array):
        return [absent]
    joined = join([present, *body], len(array))
    return [pc.if_else(array.is_valid(), joined, pa.scalar(absent, joined.type))]


def values(array: pa.Array) -> list[bytes | None]:
    """Return an array of binaries as Python's bytes."""
    found: list[bytes | None] = array.to_numpy(zero_copy_only=False).tolist()
    return found


def decoded(array: pa.Array) -> pa.Array:
    """Return an array without dictionary; its nested parts may still have theirs."""
    import pyarrow as pa

    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def binary(array: pa.Array) -> pa.Array:
    """Return strings or binaries of any layout as ``large_binary``; the bytes are not copied."""
    import pyarrow as pa

    if pa.types.is_string(array.type) or pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    elif not pa.types.is_large_string(array.type):
        array = array.cast(pa.binary()) if pa.types.is_fixed_size_binary(array.type) else array
    return array.cast(pa.large_binary())


def bytes_of(array: pa.Array) -> tuple[Any, Any]:
    """Return the bytes of a ``large_binary`` array as one numpy array, and where each row ends in it."""
    import numpy as np

    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    whole = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return whole[ends[0] : ends[-1]], ends[1:] - ends[0]


def from_parts(data: Any, lengths: Any) -> pa.Array:
    """Return a ``large_binary`` array of rows that follow one another in ``data``; numpy arrays."""
    import numpy as np
    import pyarrow as pa

    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)


def utf8(array: pa.Array, refuse: Refuse) -> pa.Array:
    """Return strings as ``large_binary``; refuse rows that are no UTF-8, which Arrow and Parquet let through."""
    import numpy as np
    import pyarrow as pa

    texts = binary(array)
    bad = not_utf8(texts.view(pa.large_string()))
    if bad:
        mask = np.zeros(len(texts), bool)
        mask[bad] = True
        refuse(mask, "a text that is no UTF-8")
    return texts


def gathered(elements: pa.Array, lengths: Any, separator: bytes) -> pa.Array:
    """Return, for each row, its elements (``large_binary``) one after the other.

    :param lengths: how many elements each row has; a numpy array.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    grouped = pa.LargeListArray.from_arrays(pa.array(offsets), elements)
    return pc.binary_join(grouped, pa.scalar(separator, pa.large_binary()))
