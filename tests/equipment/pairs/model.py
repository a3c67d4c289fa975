"""The expected table and the expected answer after each step of a case. Pure. Knows nothing of the package.

The rules are those of the ledger's definitions. A publish continues if its definition is in force. A task is warned of
its own changes of narrowing. It is refused if a person must decide.
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
"""Where a driver dies: after staging, before the commit, or after the commit without a report."""
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
    """A row of the target: the columns that a case checks."""

    id: int
    kind: str
    person: str
    note: str | None
    label: str | None


@dataclass(frozen=True)
class Options:
    """How a task reads the source.

    :param kind: the only kind of events that ``where`` selects; None for all.
    :param is_snapshot: true if the entire table is read, without days.
    :param has_note: true if ``columns`` includes the note.
    :param least_amount: lower limit of a shape's filter.
    :param label: a column that a shape adds.
    :param mask: key under which persons are hashed; None for no mask.
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
        """The options that a person must accept."""
        return self.day_column, self.zone, self.key, self.is_snapshot

    @property
    def narrowing(self) -> tuple[object, ...]:
        """The options that leave rows out."""
        return (self.kind,)

    @property
    def shapes(self) -> tuple[object, ...]:
        """The shapes."""
        return self.least_amount, self.label, self.mask

    @property
    def definition(self) -> Options:
        """The options that are compared, which excludes columns."""
        return replace(self, has_note=True)

    def has_other_rows(self, other: Options) -> bool:
        """Return whether a day may have other rows under other options."""
        mine, others = (self.reading, self.narrowing, self.shapes), (other.reading, other.narrowing, other.shapes)
        return mine != others

    def rows(self, events: Iterable[Event], day: dt.date, erased: Iterable[str]) -> list[Row]:
        """Return the rows of a day."""
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
    """Return a person as stored in the target."""
    return person if key is None else hmac.new(key.encode(), person.encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Load:
    """A run of a task.

    :param token: equal for all tries of one intent.
    :param kill: only for loads of one day.
    :param beside: a step that runs after this load has sent its first day and before its commit.
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
    """A person accepts a task's options."""

    options: Options


@dataclass(frozen=True)
class Erase:
    """Erases people, and keeps them out.

    :param mask: key under which the target has hashed them.
    """

    persons: tuple[str, ...]
    mask: str | None = None


Step = Load | Accept | Erase


class Expected(NamedTuple):
    """The expected answer of a step.

    :param loaded_otherwise: number of days in the warning; None without one.
    :param beside: answer of the step beside it; None if it did not run.
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
        """The rows by day, sorted, without empty days."""
        return {day: sorted(published.rows) for day, published in sorted(self.days.items()) if published.rows}

    def apply(self, step: Step) -> Expected:
        """Apply a step."""
        if isinstance(step, Load):
            return self._load(step)
        if isinstance(step, Accept):
            if self.in_force is not None:
                self.accepted.add((self.in_force[0].definition, step.options.definition))
            return Expected("green")
        self.erased |= {person: step.mask for person in step.persons if person not in self.erased}
        erased_persons = {masked(person, step.mask) for person in step.persons}
        for published in self.days.values():
            published.rows = [row for row in published.rows if row.person not in erased_persons]
        return Expected("green")

    def brings_back(self, options: Options) -> bool:
        """Return whether erased persons would come back: a list of hashes only matches its own key."""
        return any(key not in (None, options.mask) for key in self.erased.values())

    def judge(self, task: str, options: Options) -> Expected:
        """Return the expected answer of a load of an unpublished day."""
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
        """Apply the step beside a load. Returns the load's answer, which changes if the definition changed.

        :param expected: the answer under the definition in force when the load began.
        """
        assert step.beside is not None
        definition_before = self.in_force
        beside = self.apply(step.beside)
        if self.brings_back(step.options):
            return Expected("refused", beside=beside)
        known_definitions = {step.options.definition} | (
            {definition_before[0].definition} if definition_before is not None else set()
        )
        if self.in_force is None or self.in_force[0].definition in known_definitions:
            return expected._replace(beside=beside)
        again = self.judge(step.task, step.options)
        if "refused" in again:
            return Expected("refused", beside=beside)
        counts = [answer.loaded_otherwise for answer in (expected, again) if answer.loaded_otherwise is not None]
        return Expected("told" if "told" in expected + again else "green", counts[0] if counts else None, beside)
