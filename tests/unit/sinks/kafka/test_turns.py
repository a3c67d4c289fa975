"""What one publish does on its way through the queue, where no broker is needed to see it."""

from __future__ import annotations

from typing import Literal

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks._kafka.ledger.view import TopicView
from airflow_provider_connect.sinks._kafka.turn import Turn
from airflow_provider_connect.sinks._kafka.turn_queue import Ticket, TicketRecord

NOWHERE = Connection(conn_id="kafka_default", conn_type="kafka", extra={"bootstrap.servers": "127.0.0.1:1"})


def test_who_ends_what_a_dead_one_left_open_waits_for_no_longer_than_its_timeout_says() -> None:
    """How long one waits for an answer is not how long a transaction may be open."""
    view = TopicView("ledger", StreamKey(connector="c", stream="s"))
    turn = Turn(NOWHERE, view, "connect-1", ["events"], "run", "b", 60.0, 0.2)
    record = TicketRecord(what="pass", id="connect-2", topics=("events",), who="other", begun="c", place=1)
    with pytest.raises(RetriableError, match="taking transactional id 'connect-2'"):
        turn._fence(Ticket(2, 1, record, 0.0, is_passed_over=True))


@pytest.mark.parametrize(
    ("tickets", "is_orphan"),
    [
        ([], False),  # nothing was begun, or all is over
        ([("mine", "want")], True),
        ([("mine", "pass")], True),
        ([("mine", "want"), ("mine", "pass")], True),
        ([("another try of the same files", "want")], False),
        ([("another day of the snapshots", "pass")], False),
        ([("mine", "pass"), ("another run", "want")], False),
        ([("another run", "want"), ("mine", "want")], False),
        ([("another run", "pass"), ("mine", "want")], True),
    ],
)
def test_a_driver_ends_what_its_own_executor_left_and_nobody_else_works_at(
    tickets: list[tuple[str, Literal["want", "pass"]]], monkeypatch: pytest.MonkeyPatch, *, is_orphan: bool
) -> None:
    view = TopicView("ledger", StreamKey(connector="c", stream="s"))
    for offset, (begun, what) in enumerate(tickets):
        record = TicketRecord(what=what, id="connect-1", topics=("events",), who="run", begun=begun, place=offset)
        view.tickets[2 * offset + 2] = offset, record.model_dump_json().encode()
    other = TicketRecord(what="want", id="connect-2", topics=("events",), who="other", begun="of another id")
    view.tickets[100] = 100, other.model_dump_json().encode()
    monkeypatch.setattr(Turn, "_read_queue", lambda _: None)  # there is nothing more to read
    turn = Turn(NOWHERE, view, "connect-1", ["events"], "run", "mine", 60.0, 60.0)
    assert turn.has_orphan() is is_orphan
