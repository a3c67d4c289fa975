"""Converts a zone's wall clock readings to instants, one column at a time."""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DAY_SECONDS = 86_400
_HOUR_SECONDS = 3_600
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Instants(NamedTuple):
    """Seconds since 1970 in UTC, with masks of the readings that the clock showed twice or never."""

    seconds: NDArray[np.int64]
    ambiguous: NDArray[np.bool_]
    nonexistent: NDArray[np.bool_]


class _Day(NamedTuple):
    """One day of a wall clock: offsets from UTC, and readings that are not a single instant.

    :param starts: wall seconds from which each offset in ``offsets`` applies.
    :param doubts: ranges of ambiguous or nonexistent readings: (from, to, kind), in wall seconds.
    """

    starts: tuple[int, ...]
    offsets: tuple[int, ...]
    doubts: tuple[tuple[int, int, int], ...]


_AMBIGUOUS, _NONEXISTENT = 1, 2


def instants(wall_seconds: NDArray[np.int64], zone_name: str) -> Instants:
    """Convert wall clock readings to instants.

    A reading shown twice means the first occurrence. A skipped one moves forward by the length of the gap (as
    :mod:`datetime` does with ``fold=0``).

    :param wall_seconds: readings, as seconds since 1970-01-01T00:00 on that clock.
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
    first, stop = day * _DAY_SECONDS, (day + 1) * _DAY_SECONDS
    # No zone is further than 16 hours from UTC, and none moved its clocks by more than a day.
    begin, end = first - 2 * _DAY_SECONDS, first + 3 * _DAY_SECONDS
    old_offset = _offset(zone_name, begin)
    starts, offsets, doubts = [first], [old_offset], []
    for instant, new_offset in _offset_changes(zone_name, begin, end):
        # Up to here the old offset counts: first occurrence of a doubled reading, forward from a skipped one.
        start = instant + max(old_offset, new_offset)
        if start <= first:
            offsets[0] = new_offset
        elif start < stop:
            starts.append(start)
            offsets.append(new_offset)
        doubts.append(
            (instant + min(old_offset, new_offset), start, _AMBIGUOUS if new_offset < old_offset else _NONEXISTENT)
        )
        old_offset = new_offset
    return _Day(tuple(starts), tuple(offsets), tuple(doubts))


def _offset_changes(zone_name: str, begin: int, end: int) -> list[tuple[int, int]]:
    changes = []
    old_offset = _offset(zone_name, begin)
    for low in range(begin, end, _HOUR_SECONDS):
        new_offset = _offset(zone_name, low + _HOUR_SECONDS)
        if new_offset != old_offset:
            low_bound, high_bound = low, low + _HOUR_SECONDS
            while high_bound - low_bound > 1:
                middle = (low_bound + high_bound) // 2
                low_bound, high_bound = (
                    (middle, high_bound) if _offset(zone_name, middle) == old_offset else (low_bound, middle)
                )
            changes.append((high_bound, new_offset))
        old_offset = new_offset
    return changes


def _offset(zone_name: str, instant: int) -> int:
    try:
        moment = (_EPOCH + dt.timedelta(seconds=instant)).astimezone(ZoneInfo(zone_name))
    except OverflowError:  # the first and last day of the calendar
        return 0
    offset = moment.utcoffset()
    return int(offset.total_seconds()) if offset is not None else 0
