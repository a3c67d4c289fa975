"""Queue of tickets as one process sees it: the order of the tickets, and owners that are silent for too long.

Turn records are plain records in the ledger topic, in the order of its one partition. They are read whether or not a
transaction is open. A ticket has a number and two keys. The first holds its state: ``want``, perhaps ``pass``, then a
tombstone when it is over. The key with the next number holds its heartbeat. One key for both would let compaction move
the ticket's place.

This module has no network access and compares no clocks. The watcher measures silence with its own clock, from the
moment it read a record.
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
"""Silence after which the sender is passed over. A wrong guess costs a retry, and never shows part of a day."""
_ROLL_CALL_SECONDS = 2 * DEAD_SECONDS
"""Time after a pass in which every addressed owner is expected to answer."""
_ANSWER_SECONDS = 3 * DEAD_SECONDS
"""Time for which addressed owners keep answering. Longer, because other watchers may read the pass seconds later."""


class TicketRecord(Wire):
    """State of a ticket that is not over.

    :param what: ``want`` while it waits or sends. ``pass`` after it was passed over: the next owner ends its
        transaction.
    :param id: transactional id taken **before** it queued. Taking the id again fences the owner.
    :param topics: topics it sends into, sorted.
    :param who: the publish, for messages.
    :param begun: id of its ``begin`` (:class:`.record_encoder.DayPlan`).
    :param place: offset of the ``want`` of a ticket that was passed over.
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
    """Return the key of a ticket's state.

    :param topic: a topic of the sink, for people who read the ledger.
    """
    return LedgerKey("", "", topic, dt.date.min, "claim", number).encode()


def heartbeat_key(topic: str, number: int) -> bytes:
    """Return the key of a ticket's heartbeat."""
    return state_key(topic, number + 1)


@dataclass
class Ticket:
    """A ticket that is not over.

    :param offset: offset of its ``want``. The smallest is first.
    :param last_heartbeat: time at which the watcher last read a record of it.
    :param first_since: time since which the watcher sees no ticket ahead of it, or None.
    :param asked_at: time at which the watcher last read a pass written after this ticket.
    :param expected_since: time since which it must answer the current roll call, or None.
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
        """Return True if both tickets send into a common topic."""
        return not set(self.record.topics).isdisjoint(other.record.topics)


class TurnQueue:
    """All tickets that are not over.

    A roll call addresses the owners of tickets ahead of the pass that started it, because only they are sure to read
    it. The next pass addresses owners that queue later. A watcher judges only by passes that it saw happen. It cannot
    know the age of an older pass, whose owners may have answered and fallen silent again.

    :param clock: seconds, such as :func:`time.monotonic`.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.tickets: dict[int, Ticket] = {}
        self._clock = clock
        self._passed_at: float | None = None
        self._watched_from: int | None = None

    def watch_from(self, offset: int) -> None:
        """Judge by records from this offset on, which are read as soon as they are written."""
        self._watched_from = offset

    def add_record(self, offset: int, number: int, value: bytes | None) -> None:
        """Add one turn record, in the order of the ledger."""
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
        """Update which tickets have none ahead, after all records were read."""
        time_now = self._clock()
        for ticket in self.live_tickets():
            if self.tickets_ahead(ticket):
                ticket.first_since = None
            elif ticket.first_since is None:
                ticket.first_since = time_now

    def restart_clock(self) -> None:
        """Restart every owner's time, because the watcher itself was suspended.

        The watcher also ignores passes that it reads only now, since it does not know when they were written.
        """
        time_now = self._clock()
        for ticket in self.tickets.values():
            ticket.last_heartbeat = time_now
            ticket.first_since = None if ticket.first_since is None else time_now
            ticket.expected_since = None
        self._passed_at = None

    def live_tickets(self) -> list[Ticket]:
        """Return waiting and sending tickets in order."""
        return sorted((t for t in self.tickets.values() if not t.is_passed_over), key=lambda t: t.offset)

    def passed_over(self, own_ticket: Ticket) -> list[Ticket]:
        """Return passed-over tickets in topics of this ticket, whose transactions may still be open."""
        return [t for t in self.tickets.values() if t.is_passed_over and t.shares_topic(own_ticket)]

    def tickets_ahead(self, ticket: Ticket) -> list[Ticket]:
        """Return the tickets that must be over before this ticket's turn."""
        return [t for t in self.live_tickets() if t.offset < ticket.offset and t.shares_topic(ticket)]

    def with_id(self, transactional_id: str) -> list[Ticket]:
        """Return all tickets with a transactional id, passed-over ones included."""
        return [ticket for ticket in self.tickets.values() if ticket.record.id == transactional_id]

    @property
    def in_roll_call(self) -> bool:
        """True if the watcher recently saw a pass. Every waiting owner then writes a heartbeat."""
        return self._passed_at is not None and self._clock() - self._passed_at < _ROLL_CALL_SECONDS

    def must_answer_roll_call(self, number: int) -> bool:
        """Return True if a ticket's owner must write a heartbeat although it only waits."""
        asked_at = self.tickets[number].asked_at if number in self.tickets else None
        return asked_at is not None and self._clock() - asked_at < _ANSWER_SECONDS

    def silent_tickets(self, awaited_tickets: list[Ticket]) -> list[Ticket]:
        """Return tickets that are silent for too long, among the awaited ones and those ahead of them."""
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
