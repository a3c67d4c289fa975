"""What a table must hold after each step of a case, and what each step must say. Pure; knows nothing of the package.

The rules are those of the ledger's definitions: a publish goes on if its definition is the one in force; it is told of
changes that the same task has made to what it leaves out; it is refused if a person must decide.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

Kill = Literal["polled", "sent", "committed"]
"""Where a driver dies: the day is staged; all but the commit is done; the commit is done, and nobody heard of it."""
Status = Literal["green", "told", "refused", "killed"]


class Event(NamedTuple):
    """A row of the source; ``at`` and ``seen`` are UTC."""

    id: int
    kind: str
    person: str
    note: str
    at: dt.datetime
    seen: dt.datetime
    amount: int


class Row(NamedTuple):
    """A row of the target, as far as a case looks at it."""

    id: int
    kind: str
    person: str
    note: str | None
    label: str | None


@dataclass(frozen=True)
class Options:
    """How a task reads the source.

    :param kind: the only kind of events that ``where`` lets through; None for all.
    :param is_snapshot: whether the table is read whole, without days.
    :param has_note: whether ``columns`` names the note.
    :param least_amount: below which a shape leaves rows out.
    :param label: a column that a shape adds.
    :param mask: the key under which persons are hashed; None if they are not.
    """

    table: Literal["events", "others"] = "events"
    day_column: Literal["at", "seen"] = "at"
    zone: str = "UTC"
    key: tuple[str, ...] | None = None
    is_snapshot: bool = False
    kind: str | None = None
    has_note: bool = True
    least_amount: int | None = None
    label: str | None = None
    mask: str | None = None
    login: str | None = None

    @property
    def reading(self) -> tuple[object, ...]:
        """The parts that a person must accept."""
        return self.day_column, self.zone, self.key, self.is_snapshot

    @property
    def narrowing(self) -> tuple[object, ...]:
        """The parts that leave rows out."""
        return (self.kind,)

    @property
    def shapes(self) -> tuple[object, ...]:
        """The shapes."""
        return self.least_amount, self.label, self.mask

    @property
    def definition(self) -> Options:
        """All parts that are compared: columns are none."""
        return replace(self, has_note=True)

    def has_other_rows(self, other: Options) -> bool:
        """Tell whether a day may have other rows under other options."""
        mine, others = (self.reading, self.narrowing, self.shapes), (other.reading, other.narrowing, other.shapes)
        return mine != others

    def rows(self, events: Iterable[Event], day: dt.date, erased: Iterable[str]) -> list[Row]:
        """Return the rows that a day has."""
        out, zone = set(erased), ZoneInfo(self.zone)
        days = (
            (event, (event.at if self.day_column == "at" else event.seen).astimezone(zone).date()) for event in events
        )
        return [
            Row(
                event.id, event.kind, masked(event.person, self.mask), event.note if self.has_note else None, self.label
            )
            for event, its_day in days
            if its_day == day
            and self.kind in (None, event.kind)
            and (self.least_amount is None or event.amount >= self.least_amount)
            and event.person not in out
        ]


def masked(person: str, key: str | None) -> str:
    """Return a person as the target has them."""
    return person if key is None else hmac.new(key.encode(), person.encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Load:
    """A run of a task.

    :param token: the same for all tries of one intent.
    :param kill: of a load of one day.
    :param beside: a step that others take while this load has polled and sent its first day, and has not committed it.
    """

    task: str
    days: tuple[dt.date, ...]
    options: Options
    token: int
    attempt: int = 1
    kill: Kill | None = None
    beside: Load | Erase | None = None


@dataclass(frozen=True)
class Accept:
    """A person's word that a task's options are meant."""

    options: Options


@dataclass(frozen=True)
class Erase:
    """Takes people out, and keeps them out.

    :param mask: the key under which the target has them.
    """

    persons: tuple[str, ...]
    mask: str | None = None


Step = Load | Accept | Erase


class Expected(NamedTuple):
    """What a step must say.

    :param loaded_otherwise: how many days it tells of; None if it tells of none.
    :param beside: what the step beside it must say; None if it was not taken.
    """

    status: Status
    loaded_otherwise: int | None = None
    beside: Expected | None = None


@dataclass
class Published:
    """A day of the target."""

    options: Options
    rows: list[Row]
    tokens: set[int]


@dataclass
class Model:
    """The target, its ledger and its notes."""

    events: tuple[Event, ...]
    days: dict[dt.date, Published] = field(default_factory=dict)
    erased: dict[str, str | None] = field(default_factory=dict)
    """Persons, and the key under which they were erased."""
    accepted: set[tuple[Options, Options]] = field(default_factory=set)
    in_force: tuple[Options, str] | None = None

    @property
    def table(self) -> dict[dt.date, list[Row]]:
        """The rows by day, sorted; without days that have none."""
        return {day: sorted(published.rows) for day, published in sorted(self.days.items()) if published.rows}

    def apply(self, step: Step) -> Expected:
        """Take a step."""
        if isinstance(step, Load):
            return self._load(step)
        if isinstance(step, Accept):
            if self.in_force is not None:
                self.accepted.add((self.in_force[0].definition, step.options.definition))
            return Expected("green")
        self.erased |= {person: step.mask for person in step.persons if person not in self.erased}
        gone = {masked(person, step.mask) for person in step.persons}
        for published in self.days.values():
            published.rows = [row for row in published.rows if row.person not in gone]
        return Expected("green")

    def brings_back(self, options: Options) -> bool:
        """Tell whether erased persons would come back: a list of hashes knows those of its own key alone."""
        return any(key not in (None, options.mask) for key in self.erased.values())

    def judge(self, task: str, options: Options) -> Expected:
        """Return what a load of an unpublished day must say."""
        if self.brings_back(options):
            return Expected("refused")
        if self.in_force is None:
            return Expected("green")
        published, writer = self.in_force
        if published.table != options.table:
            return Expected("refused")
        if published.definition == options.definition:
            return Expected("green")
        has_other_rows = published.has_other_rows(options)
        asks = published.reading != options.reading or (has_other_rows and writer != task)
        if asks and (published.definition, options.definition) not in self.accepted:
            return Expected("refused")
        if not has_other_rows:
            return Expected("told")
        return Expected("told", sum(day.options.has_other_rows(options) for day in self.days.values()))

    def _load(self, step: Load) -> Expected:
        days = [day for day in step.days if day not in self.days or step.token not in self.days[day].tokens]
        if not days:
            return Expected("refused" if self.brings_back(step.options) else "green")
        expected = self.judge(step.task, step.options)
        if expected.status == "refused":
            return expected
        if step.beside is not None:
            expected = self._load_beside(step, expected)
            if expected.status == "refused":
                return expected
        for day in days if step.kill in (None, "committed") else ():
            rows = step.options.rows(self.events, day, self.erased)
            tokens = self.days[day].tokens if day in self.days else set()
            self.days[day] = Published(step.options, rows, tokens | {step.token})
            self.in_force = step.options, step.task
        return Expected("killed") if step.kill else expected

    def _load_beside(self, step: Load, expected: Expected) -> Expected:
        """Take the step beside a load; return what the load must say, which looks again if the definition changed.

        :param expected: what it must say of the definition in force when it began.
        """
        assert step.beside is not None
        seen = self.in_force
        beside = self.apply(step.beside)
        if self.brings_back(step.options):
            return Expected("refused", beside=beside)
        known = {step.options.definition} | ({seen[0].definition} if seen is not None else set())
        if self.in_force is None or self.in_force[0].definition in known:
            return expected._replace(beside=beside)
        again = self.judge(step.task, step.options)
        if "refused" in again:
            return Expected("refused", beside=beside)
        told = [each.loaded_otherwise for each in (expected, again) if each.loaded_otherwise is not None]
        return Expected("told" if "told" in expected + again else "green", told[0] if told else None, beside)
