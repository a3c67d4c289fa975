"""Converts Arrow's times to integers and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_connect.values.arrays import Refuse
from airflow_provider_connect.values.arrow import TypeGroup, true_rows, type_group

if TYPE_CHECKING:
    import pyarrow as pa

TIME_GROUPS: tuple[TypeGroup, ...] = ("timestamp", "date", "time")
EPOCH_ORDINAL = 719_163
"""``date.toordinal()`` of 1970-01-01."""
_RANGES: dict[str | None, tuple[int, int, str]] = {
    "timestamp": (-62_135_596_800_000_000, 253_402_300_799_999_999, "a time outside of the years 1 to 9999"),
    "date": (-719_162, 2_932_896, "a date outside of the years 1 to 9999"),
    "time": (0, 86_399_999_999, "a time of day outside of 00:00 to 23:59:59.999999"),
}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def whole_numbers(array: pa.Array, refuse: Refuse) -> Any:
    """Return a column of times as int64: dates in days, others in microseconds. NULL and refused rows are 0.

    Refuses times finer than a microsecond, dates outside of the years 1 to 9999, and times of day beyond 24 hours.
    """
    import numpy as np

    factor, divisor = _scale(array.type)
    numbers = _integers(array)
    low, high, outside = _RANGES[type_group(array.type)]
    if divisor > 1:
        numbers, remainders = np.divmod(numbers, divisor)
        if remainders.any():
            refuse(true_rows(remainders != 0), "a time finer than a microsecond")
    is_outside = (numbers < -(-low // factor)) | (numbers > high // factor)
    if is_outside.any():
        refuse(true_rows(is_outside), outside)
        numbers = np.where(is_outside, 0, numbers)
    return numbers * factor


def iso_texts(array: pa.Array, refuse: Refuse) -> pa.Array:
    """Return a column of times as ISO 8601 texts (``large_binary``). Timestamps with a zone are in UTC, with ``Z``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    numbers = whole_numbers(array, refuse)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    plain = pa.date32() if pa.types.is_date(kind) else pa.time64("us") if pa.types.is_time(kind) else pa.timestamp("us")
    small = numbers.astype("int32") if pa.types.is_date(kind) else numbers
    texts = pa.array(small, mask=~valid).view(plain).cast(pa.large_string()).cast(pa.large_binary())
    if not pa.types.is_timestamp(kind):
        return texts
    texts = pc.binary_replace_slice(texts, 10, 11, b"T")
    if kind.tz is None:
        return texts
    scalars = [pa.scalar(suffix, texts.type) for suffix in (b"Z", b"")]
    return pc.binary_join_element_wise(texts, *scalars)


def _scale(kind: pa.DataType) -> tuple[int, int]:
    import pyarrow as pa

    if pa.types.is_date(kind):
        return 1, 86_400_000 if pa.types.is_date64(kind) else 1
    per_second = _PER_SECOND[kind.unit]
    return max(1, 10**6 // per_second), max(1, per_second // 10**6)


def _integers(array: pa.Array) -> Any:
    import pyarrow as pa

    integers = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return integers.fill_null(0).to_numpy(zero_copy_only=False).astype("int64")
