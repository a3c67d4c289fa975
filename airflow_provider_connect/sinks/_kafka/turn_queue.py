"""The queue of tickets as one process sees it: who is next, and who has been silent for too long.

Turn records say who wants to send into which topics, in the order of the ledger's one partition. They lie in the
ledger's topic, as plain records, and are read whether or not a transaction of others is open. Each ticket has a number,
and two keys: its state (``want``, then maybe ``pass``, then a tombstone: it is over), and under the next number its
sign of life, since compaction would else move the ticket's place.

Nothing here speaks to a broker, and no two clocks are compared: how long somebody is silent is measured by the
watcher's own clock, from the moment at which the watcher saw it.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from airflow_provider_connect.sinks._kafka.ledger.records import LedgerKey
from airflow_provider_connect.wire import Wire

DEAD_SECONDS = 6.0
"""Whoever is to send and is silent for so long is passed over; a wrong guess costs a retry, never a torn day."""
_CALL_SECONDS = 2 * DEAD_SECONDS
"""How long after a pass everybody who was asked is expected to answer."""
_ANSWER_SECONDS = 3 * DEAD_SECONDS
"""How long those who were asked go on answering: longer, as the others may read of the pass some seconds later."""


class TicketRecord(Wire):
    """What the state of a ticket says, until it is over.

    :param what: it waits or sends; or it was passed over, and whoever comes next ends its transaction first.
    :param id: the transactional id that it took **before** it queued: who takes it again has fenced it.
    :param topics: it sends into, sorted.
    :param who: for people.
    :param begun: which ``begin`` of which driver it belongs to (:class:`.records.DayPlan`).
    :param place: of a ticket that was passed over: the offset of its ``want``.
    """

    what: Literal["want", "pass"]
    id: str
    topics: tuple[str, ...]
    who: str
    begun: str
    place: int | None = None


def new_number() -> int:
    """Return the number of a new ticket: even, and nobody else's."""
    return (uuid.uuid4().int >> 66) << 1


def state_key(topic: str, number: int) -> bytes:
    """Return the key of a ticket's state.

    :param topic: for people: the sink's.
    """
    return LedgerKey("", "", topic, dt.date.min, "claim", number).encode()


def heartbeat_key(topic: str, number: int) -> bytes:
    """Return the key of a ticket's sign of life."""
    return state_key(topic, number + 1)


@dataclass
class Ticket:
    """A ticket that is not over.

    :param place: offset of its ``want``: the smaller is first.
    :param last_sign: when the watcher last read something of it.
    :param free_since: since when the watcher has seen nobody before it; None while somebody is.
    :param asked: when the watcher last read of a pass that was written behind this ticket.
    :param called: since when, in the roll call that goes on, it is expected to answer; None where it is not.
    """

    number: int
    offset: int
    record: TicketRecord
    last_heartbeat: float
    is_passed_over: bool = False
    first_since: float | None = None
    asked_at: float | None = None
    expected_since: float | None = None

    def shares_topic(self, other: Ticket) -> bool:
        """Tell whether both send into the same topic."""
        return not set(self.record.topics).isdisjoint(other.record.topics)


