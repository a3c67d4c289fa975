"""How many rows a day may be expected to have: by the same weekday of the weeks before.

The band of a day is the median of the last eight done days of its weekday before it, plus and minus three times their
median absolute deviation, scaled as for a normal distribution. A median shrugs off one odd week, and a weekday is
compared with its like. The band is at least a tenth of the median wide on each side: days that were all alike would
else have none. With fewer than four such days there is no band.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from statistics import median
from typing import NamedTuple

from airflow_provider_connect.window import ONE_DAY

WEEKS = 8
LEAST = 4
LOOK_BACK_DAYS = 7 * 2 * WEEKS
"""How far back the days of a band may lie."""
_SCALE = 1.4826  # of the median absolute deviation to a standard deviation
_WIDTH = 3.0
_LEAST_SHARE = 0.1


class Band(NamedTuple):
    """The rows that a day may be expected to have."""

    day: dt.date
    low: int
    high: int


def bands(rows: Mapping[dt.date, int], days: Iterable[dt.date]) -> list[Band]:
    """Return the bands of days, without those that have none.

    :param rows: of all days that are known, those before ``days`` included.
    """
    found = (_band(rows, day) for day in days)
    return [band for band in found if band is not None]


def _band(rows: Mapping[dt.date, int], day: dt.date) -> Band | None:
    weeks = (day - ONE_DAY * 7 * back for back in range(1, LOOK_BACK_DAYS // 7 + 1))
    like = [rows[each] for each in weeks if each in rows][:WEEKS]
    if len(like) < LEAST:
        return None
    middle = median(like)
    spread = _WIDTH * _SCALE * median(abs(each - middle) for each in like)
    half = max(spread, _LEAST_SHARE * middle)
    return Band(day, max(0, math.floor(middle - half)), math.ceil(middle + half))
