"""Whole numbers as Avro and Protobuf write them: seven bits a byte, the lowest first; a column at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_connect.values.arrays import Piece, bytes_of, from_parts

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_BYTES = 10  # of 64 bits


def varint(number: int) -> bytes:
    """Return one number, 0 or more, as a varint."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def zigzag(number: int) -> bytes:
    """Return one whole number so that small ones are short, whatever their sign: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


def varints(numbers: Any) -> pa.Array:
    """Return a numpy array of whole numbers as varints; negative ones as their two's complement of 64 bits."""
    import numpy as np

    left = np.ascontiguousarray(numbers).astype(np.uint64, copy=False)
    lengths = np.ones(len(left), np.int64)
    for count in range(1, _MAX_BYTES):
        longer = left >= np.uint64(1 << 7 * count)
        if not longer.any():
            break
        lengths += longer
    ends = np.cumsum(lengths)
    data = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    starts = ends - lengths
    for place in range(int(lengths.max(initial=0))):
        here = lengths > place
        more = (lengths > place + 1).astype(np.uint8) << 7
        byte = ((left >> np.uint64(7 * place)) & np.uint64(0x7F)).astype(np.uint8) | more
        data[starts[here] + place] = byte[here]
    return from_parts(data, lengths)


def zigzags(numbers: Any) -> pa.Array:
    """Return a numpy array of whole numbers (int64) as :func:`zigzag` does."""
    import numpy as np

    signed = np.ascontiguousarray(numbers).astype(np.int64, copy=False)
    return varints(((signed << 1) ^ (signed >> 63)).view(np.uint64))


def lengths_of(texts: pa.Array) -> Any:
    """Return how many bytes each row of a ``large_binary`` array has, as numpy; NULL has none."""
    import numpy as np

    _, ends = bytes_of(texts)
    return np.diff(ends, prepend=0)


def fixed(numbers: Any) -> pa.Array:
    """Return each number of a numpy array as its bytes in memory, the lowest first on every machine."""
    import numpy as np

    little = np.ascontiguousarray(numbers.astype(numbers.dtype.newbyteorder("<"), copy=False))
    return from_parts(little.view(np.uint8), np.full(len(numbers), little.itemsize, np.int64))


def prefixed(texts: pa.Array, *, signed: bool) -> list[Piece]:
    """Return binaries with their length before them.

    :param signed: write the length as Avro does, in zigzag; Protobuf does not.
    """
    lengths = lengths_of(texts)
    return [zigzags(lengths) if signed else varints(lengths), texts]