class TurnQueue:
    """All tickets that are not over.

    A roll call asks the owners of the tickets before the pass that began it, as only these are sure to read of it;
    whoever queues later is asked by the next pass. A watcher judges only by passes that it saw happen: it cannot tell
    the age of one that it finds in the ledger, and who was asked may have answered and be silent again.

    :param clock: seconds, as of :func:`time.monotonic`.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.tickets: dict[int, Ticket] = {}
        self._clock = clock
        self._passed_at: float | None = None
        self._watched_from: int | None = None

    def watch_from(self, offset: int) -> None:
        """Judge by what is written from here on, which is read as soon as it is written."""
        self._watched_from = offset

    def add_record(self, offset: int, number: int, value: bytes | None) -> None:
        """Take one turn record, in the order of the ledger."""
        now = self._clock()
        if number % 2:
            if (alive := self.tickets.get(number - 1)) is not None:
                alive.last_heartbeat = now
            return
        if value is None:
            self.tickets.pop(number, None)
            return
        record = TicketRecord.model_validate_json(value)
        known = self.tickets.get(number)
        if record.what == "want":
            if known is None:  # else a copy, maybe a late one: who sends by the first must keep its place
                self.tickets[number] = Ticket(number, offset, record, now)
            return
        place = record.place if record.place is not None else offset
        self.tickets[number] = Ticket(number, place, record, now, is_passed_over=True)
        self._call(offset, now)

    def _call(self, offset: int, now: float) -> None:
        counts, goes_on = self._watched_from is not None and offset >= self._watched_from, self.in_roll_call
        for ticket in self.tickets.values():
            if ticket.offset < offset:
                ticket.asked_at = now
                if counts and not (goes_on and ticket.expected_since is not None):
                    ticket.expected_since = now
        if counts:
            self._passed_at = now

    def mark_fronts(self) -> None:
        """Note who has nobody before it, now that all records are read."""
        now = self._clock()
        for ticket in self.live_tickets():
            if self.tickets_ahead(ticket):
                ticket.first_since = None
            elif ticket.first_since is None:
                ticket.first_since = now

    def restart_clock(self) -> None:
        """Give everybody the whole time again: the watcher itself was away, so silence says nothing.

        Nor does it know when the passes were written that it reads of only now.
        """
        now = self._clock()
        for ticket in self.tickets.values():
            ticket.last_heartbeat = now
            ticket.first_since = None if ticket.first_since is None else now
            ticket.expected_since = None
        self._passed_at = None

    def live_tickets(self) -> list[Ticket]:
        """Return who waits or sends, the first of all first."""
        return sorted((t for t in self.tickets.values() if not t.is_passed_over), key=lambda t: t.offset)

    def passed_over(self, mine: Ticket) -> list[Ticket]:
        """Return who was passed over and whose transaction may still be open, in topics of this ticket."""
        return [t for t in self.tickets.values() if t.is_passed_over and t.shares_topic(mine)]

    def tickets_ahead(self, ticket: Ticket) -> list[Ticket]:
        """Return who has to be over before this ticket's turn begins."""
        return [t for t in self.live_tickets() if t.offset < ticket.offset and t.shares_topic(ticket)]

    def with_id(self, transactional_id: str) -> list[Ticket]:
        """Return every ticket with a transactional id, passed over or not."""
        return [ticket for ticket in self.tickets.values() if ticket.record.id == transactional_id]

    @property
    def in_roll_call(self) -> bool:
        """Whether the watcher saw somebody passed over just now: then everybody who waits shows that it lives."""
        return self._passed_at is not None and self._clock() - self._passed_at < _CALL_SECONDS

    def must_answer_roll_call(self, number: int) -> bool:
        """Tell whether a ticket's owner is to show that it lives, though it only waits."""
        asked = self.tickets[number].asked_at if number in self.tickets else None
        return asked is not None and self._clock() - asked < _ANSWER_SECONDS

    def silent_tickets(self, awaited_tickets: list[Ticket]) -> list[Ticket]:
        """Return who is silent for too long, among those who are waited for, and those whom these wait for."""
        now = self._clock()
        return [
            ticket for ticket in self._closure(awaited_tickets) if now - self._silent_since(ticket, now) > DEAD_SECONDS
        ]

    def _silent_since(self, ticket: Ticket, now: float) -> float:
        if ticket.first_since is not None:
            return max(ticket.last_heartbeat, ticket.first_since)
        if self.in_roll_call and ticket.expected_since is not None:
            return max(ticket.last_heartbeat, ticket.expected_since)
        return now  # who only waits need not show that it lives

    def _closure(self, tickets: list[Ticket]) -> list[Ticket]:
        found: dict[int, Ticket] = {}
        left = list(tickets)
        while left:
            ticket = left.pop()
            if ticket.number not in found:
                found[ticket.number] = ticket
                left += self.tickets_ahead(ticket)
        return sorted(found.values(), key=lambda ticket: ticket.offset)
