"""Definitions and notes in a Kafka ledger, whatever the delivery: who changed the stream last, and what stands open."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.errors import OvertakenError
from airflow_provider_connect.readers.kafka import newest_days
from airflow_provider_connect.sink import Publish
from airflow_provider_connect.sinks._kafka.delivery import DayDelivery
from airflow_provider_connect.sinks._kafka.ledger import view
from airflow_provider_connect.sinks._kafka.ledger.records import NO_DAY, DefinitionRecord, LedgerKey
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.stage.definition import StreamDefinition, digest_of
from airflow_provider_connect.stage.notes import Alarm, LedgerNote, alarm_note, definition_note
from airflow_provider_connect.testing.bench import DAYS, SCHEMA, Bench
from airflow_provider_connect.testing.bench import KEY as SUITES_KEY
from airflow_provider_connect.testing.bench import Target as BenchTarget
from airflow_provider_connect.testing.definitions import DefinitionCases
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.frozen import MONDAY, TUESDAY, events, intent
from tests.equipment.kafka.bench import make_topic
from tests.equipment.kafka.fixtures import Target
from tests.equipment.kafka.scene import Scene, scene_of
from tests.integration.kafka.test_confirm import DELIVERIES
from tests.standins.kafka_broker import KafkaBroker
from tests.standins.kafka_reader import Reader

pytestmark = pytest.mark.slow
A, B, C = "a" * 15, "b" * 15, "c" * 15


@pytest.fixture
def scene(broker: KafkaBroker, tmp_path: Path) -> Scene:
    return scene_of(broker.bootstrap, tmp_path, partitions=2)


@pytest.fixture(params=list(DELIVERIES))
def sink(scene: Scene, request: pytest.FixtureRequest) -> Scene:
    chosen = scene.having(**DELIVERIES[request.param])
    assert chosen.preflight() == []
    return chosen


def staged(sink: Scene, definition: str | None, order: int, *names: str, day: Any = MONDAY, **fields: Any) -> Publish:
    """Look into the ledger and freeze a day, as a driver does."""
    in_force = sink.ledger.definition_in_force()
    own = {"definition": definition, "definition_seen": in_force.digest if in_force else None, "answer": "a"}
    return replace(sink.stage(day, events(*names or ("a",)), order=order), **own | fields)


def in_force(order: int, definition: str) -> Any:
    return definition, intent(order).task_digest


def test_a_days_row_names_its_definition_and_the_newest_publish_says_which_is_in_force(sink: Scene) -> None:
    assert sink.ledger.definition_in_force() is None
    sink.publish(staged(sink, A, 1))
    sink.publish(staged(sink, B, 2, day=TUESDAY))
    assert [sink.ledger.row(day).definition for day in (MONDAY, TUESDAY)] == [A, B]
    assert [row.definition for row in sink.ledger.between(MONDAY, TUESDAY)] == [A, B]
    assert sink.ledger.definition_in_force() == in_force(2, B)
    sink.publish(staged(sink, A, 3, "new"))
    assert (sink.ledger.row(MONDAY).generation, sink.ledger.definition_in_force()) == (2, in_force(3, A))
    sink.publish(staged(sink, None, 4, day=TUESDAY))
    assert (sink.ledger.row(TUESDAY).definition, sink.ledger.definition_in_force()) == (None, in_force(3, A))


def test_a_confirmation_leaves_the_days_definition_and_the_one_in_force(sink: Scene) -> None:
    """It writes the day's record behind that of a day that was published later, under another definition."""
    sink.publish(staged(sink, A, 1))
    sink.publish(staged(sink, B, 2, day=TUESDAY))
    assert sink.publisher.confirm(staged(sink, A, 3)).checks == 1
    assert sink.ledger.row(MONDAY).definition == A
    assert sink.ledger.definition_in_force() == in_force(2, B)


def test_definition_and_notes_survive_compaction(sink: Scene) -> None:
    sink.publish(staged(sink, A, 1))
    sink.publish(staged(sink, B, 2, day=TUESDAY))
    sink.publisher.confirm(staged(sink, A, 3))
    sink.publisher.note(an_alarm())
    compacted = sink.having(ledger_topic=f"{sink.name}-compacted")
    make_topic(sink.bootstrap, compacted.sink.ledger_topic, cleanup__policy="compact")
    sink.settle(sink.sink.ledger_topic)
    with Reader(sink.bootstrap, sink.sink.ledger_topic) as reader:
        newest = {record.key: record.value for record in reader.read()}
    producer = Producer({"bootstrap.servers": sink.bootstrap})
    for key, value in newest.items():
        producer.produce(compacted.sink.ledger_topic, value, key)
    assert producer.flush(10) == 0
    assert compacted.ledger.definition_in_force() == in_force(2, B)
    assert [note.kind for note in compacted.ledger.notes()] == ["alarm"]
    assert [row.definition for row in compacted.ledger.between(MONDAY, TUESDAY)] == [A, B]


