"""Deterministic Mixpanel events: what the stand-in serves, and the expected results for tests.

A :class:`Project` is pure: the lines of a day follow from its fields and the date alone. It shares no code with
the connector that reads it, so that one mistake cannot hide in both.

Time follows Mixpanel's two regimes (https://docs.mixpanel.com/docs/export-methods, 2026-11). ``utc``: a date is a
UTC date and ``time`` is an epoch. ``project_local``: a date is one of the project's zone, and ``time`` is the wall
clock of that zone written as if it were an epoch; on a day of 23 hours no event has a wall time inside the gap, on
one of 25 the repeated hour comes twice.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from tests.standins.mixpanel import templates as mixpanel_templates
from tests.standins.mixpanel.templates import EVENTS, REUSED, Template, rng, templates, users

Regime = Literal["utc", "project_local"]
TimeUnit = Literal["s", "ms"]

# Zones change their offset on a quarter of an hour.
_SLOT_SECONDS = 900
_ONE_DAY_MS = 86_400_000
_SMALL_DAY_EVENTS = 500


class Truth(NamedTuple):
    """The counts that a correct reader finds in one day: lines = rows + duplicates."""

    lines: int
    rows: int
    duplicates: int
    missing_ids: int
    late: int


class _Event(NamedTuple):
    """One event before it is written: members end with a comma, or are empty if the event lacks the field."""

    name: bytes
    time: int
    distinct_id: bytes
    insert_id: bytes
    processing_ms: int
    template: Template


class _Clock(NamedTuple):
    """A day's instants: its first (UTC epoch seconds), its length, and what to add to an instant to get ``time``."""

    start: int
    seconds: int
    shifts: tuple[int, ...]

    def time(self, at_ms: int, unit: TimeUnit) -> int:
        shifted = at_ms + self.shifts[(at_ms // 1000 - self.start) // _SLOT_SECONDS] * 1000
        return shifted if unit == "ms" else shifted // 1000


@dataclass(frozen=True)
class Project:
    """One Mixpanel project and its events.

    :param regime: how the project reads dates and writes ``time``; see the module.
    :param timezone: IANA zone; decides what "today" is, and in ``project_local`` everything about time.
    :param events_per_day: distinct events of a day that arrived in time.
    :param missing_ids_per_day: how many of them lack ``$insert_id`` or ``distinct_id``.
    :param late_per_day: further distinct events, ingested one to five days later. This number changes nothing else, so
        a project with more of them is the same project at a later time.
    :param duplicates_per_day: copies in addition, with the same event, distinct_id, time and $insert_id; every second
        copy has its properties in another order and another processing time.
    :param empty_dates: days without any event.
    """

    seed: int = 0
    regime: Regime = "utc"
    timezone: str = "UTC"
    events_per_day: int = 1000
    duplicates_per_day: int = 0
    missing_ids_per_day: int = 0
    late_per_day: int = 0
    empty_dates: frozenset[dt.date] = frozenset()

    def __post_init__(self) -> None:
        """Refuse impossible counts.

        :raises ValueError: if a count is negative, or there are duplicates of no events.
        """
        counts = (self.events_per_day, self.duplicates_per_day, self.missing_ids_per_day, self.late_per_day)
        if min(counts) < 0 or self.missing_ids_per_day > self.events_per_day:
            raise ValueError("counts must not be negative, and missing_ids_per_day at most events_per_day")
        if self.duplicates_per_day and self.missing_ids_per_day == self.events_per_day:
            raise ValueError("duplicates need an event that has both ids")
        ZoneInfo(self.timezone)

    def truth(self, date: dt.date) -> Truth:
        """Return the counts of a day, without making its events."""
        if date in self.empty_dates:
            return Truth(0, 0, 0, 0, 0)
        rows = self.events_per_day + self.late_per_day
        return Truth(
            lines=rows + self.duplicates_per_day,
            rows=rows,
            duplicates=self.duplicates_per_day,
            missing_ids=self.missing_ids_per_day,
            late=self.late_per_day,
        )

    def lines(self, date: dt.date, unit: TimeUnit = "s") -> Iterator[bytes]:
        """Yield the day's lines in the order they are served, each ending with a line feed.

        :param unit: of ``time``; the vendor's ``time_in_ms``.
        """
        if self.events_per_day <= _SMALL_DAY_EVENTS:
            return iter(_small_day(self, date, unit))
        return self._make_lines(date, unit)

    def _make_lines(self, date: dt.date, unit: TimeUnit) -> Iterator[bytes]:
        if date in self.empty_dates:
            return
        clock = self._clock(date)
        late = self._late(date, clock, unit)
        missing = self._missing(date)
        copies = self._copies(date, missing)
        random_source = rng("copies", self.seed, date)
        count = self.events_per_day
        due: dict[int, list[bytes]] = {}
        for index, event in enumerate(self._events(date, clock, unit, missing)):
            yield _line(event)
            for copy in range(copies.get(index, 0)):
                due.setdefault(random_source.randrange(index, count), []).append(_copy(event, index + copy))
            yield from due.pop(index, ())
            yield from late.pop(index, ())
        for late_lines in late.values():
            yield from late_lines

    def expected_rows(self, date: dt.date, unit: TimeUnit = "s") -> list[dict[str, Any]]:
        """Return the day's distinct events as parsed JSON, the first of each key, in the order served.

        An event without ``$insert_id`` or ``distinct_id`` has no key and always remains.
        """
        return list(self.iter_expected_rows(date, unit))

    def iter_expected_rows(self, date: dt.date, unit: TimeUnit = "s") -> Iterator[dict[str, Any]]:
        """Yield the result of :meth:`expected_rows`."""
        keys: set[tuple[Any, ...]] = set()
        for line in self.lines(date, unit):
            row = json.loads(line)
            properties = row["properties"]
            if "$insert_id" in properties and "distinct_id" in properties:
                key = (row["event"], properties["distinct_id"], properties["time"], properties["$insert_id"])
                if key in keys:
                    continue
                keys.add(key)
            yield row

    def today(self, now: dt.datetime) -> dt.date:
        """Return the date of ``now`` in the project's zone: the last that may be requested."""
        return now.astimezone(ZoneInfo(self.timezone)).date()

    @cached_property
    def fingerprint(self) -> str:
        """A name for these events, which changes with the fields and with the code that makes them."""
        fields = asdict(replace(self, empty_dates=frozenset())) | {"empty": sorted(map(str, self.empty_dates))}
        del fields["empty_dates"]
        digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode())
        for file in (__file__, mixpanel_templates.__file__):
            digest.update(Path(file).read_bytes())
        return digest.hexdigest()[:16]

    def _clock(self, date: dt.date) -> _Clock:
        zone = ZoneInfo(self.timezone if self.regime == "project_local" else "UTC")
        start, end = (
            int(dt.datetime.combine(date + dt.timedelta(days=days), dt.time(), tzinfo=zone).timestamp())
            for days in (0, 1)
        )
        offsets = (dt.datetime.fromtimestamp(instant, zone).utcoffset() for instant in range(start, end, _SLOT_SECONDS))
        return _Clock(
            start, end - start, tuple(int(offset.total_seconds()) for offset in offsets if offset is not None)
        )

    def _missing(self, date: dt.date) -> frozenset[int]:
        return frozenset(rng("missing", self.seed, date).sample(range(self.events_per_day), self.missing_ids_per_day))

    def _copies(self, date: dt.date, missing: frozenset[int]) -> Counter[int]:
        random_source = rng("duplicates", self.seed, date)
        copies: Counter[int] = Counter()
        while copies.total() < self.duplicates_per_day:
            index = random_source.randrange(self.events_per_day)
            if index not in missing:
                copies[index] += 1
        return copies

    def _events(self, date: dt.date, clock: _Clock, unit: TimeUnit, missing: frozenset[int]) -> Iterator[_Event]:
        random_source = rng("events", self.seed, date)
        pool, people = templates(self.seed), users(self.seed)
        count, span_ms = self.events_per_day, clock.seconds * 1000
        uniform, bits = random_source.random, random_source.getrandbits
        insert_id = b""
        for index in range(count):
            offset_ms = _offset_ms(index, count, span_ms, uniform())
            at_ms = clock.start * 1000 + offset_ms
            person = people[int(uniform() * len(people))]
            # Another event with a reused $insert_id is not a duplicate: the key has four fields.
            reused = index % 997 == 996 and insert_id and index not in missing
            insert_id = insert_id if reused else b'"$insert_id":"%016x",' % bits(64)
            name = REUSED if reused else EVENTS[int(uniform() * len(EVENTS))]
            lacks = (1 + index % 2) if index in missing else 0
            yield _Event(
                name,
                clock.time(at_ms, unit),
                b"" if lacks == 1 else person,
                b"" if lacks == 2 else insert_id,
                at_ms + 200 + int(uniform() * 90_000),
                pool[int(uniform() * len(pool))],
            )

    def _late(self, date: dt.date, clock: _Clock, unit: TimeUnit) -> dict[int, list[bytes]]:
        random_source = rng("late", self.seed, date)
        late: dict[int, list[bytes]] = {}
        for _ in range(self.late_per_day):
            at_ms = clock.start * 1000 + random_source.randrange(clock.seconds * 1000)
            event = _Event(
                random_source.choice(EVENTS),
                clock.time(at_ms, unit),
                random_source.choice(users(self.seed)),
                b'"$insert_id":"late%016x",' % random_source.getrandbits(64),
                at_ms + random_source.randrange(_ONE_DAY_MS, 5 * _ONE_DAY_MS),
                random_source.choice(templates(self.seed)),
            )
            late.setdefault(random_source.randrange(max(self.events_per_day, 1)), []).append(_line(event))
        return late


@lru_cache(maxsize=128)  # tests ask for the same days thousands of times
def _small_day(project: Project, date: dt.date, unit: TimeUnit) -> tuple[bytes, ...]:
    return tuple(project._make_lines(date, unit))


def _offset_ms(index: int, count: int, span_ms: int, jitter: float) -> int:
    """Spread events evenly with some disorder; the first and the last second of the day always have one."""
    if index == 0:
        return 0
    if index == count - 1:
        return span_ms - 1
    return int((index + jitter) * span_ms / count)


def _line(event: _Event) -> bytes:
    a, b, c = event.template
    return b'{"event":%b,"properties":{"time":%d,%b%b%b%b,"mp_processing_time_ms":%d%b}}\n' % (
        event.name, event.time, event.distinct_id, a, event.insert_id, b, event.processing_ms, c,
    )  # fmt: skip


def _copy(event: _Event, variant: int) -> bytes:
    """Write the event again: byte for byte, or as another SDK batch would send it."""
    if variant % 2 == 0:
        return _line(event)
    a, b, c = event.template
    return b'{"event":%b,"properties":{%b,%b%b%b"mp_processing_time_ms":%d,"time":%d%b}}\n' % (
        event.name, b, event.insert_id, a, event.distinct_id, event.processing_ms + 7_000, event.time, c,
    )  # fmt: skip
