"""When a backfill will have ended, by the pace of its runs that have."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

LEAST_ENDS = 3


def estimated_end(
    began: dt.datetime, newest_ends: Iterable[dt.datetime], done: int, left: int, now: dt.datetime
) -> dt.datetime | None:
    """Return when the last run will end if the rest go on as the newest did; None if fewer than three have ended.

    :param began: when the backfill was started.
    :param newest_ends: when its runs ended, in any order; of many the newest alone.
    :param done: how many runs have ended.
    :param left: how many have not.
    """
    known = sorted(end for end in newest_ends if began <= end <= now)
    if len(known) < LEAST_ENDS or left <= 0:
        return None
    # The pace counts up to now, and not to the last end: that of a backfill that hangs becomes slower and slower.
    is_all = done <= len(known)
    since, count = (began, len(known)) if is_all else (known[0], len(known) - 1)
    return now + (now - since) / count * left
