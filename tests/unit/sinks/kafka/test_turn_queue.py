"""Who is next in a topic's queue, and who is silent for too long, by the watcher's own clock."""

from __future__ import annotations

import pytest

from airflow_provider_connect.sinks._kafka.ledger.records import LedgerKey
from airflow_provider_connect.sinks._kafka.turn_queue import (
    DEAD_SECONDS,
    Ticket,
    TicketRecord,
    TurnQueue,
    heartbeat_key,
    new_number,
    state_key,
)

LONG = DEAD_SECONDS + 0.1


class Watcher:
    """A queue, the clock of who watches it, and records for it; tickets are numbered 2, 4, 6, … in their order."""

    def __init__(self) -> None:
        self.now = 100.0
        self.queue = TurnQueue(lambda: self.now)
        self._offset = 0

    def reads(self, number: int, what: str | None, *topics: str, name: str = "", place: int | None = None) -> None:
        self._offset += 1
        value = None
        if what is not None:
            names = topics or ("events",)
            record = TicketRecord(
                what=what, id=name or f"id-{number}", topics=names, who=f"run-{number}", begun="b", place=place
            )  # type: ignore[arg-type]
            value = record.model_dump_json().encode()
        self.queue.add_record(self._offset, number, value)
        self.queue.mark_fronts()

    def want(self, number: int, *topics: str) -> None:
        self.reads(number, "want", *topics)

    def beat(self, number: int) -> None:
        self._offset += 1
        self.queue.add_record(self._offset, number + 1, b"{}")

    def watches(self) -> None:
        """From here on it reads what is written as soon as it is."""
        self.queue.watch_from(self._offset + 1)

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.queue.mark_fronts()

    def ticket(self, number: int) -> Ticket:
        return self.queue.tickets[number]

    def before(self, number: int) -> list[int]:
        return [ticket.number for ticket in self.queue.tickets_ahead(self.ticket(number))]

    def overdue(self, number: int) -> list[int]:
        return [ticket.number for ticket in self.queue.silent_tickets(self.queue.tickets_ahead(self.ticket(number)))]


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


def test_the_order_of_the_ledger_is_the_order_of_the_turns(watcher: Watcher) -> None:
    for number in (4, 2, 6):
        watcher.want(number)
    assert [watcher.before(number) for number in (4, 2, 6)] == [[], [4], [4, 2]]
    watcher.reads(4, None)
    assert watcher.before(6) == [2]


def test_a_silent_sender_is_passed_over(watcher: Watcher) -> None:
    watcher.want(2)
    watcher.want(4)
    watcher.later(LONG - 1)
    assert watcher.overdue(4) == []
    watcher.beat(2)
    watcher.later(LONG - 1)
    assert watcher.overdue(4) == []
    watcher.later(1.2)
    assert watcher.overdue(4) == [2]


def test_a_waiting_owner_needs_no_heartbeat_until_its_turn(watcher: Watcher) -> None:
    for number in (2, 4, 6):
        watcher.want(number)
    for _ in range(20):
        watcher.beat(2)
        watcher.later(1.0)
    assert watcher.overdue(6) == []
    watcher.reads(2, None)
    watcher.later(LONG - 1)
    assert watcher.overdue(6) == []
    watcher.later(2)
    assert watcher.overdue(6) == [4]


def test_many_dead_ones_are_found_by_one_roll_call(watcher: Watcher) -> None:
    for number in (2, 4, 6, 8, 10):
        watcher.want(number)
    watcher.watches()
    watcher.later(LONG)
    assert watcher.overdue(10) == [2]
    watcher.reads(2, "pass", place=1)
    watcher.later(DEAD_SECONDS / 2)
    watcher.beat(6)
    watcher.later(DEAD_SECONDS / 2 + 0.1)
    assert watcher.overdue(10) == [4, 8]
    watcher.later(2 * DEAD_SECONDS)
    assert not watcher.queue.in_roll_call


def test_a_newcomer_does_not_judge_by_a_pass_it_did_not_see(watcher: Watcher) -> None:
    """Of a pass that lies in the ledger from before, nobody knows how old it is: who waits may have answered it."""
    watcher.reads(2, "pass", "other", place=1)
    for number in (4, 6, 8):
        watcher.want(number)
    watcher.watches()
    for _ in range(20):
        watcher.beat(4)
        watcher.later(1.0)
        assert watcher.overdue(8) == []


