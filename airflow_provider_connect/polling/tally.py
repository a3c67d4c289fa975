"""Counts the rows, requests and bytes of a partition while it is polled."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Sequence

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.stage.rejects import Reject
from airflow_provider_connect.window import Day


class Tally:
    """Running counts of one attempt to poll a partition. Read by other threads.

    A source with several days counts rows, counts, times and rejects in :meth:`for_day`.

    :ivar rows: rows read, with duplicates.
    :ivar counts: other counts by name: ``duplicates``, ``rejected``, ….
    :ivar requests: requests sent, answered or not. A failed connection does not count.
    :ivar sent: send times of the requests, in seconds since 1970.
    :ivar wire_bytes: bytes received.
    :ivar raw_bytes: bytes after decoding.
    :ivar announced_bytes: final ``wire_bytes`` if a single answer announces it, else 0.
    :ivar announced_rows: final ``rows`` if announced.
    :ivar polled_before: poll time of the day's previous publish, UTC, or None.
    """

    def __init__(self, days: Sequence[Day] = (), polled_before: Sequence[dt.datetime | None] = ()) -> None:
        previous_polls = dict(zip(days, polled_before, strict=False))
        self.rows = self.requests = self.wire_bytes = self.raw_bytes = 0
        self.announced_bytes = self.announced_rows = 0
        self.counts: Counter[str] = Counter()
        self.sent: list[float] = []
        self.earliest: dt.datetime | None = None
        self.latest: dt.datetime | None = None
        self.rejects: list[Reject] = []
        self.polled_before = previous_polls.get(days[0]) if len(days) == 1 else None
        self._days = {day: Tally([day], [previous_polls.get(day)]) for day in days} if len(days) > 1 else {}

    def for_day(self, day: Day) -> Tally:
        """Return the tally of one day. For a partition of one day, this tally.

        :raises ConnectError: the partition does not name this day.
        """
        if not self._days:
            return self
        if day not in self._days:
            raise ConnectError(f"the source counted rows of day {day}, which its partition does not name")
        return self._days[day]

    @property
    def rows_of_all_days(self) -> int:
        """Rows read so far, of all days."""
        return self.rows + sum(tally.rows for tally in self._days.values())

    def widen_span(self, earliest: dt.datetime, latest: dt.datetime) -> None:
        """Include a batch's earliest and latest event time (UTC)."""
        self.earliest = min(self.earliest or earliest, earliest)
        self.latest = max(self.latest or latest, latest)

    def request(self) -> None:
        """Count a sent request, if the vendor counts it."""
        self.requests += 1
        self.sent.append(time.time())

    def received(self, wire_bytes: int, raw_bytes: int) -> None:
        """Count the bytes of an answer."""
        self.wire_bytes += wire_bytes
        self.raw_bytes += raw_bytes

    def reject(self, reject: Reject) -> None:
        """Keep a reject and count it."""
        self.rejects.append(reject)
        self.counts["rejected"] += 1
