"""What a process knows of a ledger's topic, with several threads that ask and read on at the same time."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sink import LedgerRow, StreamKey
from airflow_provider_connect.sinks._kafka.ledger import view as _kafka_ledger_view
from airflow_provider_connect.sinks._kafka.ledger.kafka_ledger import KafkaLedger
from airflow_provider_connect.sinks._kafka.ledger.records import (
    KEY_KINDS,
    DayEntry,
    DefinitionRecord,
    LedgerKey,
    parse_record,
)
from airflow_provider_connect.sinks._kafka.ledger.view import LedgerHandover, TopicView
from airflow_provider_connect.sinks._kafka.ledger_check import topics_of_other_targets
from airflow_provider_connect.sinks._kafka.turn_queue import TicketRecord, heartbeat_key, state_key
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.stage.definition import digest_of

KEY = StreamKey(connector="c", stream="s")
DAY = dt.date(2026, 10, 5)
ABOUT = LedgerKey("c", "s", "events", DAY)
RAW = ABOUT.encode()


class Written:
    """A record of the ledger's topic."""

    def __init__(self, key: bytes, value: bytes | None, offset: int = 0) -> None:
        self._key, self._value, self._offset = key, value, offset

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def offset(self) -> int:
        return self._offset


def entry(
    generation: int, attempt: str = "", built_on: int | None = None, beaten: tuple[str, ...] = ()
) -> tuple[DayEntry, bytes]:
    row = LedgerRow(day=DAY, generation=generation, token=attempt or f"t{generation}", rows=1, attempt=attempt or "a")
    made = DayEntry(row=row, built_on=built_on, beaten=beaten)
    return made, made.model_dump_json().encode()


def view_with(*values: bytes) -> TopicView:
    view = TopicView("ledger", KEY)
    for offset, value in enumerate(values):
        note(view, Written(RAW, value, offset))
    return view


def note(view: TopicView, record: Written) -> None:
    """Read on by one record, as the topic's reader does."""
    with view.lock:
        view.add(record)  # type: ignore[arg-type]
        view.positions = {0: record.offset() + 1}


