"""Settled days: those that a stream has nothing to do for any more. Offset, gaps, lag, page and commands count by them.

A day is settled once it is published, once its answer was found unchanged, and once it is superseded. Where a snapshot
replaces everything in its target (:meth:`.Sink.replaces_whole`), each day before the newest published one is
superseded: a sink refuses its publish, so no clear could ever fill such a gap. Where each day is kept, as with
``snapshot="daily"``, only a publish settles a day.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Final, NamedTuple

from airflow_provider_connect.window import ONE_DAY, DaySet, zone

SETTLED: Final = ("published", "already_published", "unchanged", "superseded", "overtaken")
"""Statuses in a job's report that settle a day."""


class Schedule(NamedTuple):
    """Which days a DAG's schedule asks for.

    :param is_set: whether the DAG has a schedule. Without one, nobody asks for days after the last settled one.
    :param last_day: the last day that begins before the end date of the DAG, or of its task; None without one.
    """

    is_set: bool = True
    last_day: dt.date | None = None

    @classmethod
    def of(cls, *, is_set: bool, end: dt.datetime | None, zone_name: str) -> Schedule:
        """Return the schedule of a DAG.

        :param end: the task's end date, which is not after its DAG's. The last run's interval begins on it or before.
        :param zone_name: the source's zone.
        """
        return cls(is_set, None if end is None else end.astimezone(zone(zone_name)).date())


@dataclass(frozen=True)
class Settled:
    """The settled days of one stream.

    :param origin: the first day wanted; None counts from the first settled day.
    """

    days: DaySet
    origin: dt.date | None

    @classmethod
    def of(cls, published: DaySet, origin: dt.date | None, *, replaces_whole: bool) -> Settled:
        """Return the days that are settled by what is published.

        :param replaces_whole: whether a publish takes the place of everything in the target.
        """
        if not (replaces_whole and published.ranges):
            return cls(published, origin)
        first, newest = published.ranges[0][0], published.ranges[-1][1]
        return cls(DaySet(ranges=((min(first, origin or first), newest),)), origin)

    @property
    def last_day(self) -> dt.date | None:
        """The last settled day; None if there is none."""
        return self.days.ranges[-1][1] if self.days.ranges else None

    @property
    def position(self) -> dt.date | None:
        """The last day up to which every day since the origin is settled; None if the origin is not."""
        return self.days.position(self.origin)

    @property
    def gaps(self) -> DaySet:
        """The days that are not settled, from the origin to the last settled day."""
        last = self.last_day
        return DaySet() if last is None else self.days.missing(self.origin or self.days.ranges[0][0], last)

    def lag_days(self, yesterday: dt.date, schedule: Schedule) -> int | None:
        """Return how many wanted days lie behind the position; None if neither the origin nor a settled day is known.

        :param yesterday: the last day that is over in the source's zone.
        """
        reached = self.position or (self.origin - ONE_DAY if self.origin else None)
        if reached is None:
            return None
        wanted = yesterday if schedule.last_day is None else min(yesterday, schedule.last_day)
        if not schedule.is_set:
            wanted = min(wanted, self.last_day or reached)
        return max(0, (wanted - reached).days)