def test_an_owner_that_queued_after_a_pass_answers_only_the_next(watcher: Watcher) -> None:
    watcher.reads(2, "want", "other")
    watcher.want(4)
    watcher.watches()
    watcher.reads(2, "pass", "other", place=1)
    watcher.want(6)
    watcher.want(8)
    for _ in range(9):
        watcher.beat(4)
        watcher.later(1.0)
    assert watcher.overdue(8) == []
    watcher.reads(10, "pass", "other", place=0)
    watcher.beat(4)
    watcher.later(DEAD_SECONDS - 1)
    assert watcher.overdue(8) == []
    watcher.beat(4)
    watcher.later(2)
    assert watcher.overdue(8) == [6]


def test_a_waiting_owner_answers_longer_than_expected_and_the_latest_pass_counts(watcher: Watcher) -> None:
    watcher.want(2)
    watcher.want(4)
    assert not watcher.queue.must_answer_roll_call(4)
    watcher.reads(6, "pass", "other", place=0)
    watcher.later(2 * DEAD_SECONDS - 1)
    assert watcher.queue.must_answer_roll_call(4)
    watcher.reads(8, "pass", "other", place=0)
    watcher.later(2 * DEAD_SECONDS + 4)
    assert watcher.queue.must_answer_roll_call(4)
    watcher.later(DEAD_SECONDS)
    assert not watcher.queue.must_answer_roll_call(4)


def test_a_suspended_watcher_ignores_passes_it_reads_late(watcher: Watcher) -> None:
    """They may have answered while it slept."""
    for number in (2, 4, 6):
        watcher.want(number)
    watcher.watches()
    watcher.now += 60
    watcher.reads(8, "pass", "other", place=0)
    watcher.queue.restart_clock()
    for _ in range(10):
        watcher.beat(2)
        watcher.later(1.0)
        assert watcher.overdue(6) == []


def test_a_suspended_watcher_restarts_every_owners_time(watcher: Watcher) -> None:
    watcher.want(2)
    watcher.want(4)
    watcher.now += 60
    watcher.queue.restart_clock()
    watcher.later(LONG - 1)
    assert watcher.overdue(4) == []
    watcher.later(1)
    assert watcher.overdue(4) == [2]


def test_only_days_that_share_a_topic_wait_for_each_other(watcher: Watcher) -> None:
    watcher.want(2, "a")
    watcher.want(4, "b")
    watcher.want(6, "a", "b")
    watcher.want(8, "b")
    assert [watcher.before(number) for number in (2, 4, 6, 8)] == [[], [], [2, 4], [4, 6]]


def test_a_dead_owner_is_found_behind_waiting_ones(watcher: Watcher) -> None:
    watcher.want(2, "a")
    watcher.want(4, "a", "b")
    watcher.want(6, "b")
    watcher.later(LONG)
    assert watcher.overdue(6) == [2]


def test_a_passed_over_ticket_blocks_no_one_and_is_closed_by_the_next_owner(watcher: Watcher) -> None:
    watcher.want(2)
    watcher.want(4)
    watcher.want(6, "other")
    watcher.reads(2, "pass", place=1)
    assert watcher.before(4) == []
    assert [ticket.number for ticket in watcher.queue.passed_over(watcher.ticket(4))] == [2]
    assert watcher.queue.passed_over(watcher.ticket(6)) == []
    watcher.want(2)  # written twice by a client that got no answer
    assert watcher.ticket(2).is_passed_over
    watcher.reads(2, None)
    assert watcher.queue.passed_over(watcher.ticket(4)) == []


def test_compaction_takes_no_place_away(watcher: Watcher) -> None:
    """It may have left a ticket's last record alone."""
    watcher.want(4)
    watcher.reads(2, "pass", place=-5, name="connect-1")
    assert (watcher.ticket(2).offset, watcher.ticket(2).record.id) == (-5, "connect-1")


def test_a_ticket_that_was_written_twice_keeps_its_first_place(watcher: Watcher) -> None:
    """The copy may come late, when its owner is sending: who queued between the two would begin beside it."""
    watcher.want(2)
    watcher.want(4)
    watcher.want(2)
    assert watcher.before(2) == []
    assert watcher.before(4) == [2]


def test_an_earlier_version_reads_turn_records_as_claims_of_an_unknown_stream() -> None:
    number = new_number()
    for key, part in ((state_key("events", number), number), (heartbeat_key("events", number), number + 1)):
        parsed = LedgerKey.parse(key)
        assert (*parsed[:3], parsed.kind, parsed.part) == ("", "", "events", "claim", part)
    assert str(LedgerKey.parse(state_key("events", 2)).day) == "0001-01-01"