def beside(work: Callable[[], Any]) -> threading.Thread:
    """Do something in another thread, which may have to wait for what this one does."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.5)
    return thread


ONE, TWO, THREE = (entry(number)[1] for number in (1, 2, 3))


def test_a_record_that_comes_while_two_threads_ask_for_its_day_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    view, threads = view_with(ONE, TWO), []
    counting = _kafka_ledger_view.select_counting_value

    def other() -> None:
        view.counting_value(RAW)
        note(view, Written(RAW, THREE, 2))

    def interrupted(values: Iterable[bytes], topic: str) -> bytes:
        known = list(values)
        if not threads:
            threads.append(threading.current_thread())
            threads.append(beside(other))
        return counting(known, topic)

    monkeypatch.setattr(_kafka_ledger_view, "select_counting_value", interrupted)
    assert view.counting_value(RAW) == TWO
    threads[1].join()
    assert view.counting_value(RAW) == THREE


def test_an_executor_gets_every_record_before_the_place_from_which_it_reads_on() -> None:
    view, threads = view_with(ONE, TWO), []

    class Keys(list[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            yield RAW
            threads.append(beside(lambda: note(view, Written(RAW, THREE, 2))))

    handed = view.handover(Keys([RAW]))
    threads[0].join()
    executor = TopicView("ledger", KEY, handed)
    for offset in range(handed.positions[0], 3):
        note(executor, Written(RAW, (ONE, TWO, THREE)[offset], offset))
    assert executor.counting_value(RAW) == THREE


def ticket(what: Any = "want", **more: Any) -> bytes:
    fields = {"what": what, "id": "connect-1", "topics": ("events",), "who": "run", "begun": "b"} | more
    return TicketRecord.model_validate(fields).model_dump_json().encode()


def test_signs_of_life_are_not_kept_nor_handed_to_executors() -> None:
    view = TopicView("ledger", KEY)
    note(view, Written(state_key("events", 2), ticket(), 7))
    note(view, Written(heartbeat_key("events", 2), b"{}", 8))
    assert view.handover([]) == LedgerHandover({0: 9}, {}, {2: (7, ticket())})


def test_a_ticket_that_was_written_twice_keeps_its_first_place() -> None:
    view = TopicView("ledger", KEY)
    note(view, Written(state_key("events", 2), ticket(), 7))
    note(view, Written(state_key("events", 2), ticket(), 9))
    assert view.tickets[2][0] == 7
    note(view, Written(state_key("events", 2), ticket("pass", place=7), 10))
    assert view.tickets[2] == (10, ticket("pass", place=7))


def test_a_record_that_counts_and_is_not_its_keys_last_is_told() -> None:
    """Compaction would drop it, and keep the one that does not count."""
    _, won = entry(1, "w", built_on=0)
    lost, losing = entry(1, "l", built_on=0)
    newer, counts = entry(2, "v", built_on=1)
    again, late = parse_record(DayEntry, won, "ledger").rewritten_over(lost), b""
    late = again.model_dump_json().encode()
    view = view_with(won, losing, counts, late)
    assert view.counting_value(RAW) == counts
    assert view.superseded_value(RAW) == late
    healed = newer.rewritten_over(again).model_dump_json().encode()
    note(view, Written(RAW, healed, 4))
    assert view.counting_value(RAW) == healed
    assert view.superseded_value(RAW) is None
    assert view_with(late, healed).counting_value(RAW) == healed


class Filled(KafkaLedger):
    """A ledger whose topic is read already."""

    def read_on(self, *_: Any, **__: Any) -> TopicView:
        return self.view

    def undecided_records(self, *_: Any) -> dict[LedgerKey, bytes]:
        return {}


def test_the_streams_own_days_are_not_looked_through_for_those_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = "events_{event}", "other_{event}"
    view = TopicView("ledger", KEY)
    for number in range(500):
        key = LedgerKey("c", "s", own, DAY + dt.timedelta(number))
        note(view, Written(key.encode(), ONE))
        note(view, Written(key._replace(kind="claim").encode(), ONE))
    offsets = DayEntry(row=entry(1)[0].row, offsets={"other_a": {0: (0, 1)}}).model_dump_json().encode()
    note(view, Written(LedgerKey("c", "s", other, DAY).encode(), offsets))
    nowhere = Connection(conn_id="k", conn_type="kafka", extra={})
    ledger = Filled(nowhere, KafkaSink(topic=own, ledger_topic="ledger"), KEY)
    ledger.view = view
    parse, looked_at = LedgerKey.parse, []

    def counted(raw: bytes | None) -> LedgerKey:
        looked_at.append(raw)
        return parse(raw)

    monkeypatch.setattr(LedgerKey, "parse", counted)
    assert topics_of_other_targets(ledger) == {"other_a": other}
    assert len(looked_at) == 1


def note_key(kind: Any = "alarm", target: str = "events", connector: str = "c") -> LedgerKey:
    return LedgerKey(connector, "s", target, dt.date.min, kind, 7)


@pytest.mark.parametrize("kind", ["in_force", "definition", "acceptance", "alarm", "resumption"])
def test_a_streams_records_beside_its_days_are_kept_and_those_of_others_are_not(kind: Any) -> None:
    view, key = TopicView("ledger", KEY), note_key(kind)
    for record in (key, note_key(kind, connector="d"), key._replace(stream="other")):
        note(view, Written(record.encode(), b"{}"))
    note(view, Written(b'["/judgement/c","s","events","0001-01-01","claim",7]', b"{}"))
    assert [raw for what in KEY_KINDS for raw in view.keys(what)] == [key.encode()]
    assert view.counting_value(key.encode()) == b"{}"
    assert view.handover([key.encode()]).values == {key.encode(): b"{}"}
    note(view, Written(key.encode(), None))
    assert view.counting_value(key.encode()) is None


def filled(view: TopicView, topic: str = "events") -> Filled:
    ledger = Filled(
        Connection(conn_id="k", conn_type="kafka", extra={}), KafkaSink(topic=topic, ledger_topic="ledger"), KEY
    )
    ledger.view = view
    return ledger


def test_notes_of_another_target_do_not_count_as_a_publish_there() -> None:
    """Else the stream would be refused a topic of its own after it was merely looked at for another one."""
    view = TopicView("ledger", KEY)
    for target in ("other", "other_{event}"):
        note(view, Written(note_key(target=target).encode(), b"no entry"))
    assert topics_of_other_targets(filled(view)) == {}
    assert list(filled(view).notes()) == []


def in_force(definition: str, run: str = "dag/run/task") -> bytes:
    return DefinitionRecord(definition=definition, run=run).model_dump_json().encode()


def test_the_definition_in_force_is_the_last_that_was_written() -> None:
    view, about = TopicView("ledger", KEY), filled(TopicView("ledger", KEY)).key_for(dt.date.min, "in_force").encode()
    ledger = filled(view)
    assert ledger.definition_in_force() is None
    note(view, Written(about, in_force("a" * 15)))
    note(view, Written(about, in_force("b" * 15, "dag/run 2/with/slashes/task[3]")))
    assert ledger.definition_in_force() == ("b" * 15, digest_of("dag/task[3]"))
    assert filled(view, "another").definition_in_force() is None
