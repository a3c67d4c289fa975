"""Queue of tickets as one process reads it.

The key with a ticket's number holds its state: ``want``, then perhaps ``pass``, and a tombstone at the end. The key
with the next number holds its heartbeat.

Each process measures silence with its own clock.
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
"""Silence after which an owner is passed over."""
_ROLL_CALL_SECONDS = 2 * DEAD_SECONDS
"""Time after a ``pass`` in which every addressed owner must answer."""
_ANSWER_SECONDS = 3 * DEAD_SECONDS
"""Time for which addressed owners keep answering."""


class TicketRecord(Wire):
    """State of an open ticket.

    :param what: ``want`` while the owner waits or sends, ``pass`` after it was passed over.
    :param id: transactional id that the owner took **before** it queued.
    :param begun: id of the owner's ``begin``.
    :param place: in a ``pass``, the offset of the ticket's ``want``.
    """

    what: Literal["want", "pass"]
    id: str
    topics: tuple[str, ...]
    who: str
    begun: str
    place: int | None = None


def new_number() -> int:
    """Return a unique, even ticket number."""
    return (uuid.uuid4().int >> 66) << 1


def state_key(topic: str, number: int) -> bytes:
    return LedgerKey("", "", topic, dt.date.min, "claim", number).encode()


def heartbeat_key(topic: str, number: int) -> bytes:
    return state_key(topic, number + 1)


@dataclass
class Ticket:
    """An open ticket, with times in seconds of the watching process's clock.

    :param offset: offset of the ``want`` record. The smallest is first.
    :param last_heartbeat: last read of a record of the ticket.
    :param first_since: first view without a ticket ahead.
    :param asked_at: last read of a ``pass`` after this ticket.
    :param expected_since: start of the current roll call of the owner.
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
        return not set(self.record.topics).isdisjoint(other.record.topics)


class TurnQueue:
    """All open tickets, with the roll calls that detect dead owners.

    A roll call begins with a ``pass`` and addresses the owners of earlier tickets. A watcher judges no owner by a
    ``pass`` older than its watch.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.tickets: dict[int, Ticket] = {}
        self._clock = clock
        self._passed_at: float | None = None
        self._watched_from: int | None = None

    def watch_from(self, offset: int) -> None:
        """Judge owners only by records from this offset on."""
        self._watched_from = offset

    def add_record(self, offset: int, number: int, value: bytes | None) -> None:
        """Add one turn record. Call this in the ledger's order."""
        time_now = self._clock()
        if number % 2:
            if (owner_ticket := self.tickets.get(number - 1)) is not None:
                owner_ticket.last_heartbeat = time_now
            return
        if value is None:
            self.tickets.pop(number, None)
            return
        record = TicketRecord.model_validate_json(value)
        ticket = self.tickets.get(number)
        if record.what == "want":
            if ticket is None:  # else a copy: the owner keeps the first place
                self.tickets[number] = Ticket(number, offset, record, time_now)
            return
        want_offset = record.place if record.place is not None else offset
        self.tickets[number] = Ticket(number, want_offset, record, time_now, is_passed_over=True)
        self._start_roll_call(offset, time_now)

    def _start_roll_call(self, offset: int, time_now: float) -> None:
        is_watched, call_goes_on = self._watched_from is not None and offset >= self._watched_from, self.in_roll_call
        for ticket in self.tickets.values():
            if ticket.offset < offset:
                ticket.asked_at = time_now
                if is_watched and not (call_goes_on and ticket.expected_since is not None):
                    ticket.expected_since = time_now
        if is_watched:
            self._passed_at = time_now

    def mark_fronts(self) -> None:
        """Note which tickets have no other ticket ahead, after reading all records."""
        time_now = self._clock()
        for ticket in self.live_tickets():
            if self.tickets_ahead(ticket):
                ticket.first_since = None
            elif ticket.first_since is None:
                ticket.first_since = time_now

    def restart_clock(self) -> None:
        """Measure silence from now on and end the roll call, after the watcher itself was suspended."""
        time_now = self._clock()
        for ticket in self.tickets.values():
            ticket.last_heartbeat = time_now
            ticket.first_since = None if ticket.first_since is None else time_now
            ticket.expected_since = None
        self._passed_at = None

    def live_tickets(self) -> list[Ticket]:
        """Return the tickets that were not passed over, in order."""
        return sorted((t for t in self.tickets.values() if not t.is_passed_over), key=lambda t: t.offset)

    def passed_over(self, own_ticket: Ticket) -> list[Ticket]:
        """Return passed-over tickets that share a topic with this ticket."""
        return [t for t in self.tickets.values() if t.is_passed_over and t.shares_topic(own_ticket)]

    def tickets_ahead(self, ticket: Ticket) -> list[Ticket]:
        """Return the tickets that must be over before this ticket's turn."""
        return [t for t in self.live_tickets() if t.offset < ticket.offset and t.shares_topic(ticket)]

    def with_id(self, transactional_id: str) -> list[Ticket]:
        """Return all tickets with a transactional id, including passed-over ones."""
        return [ticket for ticket in self.tickets.values() if ticket.record.id == transactional_id]

    @property
    def in_roll_call(self) -> bool:
        """True if the watcher recently saw a ``pass``."""
        return self._passed_at is not None and self._clock() - self._passed_at < _ROLL_CALL_SECONDS

    def must_answer_roll_call(self, number: int) -> bool:
        """Return True if the ticket's owner must write a heartbeat while it waits."""
        asked_at = self.tickets[number].asked_at if number in self.tickets else None
        return asked_at is not None and self._clock() - asked_at < _ANSWER_SECONDS

    def silent_tickets(self, awaited_tickets: list[Ticket]) -> list[Ticket]:
        """Return awaited tickets, and tickets ahead of them, with owners silent for too long."""
        time_now = self._clock()
        return [
            ticket
            for ticket in self._with_tickets_ahead(awaited_tickets)
            if time_now - self._silent_since(ticket, time_now) > DEAD_SECONDS
        ]

    def _silent_since(self, ticket: Ticket, time_now: float) -> float:
        if ticket.first_since is not None:
            return max(ticket.last_heartbeat, ticket.first_since)
        if self.in_roll_call and ticket.expected_since is not None:
            return max(ticket.last_heartbeat, ticket.expected_since)
        return time_now  # a waiting owner needs no heartbeat

    def _with_tickets_ahead(self, tickets: list[Ticket]) -> list[Ticket]:
        tickets_by_number: dict[int, Ticket] = {}
        remaining = list(tickets)
        while remaining:
            ticket = remaining.pop()
            if ticket.number not in tickets_by_number:
                tickets_by_number[ticket.number] = ticket
                remaining += self.tickets_ahead(ticket)
        return sorted(tickets_by_number.values(), key=lambda ticket: ticket.offset)