def test_a_publish_is_refused_once_another_definition_came_into_force(sink: Scene) -> None:
    """It is another day's publish that brought it, so that generations do not tell."""
    sink.publish(staged(sink, A, 1, day=MONDAY - ONE_DAY))
    late = staged(sink, A, 2)
    token = sink.begin(late)
    sink.publish(staged(sink, B, 3, day=TUESDAY))
    with pytest.raises(OvertakenError, match=rf"days with another definition \({B}\) were published") as caught:
        sink.commit(token, late, sink.put(token, late))
    assert (caught.value.by, caught.value.may_poll_again) == (f"definition {B}", True)
    sink.publisher.abort(late, token)
    assert (sink.ledger.row(MONDAY), sink.ledger.definition_in_force()) == (None, in_force(3, B))
    row = sink.publish(replace(late, definition_seen=B))
    assert (row.definition, sink.ledger.definition_in_force()) == (A, in_force(2, A))


def test_a_begin_and_a_confirmation_are_refused_as_well(sink: Scene) -> None:
    sink.publish(staged(sink, A, 1))
    late, same = staged(sink, A, 2, "new"), staged(sink, A, 3)
    sink.publish(staged(sink, B, 4, day=TUESDAY))
    for take in (lambda: sink.begin(late), lambda: sink.publisher.confirm(same)):
        with pytest.raises(OvertakenError, match="days with another definition"):
            take()
    assert (sink.ledger.row(MONDAY).generation, sink.ledger.row(MONDAY).checks) == (1, 0)


