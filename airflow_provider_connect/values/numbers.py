"""Encodes numbers as Avro, Protobuf and Kafka Connect do.

Varints have seven bits a byte, the lowest first. Decimals are the unscaled number in two's complement, big-endian.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_connect.values.arrays import Piece, binary_array, data_and_ends

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_BYTES = 10  # of 64 bits


def varint(number: int) -> bytes:
    """Return a number, 0 or more, as a varint."""
    encoded_bytes = bytearray()
    while number > 0x7F:
        encoded_bytes.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded_bytes, number])


def zigzag(number: int) -> bytes:
    """Return an integer as a varint that is short for small numbers: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


def varints(numbers: Any) -> pa.Array:
    """Return a numpy array of integers as varints. A negative one takes 64 bits in two's complement."""
    import numpy as np

    unsigned = np.ascontiguousarray(numbers).astype(np.uint64, copy=False)
    lengths = np.ones(len(unsigned), np.int64)
    for count in range(1, _MAX_BYTES):
        longer = unsigned >= np.uint64(1 << 7 * count)
        if not longer.any():
            break
        lengths += longer
    ends = np.cumsum(lengths)
    data = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    starts = ends - lengths
    for position in range(int(lengths.max(initial=0))):
        has_byte = lengths > position
        more = (lengths > position + 1).astype(np.uint8) << 7
        byte = ((unsigned >> np.uint64(7 * position)) & np.uint64(0x7F)).astype(np.uint8) | more
        data[starts[has_byte] + position] = byte[has_byte]
    return binary_array(data, lengths)


def zigzags(numbers: Any) -> pa.Array:
    """Encode a numpy array of int64 as :func:`zigzag` does."""
    import numpy as np

    signed = np.ascontiguousarray(numbers).astype(np.int64, copy=False)
    return varints(((signed << 1) ^ (signed >> 63)).view(np.uint64))


def little_endian(numbers: Any) -> pa.Array:
    """Return each number of a numpy array as its bytes, little-endian."""
    import numpy as np

    little = np.ascontiguousarray(numbers.astype(numbers.dtype.newbyteorder("<"), copy=False))
    return binary_array(little.view(np.uint8), np.full(len(numbers), little.itemsize, np.int64))


def length_prefixed(texts: pa.Array, *, signed: bool) -> list[Piece]:
    """Return binaries, each after its length. NULL has length 0.

    :param signed: true for a zigzag length, as in Avro. False for Protobuf.
    """
    import numpy as np

    lengths = np.diff(data_and_ends(texts)[1], prepend=0)
    return [zigzags(lengths) if signed else varints(lengths), texts]


_UINT64_DIGITS = 20
_DECIMAL128_DIGITS = 38


def decimal_digits(kind: pa.DataType) -> tuple[int, int] | None:
    """Return precision and scale (0 or more) of a type that is written as a decimal, or None.

    uint64 is one.
    """
    from pyarrow import types

    if types.is_uint64(kind):
        return _UINT64_DIGITS, 0
    if not types.is_decimal(kind):
        return None
    return kind.precision - min(kind.scale, 0), max(kind.scale, 0)


def width_bytes(kind: pa.DataType) -> int:
    """Return the number of bytes that :func:`big_endian` writes for each value."""
    precision, _ = decimal_digits(kind) or (0, 0)
    return 16 if precision <= _DECIMAL128_DIGITS else 32


def big_endian(array: pa.Array) -> pa.Array:
    """Return a column's unscaled numbers (``large_binary``) in one width. NULL becomes an undefined number."""
    import numpy as np
    import pyarrow as pa

    digits = decimal_digits(array.type)
    if digits is None:
        raise TypeError(f"{array.type} is not a decimal")
    width = width_bytes(array.type)
    decimals = array.cast((pa.decimal128 if width == 16 else pa.decimal256)(*digits))
    start, end = decimals.offset * width, (decimals.offset + len(decimals)) * width
    rows = np.frombuffer(decimals.buffers()[1], np.uint8)[start:end].reshape(len(decimals), width)
    return binary_array(rows[:, ::-1].reshape(-1), np.full(len(decimals), width, np.int64))


def plain_text(column: pa.Array) -> pa.Array:
    """Return decimals as texts with all digits and no exponent."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = column.cast(pa.string())
    if pc.any(pc.match_substring(texts, "E")).as_py():
        # Arrow writes small ones with an exponent.
        return pa.array([None if value is None else format(value, "f") for value in column.to_pylist()], pa.string())
    return texts
