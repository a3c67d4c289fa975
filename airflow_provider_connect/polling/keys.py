"""Computes record keys from the columns that identify a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_SEPARATOR = b"\xff"
_NULL = b"\xfe"


def record_keys(variant: str, columns: Sequence[pa.Array]) -> bytes:
    """Return one 16-byte key per row, concatenated.

    XXH3-128 over the stream's variant, if any, and the columns in UTF-8, joined by 0xFF. Null is 0xFE.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from xxhash import xxh3_128_digest

    texts: list[Any] = [column.cast(pa.string()).cast(pa.binary()) for column in columns]
    texts = [pc.fill_null(text, _NULL) if text.null_count else text for text in texts]
    parts = [pa.scalar(variant.encode(), pa.binary()), *texts] if variant else texts
    joined = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, pa.scalar(_SEPARATOR, pa.binary()))
    return b"".join(map(xxh3_128_digest, joined.to_pylist()))


def hex_record_keys(variant: str, columns: Sequence[pa.Array]) -> pa.StringArray:
    """Return the keys of :func:`record_keys` as a column of 32 hex digits."""
    return keys_as_hex(record_keys(variant, columns))


def keys_as_hex(key_bytes: bytes) -> pa.StringArray:
    """Convert concatenated 16-byte keys to a column of hex digits."""
    import numpy as np
    import pyarrow as pa

    count = len(key_bytes) // 16
    offsets = np.arange(0, 32 * count + 1, 32, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(key_bytes.hex().encode()))