def test_of_two_that_change_the_definition_at_once_the_first_in_the_ledger_counts(
    sink: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are of different days, and both have looked before either wrote."""
    sink.publish(staged(sink, C, 1, day=MONDAY - ONE_DAY))
    late = staged(sink, A, 2)
    token, made = sink.begin(late), DayDelivery.new_entry
    is_whole = sink.sink.delivery == "exactly_once" and sink.sink.atomicity == "day"
    receipts = [] if is_whole else sink.put(token, late)

    def beaten(attempt: DayDelivery, *args: Any, **more: Any) -> Any:
        rival = DefinitionRecord(definition=B, run="another_dag/run/task").model_dump_json().encode()
        write(sink, sink.ledger.key_for(NO_DAY, "in_force"), rival)
        return made(attempt, *args, **more)

    monkeypatch.setattr(DayDelivery, "new_entry", beaten)
    with pytest.raises(OvertakenError, match=rf"days with another definition \({B}\)"):
        sink.commit(token, late, receipts or sink.put(token, late))
    assert sink.ledger.row(MONDAY) is None
    assert sink.ledger.definition_in_force() == (B, digest_of("another_dag/task"))


def test_who_publishes_the_definition_that_came_into_force_goes_on(sink: Scene) -> None:
    first, late = staged(sink, A, 1), staged(sink, A, 2, day=TUESDAY)
    sink.publish(first)
    assert sink.publish(late).definition == A


def test_an_executor_knows_the_definition_that_was_in_force_before_it_reads_on(scene: Scene) -> None:
    assert scene.preflight() == []
    scene.publish(staged(scene, B, 1, day=TUESDAY))
    late = replace(staged(scene, A, 2), definition_seen=B)
    token = scene.begin(late)
    stale = replace(token, publish=replace(late, definition_seen=None))
    view._views.clear()  # an executor is another process
    with pytest.raises(OvertakenError, match="days with another definition"):
        scene.put(stale, late)


def test_a_days_record_of_the_version_before_has_no_definition_and_is_reloaded(sink: Scene) -> None:
    sink.publish(staged(sink, None, 1))
    entry = sink.entry()
    del entry["row"]["definition"]
    write(sink, sink.ledger.key_for(MONDAY), json.dumps(entry).encode())
    assert (sink.ledger.row(MONDAY).definition, sink.ledger.definition_in_force()) == (None, None)
    assert sink.publisher.confirm(staged(sink, A, 2)).definition is None
    assert sink.ledger.definition_in_force() is None
    sink.publish(staged(sink, A, 3, day=TUESDAY))
    row = sink.publish(staged(sink, A, 4, "late"))
    assert (row.generation, row.definition, sink.ledger.definition_in_force()) == (2, A, in_force(3, A))


def write(sink: Scene, key: LedgerKey, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": sink.bootstrap})
    producer.produce(sink.sink.ledger_topic, value, key.encode())
    assert producer.flush(10) == 0


# Notes


def an_alarm(number: int = 1) -> LedgerNote:
    return alarm_note(Alarm(number=number, position=f"at {number}", reason="the table was truncated"), "dag/run/task")


def test_a_note_is_kept_once_and_before_anything_else_is_there(scene: Scene) -> None:
    definition = definition_note(StreamDefinition(reading={"kind": "day"}), "dag/run/task")
    assert scene.ledger.notes() == []
    for note in (an_alarm(), definition, an_alarm().model_copy(update={"run": "another/run/task"}), an_alarm(2)):
        scene.publisher.note(note)
        assert note.id in [known.id for known in scene.ledger.notes()]
    view._views.clear()
    notes = {(note.kind, note.id): note.run for note in scene.ledger.notes()}
    assert list(notes.values()) == ["dag/run/task"] * 3
    assert scene.having(topic=f"{scene.name}-other").ledger.notes() == []
    assert scene.preflight() == []  # the ledger does not count as lost, nor as another target's
    assert scene.having(topic=f"{scene.name}-other").preflight() == []
    scene.publish(staged(scene, definition.id, 1))
    days = newest_days({"bootstrap.servers": scene.bootstrap}, scene.sink.topic, ledger_topic=scene.sink.ledger_topic)
    assert [day.generation for day in days] == [1]


def test_a_note_is_seen_behind_the_open_transaction_of_others(scene: Scene) -> None:
    """Readers of committed records stop there; an alarm that is seen only later would let the stream go on."""
    assert scene.preflight() == []
    producer = Producer({"bootstrap.servers": scene.bootstrap, "transactional.id": f"holds-{scene.name}"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(scene.sink.ledger_topic, b"{}", LedgerKey("other", "stream", "topic", MONDAY).encode())
    assert producer.flush(10) == 0
    try:
        started = time.monotonic()
        scene.publisher.note(an_alarm())
        assert [note.kind for note in scene.ledger.notes()] == ["alarm"]
        assert time.monotonic() - started < 5
    finally:
        producer.abort_transaction(10)
    assert [note.kind for note in scene.ledger.notes()] == ["alarm"]


def test_a_definition_that_a_dead_publish_left_open_is_not_waited_for(scene: Scene) -> None:
    """The retry of that publish ends it, and asks this first."""
    assert scene.preflight() == []
    scene.publish(staged(scene, A, 1))
    producer = Producer({"bootstrap.servers": scene.bootstrap, "transactional.id": f"dead-{scene.name}"})
    producer.init_transactions(20)
    producer.begin_transaction()
    about = scene.ledger.key_for(NO_DAY, "in_force")
    record = DefinitionRecord(definition=B, run="dag/run/task").model_dump_json().encode()
    producer.produce(scene.sink.ledger_topic, b"{}", LedgerKey(*about[:3], TUESDAY).encode())
    producer.produce(scene.sink.ledger_topic, record, about.encode())
    assert producer.flush(10) == 0
    try:
        started = time.monotonic()
        assert scene.ledger.definition_in_force() == in_force(1, A)
        assert time.monotonic() - started < 5
    finally:
        producer.abort_transaction(10)


class TestParts(DefinitionCases):
    """The suite runs them over a day in one transaction; here over one for each staged file."""

    @pytest.fixture
    def target(self, kafka_target: Target) -> BenchTarget:
        chosen = {name: getattr(kafka_target.sink, name) for name in kafka_target.sink.model_fields_set}
        own = KafkaSink(**chosen | DELIVERIES["parts"])
        return BenchTarget(own, replace(kafka_target, sink=own).rows, kafka_target.connections)

    @pytest.fixture
    def bench(self, target: BenchTarget, tmp_path: Path) -> Iterator[Bench]:
        with target.sink.open(SUITES_KEY, target.connections) as publisher:
            assert publisher.preflight(SCHEMA, DAYS, "day") == []
            yield Bench(target, publisher, tmp_path)
