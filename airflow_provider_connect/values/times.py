"""Arrow's times as whole numbers and as text, and readings of a wall clock as instants, a whole column at a time.

What readers would disagree about is refused.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

from airflow_provider_connect.values.arrays import Refuse
from airflow_provider_connect.values.arrow import Shape, shape_of, true_rows

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

SHAPES: tuple[Shape, ...] = ("timestamp", "date", "time")
EPOCH_ORDINAL = 719_163
"""``date.toordinal()`` of 1970-01-01."""
_RANGES: dict[str | None, tuple[int, int, str]] = {
    "timestamp": (-62_135_596_800_000_000, 253_402_300_799_999_999, "a time outside of the years 1 to 9999"),
    "date": (-719_162, 2_932_896, "a date outside of the years 1 to 9999"),
    "time": (0, 86_399_999_999, "a time of day outside of 00:00 to 23:59:59.999999"),
}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def whole_numbers(array: pa.Array, refuse: Refuse) -> Any:
    """Return a column of times as int64: dates in days, all others in microseconds; NULL and refused rows are 0.

    Refused are times finer than that, and those outside of the years 1 to 9999 or of a day.
    """
    import numpy as np

    per, over = _scale(array.type)
    numbers = _integers(array)
    low, high, outside = _RANGES[shape_of(array.type)]
    if over > 1:
        numbers, rest = np.divmod(numbers, over)
        if rest.any():
            refuse(true_rows(rest != 0), "a time finer than a microsecond")
    bad = (numbers < -(-low // per)) | (numbers > high // per)
    if bad.any():
        refuse(true_rows(bad), outside)
        numbers = np.where(bad, 0, numbers)
    return numbers * per


def iso_texts(array: pa.Array, refuse: Refuse) -> pa.Array:
    """Return a column of times as ISO 8601 texts, ``large_binary``; timestamps with a zone in UTC, with ``Z``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    numbers = whole_numbers(array, refuse)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    plain = pa.date32() if pa.types.is_date(kind) else pa.time64("us") if pa.types.is_time(kind) else pa.timestamp("us")
    small = numbers.astype("int32") if pa.types.is_date(kind) else numbers
    written = pa.array(small, mask=~valid).view(plain).cast(pa.large_string()).cast(pa.large_binary())
    if not pa.types.is_timestamp(kind):
        return written
    written = pc.binary_replace_slice(written, 10, 11, b"T")
    if kind.tz is None:
        return written
    scalars = [pa.scalar(piece, written.type) for piece in (b"Z", b"")]
    return pc.binary_join_element_wise(written, *scalars)


def _scale(kind: pa.DataType) -> tuple[int, int]:
    """Return what to multiply a stored number by, and what to divide it by, to get microseconds, or days."""
    import pyarrow as pa

    if pa.types.is_date(kind):
        return 1, 86_400_000 if pa.types.is_date64(kind) else 1
    per_second = _PER_SECOND[kind.unit]
    return max(1, 10**6 // per_second), max(1, per_second // 10**6)


def _integers(array: pa.Array) -> Any:
    import pyarrow as pa

    stored = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return stored.fill_null(0).to_numpy(zero_copy_only=False).astype("int64")


_DAY_SECONDS = 86_400
_HOUR_SECONDS = 3_600
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Instants(NamedTuple):
    """Seconds since the epoch in UTC, and which readings a clock showed twice or never."""

    seconds: NDArray[np.int64]
    ambiguous: NDArray[np.bool_]
    nonexistent: NDArray[np.bool_]


class _Day(NamedTuple):
    """One day of a wall clock: its offsets from UTC, and the readings that are no single instant.

    :param starts: wall seconds from which an offset of ``offsets`` counts; the first is the day's own start.
    :param doubts: (from, to, kind) in wall seconds.
    """

    starts: tuple[int, ...]
    offsets: tuple[int, ...]
    doubts: tuple[tuple[int, int, int], ...]


_AMBIGUOUS, _NONEXISTENT = 1, 2


def instants(wall_seconds: NDArray[np.int64], zone_name: str) -> Instants:
    """Turn wall clock readings into instants.

    A reading that the clock showed twice is taken for its first occurrence; one that it skipped is moved
    forward by the length of the gap (as :mod:`datetime` does with ``fold=0``).

    :param wall_seconds: the readings, as seconds since 1970-01-01T00:00 on that clock.
    """
    import numpy as np

    doubt = np.zeros(len(wall_seconds), dtype=np.int8)
    days = [_day(zone_name, day) for day in np.unique(wall_seconds // _DAY_SECONDS).tolist()]
    starts = np.array([start for day in days for start in day.starts], dtype=np.int64)
    offsets = np.array([offset for day in days for offset in day.offsets], dtype=np.int64)
    for begin, end, kind in {doubt for day in days for doubt in day.doubts}:
        doubt[(wall_seconds >= begin) & (wall_seconds < end)] = kind
    seconds = wall_seconds - offsets[np.searchsorted(starts, wall_seconds, side="right") - 1]
    return Instants(seconds, doubt == _AMBIGUOUS, doubt == _NONEXISTENT)


@lru_cache(maxsize=4096)
def _day(zone_name: str, day: int) -> _Day:
    """Describe one day, counted from 1970-01-01."""
    first, stop = day * _DAY_SECONDS, (day + 1) * _DAY_SECONDS
    # No zone is further than 16 hours from UTC, and none moved its clocks by more than a day.
    begin, end = first - 2 * _DAY_SECONDS, first + 3 * _DAY_SECONDS
    before = _offset(zone_name, begin)
    starts, offsets, doubts = [first], [before], []
    for instant, after in _changes(zone_name, begin, end):
        # Up to here the old offset counts: first occurrence of a doubled reading, forward from a skipped one.
        start = instant + max(before, after)
        if start <= first:
            offsets[0] = after
        elif start < stop:
            starts.append(start)
            offsets.append(after)
        doubts.append((instant + min(before, after), start, _AMBIGUOUS if after < before else _NONEXISTENT))
        before = after
    return _Day(tuple(starts), tuple(offsets), tuple(doubts))


def _changes(zone_name: str, begin: int, end: int) -> list[tuple[int, int]]:
    """Return (instant, new offset) of every change of the zone's offset in ``(begin, end]``."""
    changes = []
    before = _offset(zone_name, begin)
    for low in range(begin, end, _HOUR_SECONDS):
        after = _offset(zone_name, low + _HOUR_SECONDS)
        if after != before:
            left, right = low, low + _HOUR_SECONDS
            while right - left > 1:
                middle = (left + right) // 2
                left, right = (middle, right) if _offset(zone_name, middle) == before else (left, middle)
            changes.append((right, after))
        before = after
    return changes


def _offset(zone_name: str, instant: int) -> int:
    try:
        moment = (_EPOCH + dt.timedelta(seconds=instant)).astimezone(ZoneInfo(zone_name))
    except OverflowError:  # the first and last day of the calendar
        return 0
    offset = moment.utcoffset()
    return int(offset.total_seconds()) if offset is not None else 0
