"""The key digest of a day: the sum of its rows' keys, in any order."""

from __future__ import annotations

import binascii
from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConnectError

if TYPE_CHECKING:
    import pyarrow as pa

RECORD_KEY = "record_key"
_DIGITS = 32
_MODULUS = 1 << 128


def combine_digests(digests: Iterable[str | None]) -> str | None:
    """Return the key digest of several parts together, None if a part has none."""
    all_digests = list(digests)
    known_digests = [int(digest, 16) for digest in all_digests if digest is not None]
    return _text(sum(known_digests)) if len(known_digests) == len(all_digests) else None


def _text(key_sum: int) -> str:
    return f"{key_sum % _MODULUS:0{_DIGITS}x}"


class KeyDigest:
    """Key digest of batches, None without a column ``record_key``."""

    def __init__(self, schema: pa.Schema) -> None:
        self._column = schema.get_field_index(RECORD_KEY)
        self._sum = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch's keys."""
        if self._column >= 0:
            self._sum += sum_keys(batch.column(self._column))

    @property
    def text(self) -> str | None:
        """The digest as 32 hex digits, or None."""
        return _text(self._sum) if self._column >= 0 else None


def sum_keys(keys: pa.StringArray) -> int:
    """Return the sum of a column's keys as numbers, exact for fewer than 2**32 keys."""
    return sum_digests(key_bytes(keys))


def sum_digests(digests: bytes) -> int:
    """Return the sum of concatenated 16-byte digests, exact for fewer than 2**32."""
    import numpy as np

    words = np.frombuffer(digests, ">u4").astype(np.uint32)
    return sum(int(words[i::4].sum(dtype=np.uint64)) << shift for i, shift in enumerate((96, 64, 32, 0)))


def key_bytes(keys: pa.StringArray) -> bytes:
    """Return a column's keys as bytes, 16 for each key.

    :raises ConnectError: another key.
    """
    try:
        return binascii.unhexlify(_digits(keys))
    except ValueError:
        raise ConnectError(
            f"the source's column {RECORD_KEY} holds a value that is not a key. "
            "Make each value a string of 32 hex digits"
        ) from None


def _digits(keys: pa.StringArray) -> memoryview:
    import numpy as np
    import pyarrow as pa

    if not pa.types.is_string(keys.type) or keys.null_count:
        raise ValueError
    if not len(keys):
        return memoryview(b"")
    _, offsets, text = keys.buffers()
    ends = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    if (np.diff(ends) != _DIGITS).any():
        raise ValueError
    return memoryview(text)[ends[0] : ends[-1]]
