"""Arrow's decimals in other forms.

Avro and Kafka Connect write the unscaled number in two's complement, big-endian; texts have all digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_connect.values.arrays import from_parts

if TYPE_CHECKING:
    import pyarrow as pa

_UINT64_DIGITS = 20
_DECIMAL128_DIGITS = 38


def decimal_digits(kind: pa.DataType) -> tuple[int, int] | None:
    """Return precision and scale (0 or more) of a type that is written as a decimal; None for any other.

    uint64 is one: Avro and Kafka Connect have no unsigned integers.
    """
    from pyarrow import types

    if types.is_uint64(kind):
        return _UINT64_DIGITS, 0
    if not types.is_decimal(kind):
        return None
    return kind.precision - min(kind.scale, 0), max(kind.scale, 0)


def width_bytes(kind: pa.DataType) -> int:
    """Return how many bytes :func:`big_endian` makes of each value."""
    precision, _ = decimal_digits(kind) or (0, 0)
    return 16 if precision <= _DECIMAL128_DIGITS else 32


def big_endian(array: pa.Array) -> pa.Array:
    """Return a column's unscaled numbers (``large_binary``), all of one width; NULL becomes any number."""
    import numpy as np
    import pyarrow as pa

    digits = decimal_digits(array.type)
    if digits is None:
        raise TypeError(f"{array.type} is not a decimal")
    width = width_bytes(array.type)
    stored = array.cast((pa.decimal128 if width == 16 else pa.decimal256)(*digits))
    start, end = stored.offset * width, (stored.offset + len(stored)) * width
    rows = np.frombuffer(stored.buffers()[1], np.uint8)[start:end].reshape(len(stored), width)
    return from_parts(rows[:, ::-1].reshape(-1), np.full(len(stored), width, np.int64))


def plain_text(column: pa.Array) -> pa.Array:
    """Return decimals as texts with all their digits, and no exponent."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = column.cast(pa.string())
    if pc.any(pc.match_substring(texts, "E")).as_py():
        # Arrow writes small ones with an exponent.
        return pa.array([None if value is None else format(value, "f") for value in column.to_pylist()], pa.string())
    return texts
