"""Keys of rows as one Arrow array that kernels can look up, and the order of two versions of a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_SPREAD = 0x9E3779B97F4A7C15
"""An odd constant that spreads its multiples over 64 bits (Fibonacci hashing)."""


def plain(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array in the table's type, without views and dictionaries, which kernels cannot look up."""
    import pyarrow as pa

    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        kind = pa.string()
    elif pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        kind = pa.binary()
    return array.cast(kind)


def encode_keys(columns: Sequence[pa.Array]) -> pa.Array:
    """Return one value for each row. Two rows have the same value only if all columns are equal.

    NULL if a column is NULL. Each part of a composite key follows its length, so that parts cannot run together.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(columns) == 1:
        return columns[0]
    parts: list[Any] = []
    for column in columns:
        text = column if pa.types.is_binary(column.type) else column.cast(pa.string()).cast(pa.binary())
        parts += [pc.binary_length(text).cast(pa.string()).cast(pa.binary()), text]
    return pc.binary_join_element_wise(*parts, pa.scalar(b":"))


def newest_values(column: pa.Array) -> pa.Array:
    """Return the values of ``newest_by`` with NaN as NULL, which is lower than any value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pc.is_nan(column), None, column) if pa.types.is_floating(column.type) else column


def newer_mask(staged: pa.Array | None, existing: pa.Array | None, *, by_day: Any) -> np.ndarray[Any, Any]:
    """Return for each pair of rows whether the staged row may replace the existing one.

    :param staged: values of ``newest_by``, or None without that option. So is ``existing``.
    :param by_day: for each pair, whether the existing row's day is not later. It decides between equal values.
    """
    import numpy as np
    import pyarrow.compute as pc

    if staged is None or existing is None:
        return np.asarray(by_day)
    new_null, old_null = _flags(pc.is_null(staged)), _flags(pc.is_null(existing))
    greater, equal = (
        _flags(pc.fill_null(kernel(staged, existing), False))  # noqa: FBT003  # pyarrow's own positional
        for kernel in (pc.greater, pc.equal)
    )
    is_same = equal | (new_null & old_null)
    mask: np.ndarray[Any, Any] = greater | (old_null & ~new_null) | (is_same & np.asarray(by_day))
    return mask


def newest_positions(keys: pa.Array, newest: pa.Array | None, positions: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the index of each key's winning row: highest ``newest_by``, then highest position."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = {"key": pc.dictionary_encode(keys).indices, "position": pa.array(positions)}
    order = ["key", "position"]
    if newest is not None:
        # Ascending order has NULL last, but NULL is the lowest here.
        columns |= {"filled": pc.is_valid(newest), "newest": newest}
        order = ["key", "filled", "newest", "position"]
    indices = pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in order]).to_numpy()
    codes = columns["key"].to_numpy()[indices]
    is_last = np.append(codes[1:] != codes[:-1], True) if len(codes) else np.zeros(0, bool)
    winners: np.ndarray[Any, Any] = np.sort(indices[is_last])
    return winners


def key_rounds(keys: pa.Array, rounds: int) -> np.ndarray[Any, Any]:
    """Return for each key the number of the round that merges it, the same in every file. -1 for NULL.

    The number depends on the key's bytes alone.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    text = keys if pa.types.is_binary(keys.type) else keys.cast(pa.string()).cast(pa.binary())
    text = pc.fill_null(text, b"")
    offsets = np.frombuffer(text.buffers()[1], np.int32)[text.offset : text.offset + len(text) + 1].astype(np.int64)
    data = np.frombuffer(text.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    offsets -= offsets[0]
    places = np.arange(len(data), dtype=np.uint64) - np.repeat(offsets[:-1], np.diff(offsets)).astype(np.uint64)
    weighted = (data.astype(np.uint64) + np.uint64(1)) * ((places * np.uint64(2) + np.uint64(1)) * np.uint64(_SPREAD))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weighted, dtype=np.uint64)])
    hashes = (sums[offsets[1:]] - sums[offsets[:-1]]) * np.uint64(_SPREAD)
    numbers: np.ndarray[Any, Any] = ((hashes >> np.uint64(32)) * np.uint64(rounds) >> np.uint64(32)).astype(np.int64)
    numbers[_flags(pc.is_null(keys))] = -1
    return numbers


def _flags(array: Any) -> np.ndarray[Any, Any]:
    flags: np.ndarray[Any, Any] = array.to_numpy(zero_copy_only=False)
    return flags
