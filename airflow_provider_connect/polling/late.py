"""Counts late rows: rows that reached the vendor after the end of their day."""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.stage.counts import LATE_COUNT, LATE_COUNTS, MAX_LATE_DAYS
from airflow_provider_connect.window import ONE_DAY, Day

if TYPE_CHECKING:
    import pyarrow as pa

_UNIX, _MICROSECOND = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.timedelta(microseconds=1)


def count_late(tally: Tally, day: Day, arrival_times: pa.Array) -> None:
    """Add a batch's late rows to the day's counts, with the names of :mod:`airflow_provider_connect.stage.counts`.

    :param arrival_times: of each row, UTC, in microseconds. Null is not late.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    counts, polled_before = tally.for_day(day).counts, tally.for_day(day).polled_before
    counts[LATE_COUNTS[0]] += 0
    counts.update({LATE_COUNT: 0} if polled_before is not None else {})
    ends = _ends(day)
    since = int(ends[0]) if polled_before is None else (polled_before - _UNIX) // _MICROSECOND
    micros = arrival_times.cast(pa.int64())
    newest = pc.max(micros).as_py()
    if newest is None or newest < min(since, int(ends[0])):
        return  # nearly every batch of a day that is polled for the first time
    late = pc.fill_null(micros, -(2**63)).to_numpy(zero_copy_only=False)
    if polled_before is not None:
        counts[LATE_COUNT] += int((late >= since).sum())
    late = late[late >= ends[0]]
    days = np.bincount(np.searchsorted(ends, late, side="right"), minlength=MAX_LATE_DAYS + 1)[1:]
    for name, rows in zip(LATE_COUNTS, np.cumsum(days[::-1])[::-1].tolist(), strict=True):
        if rows:
            counts[name] += rows


@lru_cache(maxsize=64)
def _ends(day: Day) -> Any:
    import numpy as np

    ends = [Day(date=day.date + ONE_DAY * days_later, zone=day.zone).end for days_later in range(1, MAX_LATE_DAYS + 1)]
    return np.array([(end - _UNIX) // _MICROSECOND for end in ends])
