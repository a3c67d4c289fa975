"""Days and windows: calendar arithmetic, the same in Airflow, driver and executor.

A *day* is a calendar day in the source's time zone, of 24 hours, or 23 or 25 (rarely another number). A *window* is a
half-open span ``[start, end)`` in UTC that holds whole days.

A day is *settled* if it needs no load: published, confirmed, or superseded. A replacing snapshot
(:meth:`.Sink.replaces_whole`) supersedes all earlier days.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
import zoneinfo
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import AfterValidator

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.wire import Wire

ONE_DAY = dt.timedelta(days=1)

SourceKind = Literal["day", "snapshot", "increment"]
"""Kind of a source's rows: of one day, all rows as of that day, or all rows since the previous increment."""


@lru_cache(maxsize=64)
def zone(name: str) -> ZoneInfo:
    """Return the IANA zone of this name.

    :raises ConfigError: this machine's zone database has no such zone.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
        close = difflib.get_close_matches(name, zoneinfo.available_timezones(), n=1) if isinstance(name, str) else []
        hint = f"did you mean {close[0]!r}?" if close else "use an IANA name such as 'UTC' or 'US/Pacific'"
        raise ConfigError(f"unknown time zone {name!r}: {hint}") from None


def _validate_zone(name: str) -> str:
    try:
        zone(name)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return name


ZoneName = Annotated[str, AfterValidator(_validate_zone)]
"""Type of an option that names a known IANA zone."""


def start_of(date: dt.date, zone_name: str) -> dt.datetime:
    """Return the first instant (UTC) of a date in a zone, even if its midnight is skipped or repeated."""
    local = dt.datetime.combine(date, dt.time(), tzinfo=zone(zone_name))
    return local.astimezone(dt.UTC)


class Day(Wire):
    """A calendar day in a zone: the unit that is polled, published and recorded."""

    date: dt.date
    zone: str = "UTC"

    @property
    def start(self) -> dt.datetime:
        """First instant of the day, UTC."""
        return start_of(self.date, self.zone)

    @property
    def end(self) -> dt.datetime:
        """First instant after the day, UTC."""
        return start_of(self.date + ONE_DAY, self.zone)

    @property
    def hours(self) -> float:
        """Length in hours: 24, or 23 and 25 where clocks change."""
        return (self.end - self.start).total_seconds() / 3600

    def __str__(self) -> str:
        return self.date.isoformat()


def days_of_window(start: dt.datetime, end: dt.datetime, zone_name: str) -> list[Day]:
    """Cut the window ``[start, end)`` into days.

    :raises ConfigError: as :func:`first_and_last_date`.
    """
    return [day for day in days_between(*first_and_last_date(start, end, zone_name), zone_name) if day.hours > 0]


def first_and_last_date(start: dt.datetime, end: dt.datetime, zone_name: str) -> tuple[dt.date, dt.date]:
    """Return the first and the last date of the window ``[start, end)``.

    :raises ConfigError: the window is empty, or one end is not the start of a day in the zone.
    """
    tz = zone(zone_name)
    if start.tzinfo is None or end.tzinfo is None:
        raise ConfigError("a window needs instants with a time zone")
    if start == end:
        raise ConfigError(
            f"the data interval is empty ({start.isoformat()}). A bare '@daily' has no interval in Airflow 3. "
            f"Set schedule=daily({zone_name!r}) from airflow_provider_connect.timetables, or set days="
        )
    if end < start:
        raise ConfigError(f"the data interval ends ({end.isoformat()}) before it starts ({start.isoformat()})")
    first, stop = start.astimezone(tz).date(), end.astimezone(tz).date()
    for name, instant, date in (("starts", start, first), ("ends", end, stop)):
        if start_of(date, zone_name) != instant.astimezone(dt.UTC):
            raise ConfigError(
                f"the data interval {name} at {instant.astimezone(tz).isoformat()}, which is not the start of a day "
                f"in {zone_name}. Set schedule=daily({zone_name!r}), or set days="
            )
    return first, stop - ONE_DAY


def days_between(first: dt.date, last: dt.date, zone_name: str) -> list[Day]:
    """Return the days from ``first`` to ``last``, both included."""
    return [Day(date=first + ONE_DAY * i, zone=zone_name) for i in range((last - first).days + 1)]


def group_days(days: Sequence[Day], size: int) -> list[tuple[Day, ...]]:
    """Cut ascending days into groups of at most ``size`` consecutive days."""
    grouped: list[tuple[Day, ...]] = []
    for day in days:
        if grouped and len(grouped[-1]) < size and grouped[-1][-1].date + ONE_DAY == day.date:
            grouped[-1] += (day,)
        else:
            grouped.append((day,))
    return grouped


def parse_days(text: str, zone_name: str) -> list[Day]:
    """Parse ``2026-10-05``, or ``2026-10-05..2026-10-11`` with both ends included.

    :raises ConfigError: the text has another form, ends before it starts, or names a date that the zone skipped.
    """
    days = days_between(*parse_first_and_last(text), zone_name)
    skipped = [str(day) for day in days if day.hours == 0]
    if skipped:
        raise ConfigError(f"days={text!r}: {zone_name} never had {', '.join(skipped)} (its calendar skipped that date)")
    return days


def parse_first_and_last(text: str) -> tuple[dt.date, dt.date]:
    """Return the first and the last date of a text in the form of :func:`parse_days`.

    :raises ConfigError: the text has another form, or ends before it starts.
    """
    parts = [part.strip() for part in text.split("..")]
    try:
        if len(parts) > 2 or not all(re.fullmatch(r"\d{4}-\d\d-\d\d", part) for part in parts):
            raise ValueError
        first, last = dt.date.fromisoformat(parts[0]), dt.date.fromisoformat(parts[-1])
    except ValueError:
        raise ConfigError(f"days={text!r} is neither 'YYYY-MM-DD' nor 'YYYY-MM-DD..YYYY-MM-DD'") from None
    if last < first:
        raise ConfigError(f"days={text!r} ends before it starts")
    return first, last


class DaySet(Wire):
    """A set of dates: sorted ranges, both ends included."""

    ranges: tuple[tuple[dt.date, dt.date], ...] = ()

    @classmethod
    def from_dates(cls, dates: Iterable[dt.date]) -> DaySet:
        """Make the set of dates in any order, perhaps repeated."""
        ranges: list[tuple[dt.date, dt.date]] = []
        for date in sorted(set(dates)):
            if ranges and ranges[-1][1] + ONE_DAY == date:
                ranges[-1] = (ranges[-1][0], date)
            else:
                ranges.append((date, date))
        return cls(ranges=tuple(ranges))

    def __iter__(self) -> Iterator[dt.date]:  # type: ignore[override]  # a set of days, not of fields
        for first, last in self.ranges:
            for i in range((last - first).days + 1):
                yield first + ONE_DAY * i

    def __len__(self) -> int:
        return sum((last - first).days + 1 for first, last in self.ranges)

    def __contains__(self, date: dt.date) -> bool:
        return any(first <= date <= last for first, last in self.ranges)

    def missing(self, first: dt.date, last: dt.date) -> DaySet:
        """Return the dates from ``first`` to ``last``, both included, that the set lacks."""
        ranges: list[tuple[dt.date, dt.date]] = []
        next_date = first
        for begin, end in self.ranges:
            if next_date < begin:
                ranges.append((next_date, min(last, begin - ONE_DAY)))
            next_date = max(next_date, end + ONE_DAY)
        ranges.append((next_date, last))
        return DaySet(ranges=tuple((begin, end) for begin, end in ranges if begin <= end))

    def position(self, origin: dt.date | None) -> dt.date | None:
        """Return the end of the unbroken run of days that begins at ``origin``, or None if the set lacks ``origin``.

        Without an origin, the run begins at the set's first date.
        """
        for first, last in self.ranges:
            if origin is None or first <= origin <= last:
                return last
        return None


class Schedule(NamedTuple):
    """The days that a DAG's schedule requests.

    :param is_set: False without a schedule.
    :param last_day: the last day that begins before the end date of the DAG or task.
    """

    is_set: bool = True
    last_day: dt.date | None = None

    @classmethod
    def from_task(cls, *, is_set: bool, end: dt.datetime | None, zone_name: str) -> Schedule:
        """Return the schedule of a task.

        :param end: end date of the task.
        """
        return cls(is_set, None if end is None else end.astimezone(zone(zone_name)).date())


@dataclass(frozen=True)
class Settled:
    """The settled days of one stream.

    :param origin: the first requested day, or None to begin at the first settled day.
    """

    days: DaySet
    origin: dt.date | None

    @classmethod
    def from_published(cls, published: DaySet, origin: dt.date | None, *, replaces_whole: bool) -> Settled:
        """Derive the settled days from a stream's published days."""
        if not (replaces_whole and published.ranges):
            return cls(published, origin)
        first, newest = published.ranges[0][0], published.ranges[-1][1]
        return cls(DaySet(ranges=((min(first, origin or first), newest),)), origin)

    @property
    def last_day(self) -> dt.date | None:
        """The last settled day."""
        return self.days.ranges[-1][1] if self.days.ranges else None

    @property
    def position(self) -> dt.date | None:
        """The last day of the unbroken run of settled days since the origin, or None if the origin is not settled."""
        return self.days.position(self.origin)

    @property
    def gaps(self) -> DaySet:
        """The unsettled days between origin and last settled day."""
        last = self.last_day
        return DaySet() if last is None else self.days.missing(self.origin or self.days.ranges[0][0], last)

    def lag_days(self, yesterday: dt.date, schedule: Schedule) -> int | None:
        """Return the number of requested days after the position. None if neither origin nor settled day is known.

        :param yesterday: the last complete day in the source's zone.
        """
        reached = self.position or (self.origin - ONE_DAY if self.origin else None)
        if reached is None:
            return None
        return max(0, (self._last_requested(yesterday, schedule, reached) - reached).days)

    def unsettled_days(self, yesterday: dt.date, schedule: Schedule) -> DaySet:
        """Return the requested days up to yesterday that are not settled. Empty if no first day is known."""
        first = self.origin or (self.days.ranges[0][0] if self.days.ranges else None)
        if first is None:
            return DaySet()
        return self.days.missing(first, self._last_requested(yesterday, schedule, first - ONE_DAY))

    def _last_requested(self, yesterday: dt.date, schedule: Schedule, reached: dt.date) -> dt.date:
        last_requested = yesterday if schedule.last_day is None else min(yesterday, schedule.last_day)
        return last_requested if schedule.is_set else min(last_requested, self.last_day or reached)


def reloadable_days(published: DaySet, *, replaces_whole: bool) -> DaySet:
    """Return the published days that can be loaded again: all, or only the newest if it superseded the others."""
    if not (replaces_whole and published.ranges):
        return published
    newest = published.ranges[-1][1]
    return DaySet(ranges=((newest, newest),))
