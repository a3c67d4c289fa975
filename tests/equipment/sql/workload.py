"""Eight days of a busy table, made from a seed: a list of transactions, each with the moments of its begin and commit.

It has what polling is known to lose: transactions that commit hours or days late, two writers that take their ids in
blocks and have clocks of their own, changes that leave the time alone, rows without a time, rows that are deleted and
come again, a table that is emptied and filled from a backup, and columns that are added and widened.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal, NamedTuple

FIRST = dt.date(2026, 10, 5)
DAYS = tuple(FIRST + dt.timedelta(days=number) for number in range(8))
BEGIN = dt.datetime.combine(FIRST, dt.time(), dt.UTC)
LONGEST = dt.timedelta(days=3)
BLOCK = 10
"""How many ids a writer takes at once."""
NARROW = 8
"""How many characters a state has at most, before the column is widened."""
EMPTIED, WIDENED = BEGIN + dt.timedelta(days=4, hours=12), BEGIN + dt.timedelta(days=7, hours=13)
"""When the table is locked, so no transaction may be open: to be emptied and get a column, and to have one widened."""

Reshape = Literal["truncate", "add", "widen"]


def poll_of(date: dt.date) -> dt.datetime:
    """Return when a day is polled: half an hour after its end."""
    return dt.datetime.combine(date, dt.time(), dt.UTC) + dt.timedelta(days=1, minutes=30)


@dataclass(frozen=True)
class Row:
    """A row of the table.

    :param changed: time of the last change by a writer's clock.
    :param note: the column that is added later.
    """

    id: int
    state: str
    amount: Decimal
    changed: dt.datetime | None
    note: str | None = None


class Change(NamedTuple):
    """Change of one row: a new row, a new state, or a delete."""

    kind: Literal["insert", "update", "delete"]
    row: Row


@dataclass(frozen=True)
class Transaction:
    """Changes made at the begin and visible from the commit on."""

    begin: dt.datetime
    commit: dt.datetime
    changes: tuple[Change, ...] = ()
    reshape: Reshape | None = None

    @property
    def is_late(self) -> bool:
        return self.commit > self.begin


State = dict[int, Row]


def apply(state: State, transaction: Transaction) -> None:
    """Apply a transaction to a table."""
    if transaction.reshape == "truncate":
        state.clear()
    for change in transaction.changes:
        if change.kind == "delete":
            del state[change.row.id]
        else:
            state[change.row.id] = change.row


def states(workload: Sequence[Transaction]) -> Iterator[State]:
    """Yield the committed rows at the poll of each day."""
    committed = sorted(workload, key=lambda each: each.commit)  # of one moment, those that began earlier come first
    for date in DAYS:
        state: State = {}
        for transaction in committed:
            if transaction.commit <= poll_of(date):
                apply(state, transaction)
        yield state


@dataclass
class _Writer:
    """A program that writes, with its reserved ids and a clock that is off."""

    skew: dt.timedelta
    ids: list[int] = field(default_factory=list)


class _Making:
    def __init__(self, seed: int, statements_a_day: int) -> None:
        self.random = random.Random(seed)
        self.statements_a_day = statements_a_day
        skews = self.random.sample([-20, -5, 0, 3, 45], 2)
        self.writers = [_Writer(dt.timedelta(minutes=skew)) for skew in skews]
        self.next_block = 1
        self.made: list[Transaction] = []
        self.open: list[Transaction] = []
        self.state: State = {}
        self.deleted: State = {}
        self.held: set[int] = set()
        """The ids that open transactions have written: nobody else may."""

    def make(self) -> list[Transaction]:
        most = 2 * self.statements_a_day // 3  # transactions have one to two statements
        for date in DAYS:
            seconds = self.random.sample(range(86_400), most)
            for second in sorted(seconds):
                at = dt.datetime.combine(date, dt.time(), dt.UTC) + dt.timedelta(seconds=second)
                self._reshape(at)
                self._write(at)
        self._commit(poll_of(DAYS[-1]) + LONGEST)
        return self.made

    def _commit(self, until: dt.datetime) -> None:
        """Let everybody see what is committed by now."""
        for transaction in sorted(self.open, key=lambda each: each.commit):
            if transaction.commit <= until:
                self.open.remove(transaction)
                self._see(transaction)

    def _see(self, transaction: Transaction) -> None:
        before = dict(self.state)
        apply(self.state, transaction)
        for change in transaction.changes:
            self.held.discard(change.row.id)
            if change.kind == "delete":
                self.deleted[change.row.id] = before[change.row.id]
            else:
                self.deleted.pop(change.row.id, None)

    def _reshape(self, now: dt.datetime) -> None:
        done = {each.reshape for each in self.made}
        if now > EMPTIED and "truncate" not in done:
            self._commit(EMPTIED)
            before = list(self.state.values())
            back = self.random.sample(before, 3 * len(before) // 5)
            filled = [
                Change("insert", row if number % 2 else replace(row, changed=EMPTIED))
                for number, row in enumerate(back)
            ]
            self._add(Transaction(EMPTIED, EMPTIED, reshape="truncate"))
            self._add(Transaction(EMPTIED, EMPTIED, tuple(filled)))
            self._add(Transaction(EMPTIED, EMPTIED, reshape="add"))
        if now > WIDENED and "widen" not in done:
            self._commit(WIDENED)
            self._add(Transaction(WIDENED, WIDENED, reshape="widen"))

    def _write(self, now: dt.datetime) -> None:
        self._commit(now)
        writer = self.random.choice(self.writers)
        changes: list[Change] = []
        for _ in range(self.random.choice((1, 1, 2))):
            change = self._change(now, writer, taken={each.row.id for each in changes})
            if change is not None:
                changes.append(change)
        if changes:
            self._add(Transaction(now, self._commit_of(now), tuple(changes)))

    def _commit_of(self, now: dt.datetime) -> dt.datetime:
        if self.random.random() >= 0.04:
            return now
        commit = now + self.random.uniform(1 / 24, 1) * LONGEST
        for locked in (EMPTIED, WIDENED):
            if now <= locked < commit:
                commit = locked - dt.timedelta(microseconds=1)
        return max(now, commit)

    def _add(self, transaction: Transaction) -> None:
        self.made.append(transaction)
        if transaction.is_late:
            self.open.append(transaction)
            self.held.update(change.row.id for change in transaction.changes)
        else:
            self._see(transaction)

    def _change(self, now: dt.datetime, writer: _Writer, taken: set[int]) -> Change | None:
        free = self.held | taken
        there = [row for number, row in self.state.items() if number not in free]
        gone = [row for number, row in self.deleted.items() if number not in free]
        clock = (now + writer.skew).replace(microsecond=self.random.choice((0, 0, 123456)))
        kind = self.random.choices(("new", "update", "silent", "delete", "again"), (60, 22, 3, 12, 3))[0]
        if kind == "new" or (kind == "again" and not gone) or not there:
            changed = None if self.random.random() < 0.01 else clock
            return Change("insert", self._row(self._next_id(writer), now, changed))
        if kind == "again":
            return Change("insert", self._row(self.random.choice(gone).id, now, clock))
        row = self.random.choice(there)
        if kind == "delete":
            return Change("delete", row)
        changed = self._row(row.id, now, row.changed if kind == "silent" else clock)
        return Change("update", replace(changed, note=changed.note or row.note))

    def _next_id(self, writer: _Writer) -> int:
        if not writer.ids:
            writer.ids = list(range(self.next_block, self.next_block + BLOCK))
            self.next_block += BLOCK
        return writer.ids.pop(0)

    def _row(self, number: int, now: dt.datetime, changed: dt.datetime | None) -> Row:
        length = 3 * NARROW if now > WIDENED else NARROW
        state = f"{self.random.getrandbits(4 * length):0{length}x}"
        note = f"note {self.random.randrange(99)}" if now > EMPTIED and self.random.random() < 0.7 else None
        return Row(number, state, Decimal(self.random.randrange(10**6)) / 100, changed, note)


def workload(seed: int, statements_a_day: int = 65) -> list[Transaction]:
    """Return the eight days of a seed, in the order in which transactions begin."""
    return _Making(seed, statements_a_day).make()
