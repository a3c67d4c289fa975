"""When a backfill will have ended, by the pace of its runs that have."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

LEAST_ENDS = 3
_NEWEST = 50


def estimated_end(began: dt.datetime, ends: Iterable[dt.datetime], left: int, now: dt.datetime) -> dt.datetime | None:
    """Return when the last run will end if the rest go on as the newest fifty did; None if fewer than three have ended.

    :param began: when the backfill was started.
    :param ends: when its runs ended, in any order.
    :param left: how many runs have not ended.
    """
    known = sorted(end for end in ends if began <= end <= now)
    if len(known) < LEAST_ENDS or left <= 0:
        return None
    window = known[-_NEWEST:]
    since = known[-_NEWEST - 1] if len(known) > _NEWEST else began
    # Up to now, and not to the last end: a backfill that hangs ends later and later.
    each = (now - since) / len(window)
    return now + each * left
