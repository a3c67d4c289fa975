"""Numbers as Avro and Protobuf write them, a column at once: varints have seven bits a byte, the lowest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_connect.values.arrays import Piece, data_and_ends, from_parts

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
    """Return a whole number as a varint that is short for small ones: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


def varints(numbers: Any) -> pa.Array:
    """Return a numpy array of whole numbers as varints; negative ones as 64 bits in two's complement."""
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


def little_endian(numbers: Any) -> pa.Array:
    """Return each number of a numpy array as its own bytes, little-endian."""
    import numpy as np

    little = np.ascontiguousarray(numbers.astype(numbers.dtype.newbyteorder("<"), copy=False))
    return from_parts(little.view(np.uint8), np.full(len(numbers), little.itemsize, np.int64))


def length_prefixed(texts: pa.Array, *, signed: bool) -> list[Piece]:
    """Return binaries, each after its length; NULL has the length 0.

    :param signed: whether the length is in zigzag, as Avro wants it; Protobuf does not.
    """
    import numpy as np

    lengths = np.diff(data_and_ends(texts)[1], prepend=0)
    return [zigzags(lengths) if signed else varints(lengths), texts]
