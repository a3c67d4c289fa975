"""People are taken out of a compacted topic, and stay out: whoever polled before it polls again."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from airflow_provider_connect.clients.kafka.transaction import Transaction, UndecidedError
from airflow_provider_connect.errors import ConfigError, OvertakenError
from airflow_provider_connect.publishing import seen_publish
from airflow_provider_connect.sink import Publish, StreamKey
from airflow_provider_connect.sinks._kafka.ledger.records import NO_DAY, LedgerKey
from airflow_provider_connect.stage.erase_list import EraseList, Eraser
from airflow_provider_connect.stage.manifest import SeenPublish
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.frozen import KEY, MONDAY, SCHEMA, events
from tests.equipment.kafka.scene import Scene, scene_of

pytestmark = pytest.mark.slow

TUESDAY = MONDAY + ONE_DAY


@pytest.fixture
def scene(broker: Any, tmp_path: Path) -> Scene:
    made = scene_of(broker.bootstrap, tmp_path, cleanup="compact", partitions=3)
    assert made.preflight() == []
    return made


def staged(scene: Scene, day: dt.date, *names: str, order: int) -> Publish:
    """Stage what a poll brings that leaves out whom the list names."""
    listed = scene.ledger.erased()
    kept = [Eraser(listed, SCHEMA).remove_rows(batch) for batch in events(*names).to_batches()]
    seen = seen_publish(scene.ledger.newest(day, "day"), listed.version)
    return scene.stage(day, pa.Table.from_batches(kept, schema=SCHEMA), order=order, seen=seen)


def live(scene: Scene) -> list[str]:
    """Return the keys that a reader has at the end of the topic."""
    newest = {record.key: record.value for record in sorted(scene.records(), key=lambda each: each.offset)}
    return sorted(key.decode() for key, value in newest.items() if key is not None and value is not None)


def test_people_are_counted_erased_and_kept_out(scene: Scene) -> None:
    scene.publish(staged(scene, MONDAY, "ann", "bob", "cat", order=1))
    scene.publish(staged(scene, TUESDAY, "ann", "dan", order=2))
    assert scene.publisher.find("event", ["ann", "bob", "eve"]) == {MONDAY: 1, TUESDAY: 1}
    assert (live(scene), scene.ledger.erased().version) == (["ann", "bob", "cat", "dan"], 0)

    done = scene.publisher.erase("event", ["ann", "bob", "eve"], "day")
    assert (dict(done.rows), done.version) == ({MONDAY: 1, TUESDAY: 1}, 1)
    assert live(scene) == ["cat", "dan"]
    assert scene.publisher.find("event", ["ann", "bob", "eve"]) == {}
    tombs = [record for record in scene.records() if record.value is None]
    assert sorted((record.key, record.headers["connect.run"]) for record in tombs) == [
        (b"ann", "erase/1"),
        (b"bob", "erase/1"),
    ]

    again = scene.publisher.erase("event", ["ann"], "day")
    assert (dict(again.rows), again.version) == ({}, 1)
    assert len([record for record in scene.records() if record.value is None]) == 2, "said again, it writes nothing"

    row = scene.publish(staged(scene, MONDAY, "ann", "bob", "cat", "fay", order=3))
    assert (row.generation, row.rows) == (2, 2)
    assert live(scene) == ["cat", "dan", "fay"]


def test_a_day_that_was_staged_before_an_erase_is_refused(scene: Scene) -> None:
    stale = staged(scene, MONDAY, "ann", "bob", order=1)
    scene.publisher.erase("event", ["ann"], "day")
    with pytest.raises(OvertakenError, match="rows were erased since") as caught:
        scene.publish(stale)
    assert caught.value.is_erase
    scene.publish(staged(scene, MONDAY, "ann", "bob", order=1))
    assert live(scene) == ["bob"]


def test_an_erase_while_a_publish_waits_for_its_turn(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its driver has begun, and its executor has decided: only the look behind its turn can tell."""
    from airflow_provider_connect.sinks._kafka.turn import Turn

    token = scene.begin(stale := staged(scene, MONDAY, "ann", "bob", order=1))
    taken = Turn.wait_for_turn

    def take(turn: Turn) -> None:
        if "erase" not in turn.description:
            scene.publisher.erase("event", ["ann"], "day")
        taken(turn)

    monkeypatch.setattr(Turn, "wait_for_turn", take)
    with pytest.raises(OvertakenError, match="rows were erased since"):
        scene.put(token, stale)
    assert scene.records() == []


def test_an_erase_whose_commit_was_not_answered_is_done_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.publish(staged(scene, MONDAY, "ann", "bob", order=1))
    committed = Transaction.commit
    lost: list[Transaction] = []

    def commit(transaction: Transaction) -> None:
        committed(transaction)
        if not lost:
            lost.append(transaction)
            raise UndecidedError("no answer")

    monkeypatch.setattr(Transaction, "commit", commit)
    done = scene.publisher.erase("event", ["ann"], "day")
    assert (dict(done.rows), done.version) == ({MONDAY: 1}, 1)
    assert len([record for record in scene.records() if record.value is None]) == 1


def test_two_erases_at_once_are_both_done(scene: Scene) -> None:
    scene.publish(staged(scene, MONDAY, "ann", "bob", "cat", order=1))
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda name: scene.publisher.erase("event", [name], "day"), ["ann", "bob"]))
    assert sorted(each.version or 0 for each in done) == [1, 2]
    assert live(scene) == ["cat"]
    assert len(scene.ledger.erased().digests) == 2


def test_an_erase_whose_id_another_took_in_mid_transaction_is_done(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.publish(staged(scene, MONDAY, "ann", "bob", order=1))
    flushed = Transaction.flush
    others: list[Transaction] = []

    def flush(transaction: Transaction) -> None:
        if not others:
            others.append(Transaction(scene.publisher._cluster.connection, transaction.id, 30.0, 60.0))
            others[0].fence()
        flushed(transaction)

    monkeypatch.setattr(Transaction, "flush", flush)
    done = scene.publisher.erase("event", ["ann"], "day")
    assert (dict(done.rows), done.version) == ({MONDAY: 1}, 1)
    assert live(scene) == ["bob"]
    assert len(others) == 1


@pytest.mark.parametrize(
    ("options", "column", "told"),
    [
        ({}, "n", r"keys are not the texts of 'n' alone"),
        ({"turns": "off"}, "event", "without turns"),
        ({"headers": False}, "event", "without headers"),
        ({"atomicity": "partition"}, "event", "without turns"),
        ({"key_fields": ("event", "n")}, "event", "are not the texts of 'event' alone"),
    ],
)
def test_what_cannot_be_erased_is_refused(scene: Scene, options: dict[str, Any], column: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        scene.having(**options).publisher.erase(column, ["ann"], "day")
    assert scene.ledger.erased().version == 0


def test_a_topic_that_keeps_every_record_is_refused(broker: Any, tmp_path: Path) -> None:
    scene = scene_of(broker.bootstrap, tmp_path)
    assert scene.preflight() == []
    with pytest.raises(ConfigError, match="it is not compacted"):
        scene.publisher.find("event", ["ann"])


RENAMED = StreamKey(connector=KEY.connector, stream="renamed.export")
"""The same stream once its connection has another name."""


def as_stream(scene: Scene, key: StreamKey) -> Any:
    return scene.sink.open(key, scene.connections)


def publish_as(scene: Scene, key: StreamKey, staged: Publish) -> None:
    staged = replace(staged, key=key)
    with as_stream(scene, key) as publisher:
        token = publisher.begin(staged)
        receipts = [
            publisher.put(token, staged.stage, share) for share in publisher.shares(staged.manifest.polled.files)
        ]
        publisher.commit(staged, token, receipts)


def test_a_stream_under_another_name_keeps_to_the_topics_list(scene: Scene) -> None:
    """The list was by stream: a renamed conn_id brought everybody back."""
    scene.publish(staged(scene, MONDAY, "ann", "bob", order=1))
    before = scene.stage(TUESDAY, events("ann", "cat"), order=2, seen=SeenPublish())
    scene.publisher.erase("event", ["ann"], "day")
    with as_stream(scene, RENAMED) as other:
        assert other.preflight(SCHEMA, [Day(date=TUESDAY)], "day") == []
        assert other.ledger.erased().matches(["ann", "bob"]) == [True, False]
    with pytest.raises(OvertakenError, match="rows were erased since"):
        publish_as(scene, RENAMED, before)
    assert live(scene) == ["bob"]


def test_what_another_stream_wrote_under_their_keys_is_erased_too(scene: Scene) -> None:
    scene.publish(staged(scene, MONDAY, "ann", "bob", order=1))
    with as_stream(scene, RENAMED) as other:
        assert other.preflight(SCHEMA, [Day(date=MONDAY)], "day") == []
        assert other.find("event", ["ann"]) == {MONDAY: 1}
        assert other.erase("event", ["ann"], "day").rows == {MONDAY: 1}
    assert live(scene) == ["bob"]
    assert scene.ledger.erased().version == 1


def test_lists_of_earlier_versions_are_the_topics_although_each_names_a_stream(scene: Scene) -> None:
    scene.publish(staged(scene, MONDAY, "ann", "bob", "cat", order=1))
    for key, names in ((KEY, ["ann"]), (RENAMED, ["bob", "x"])):
        listed = EraseList()
        for name in names:
            listed = listed.with_values("event", [name])
        about = LedgerKey(key.connector, key.stream, scene.sink.topic, NO_DAY, "erased")
        text = listed.model_dump_json(exclude={"shaping", "others"})
        produce(scene.bootstrap, scene.sink.ledger_topic, about.encode(), text.encode())
    for key in (KEY, RENAMED):
        with as_stream(scene, key) as publisher:
            assert publisher.ledger.erased().matches(["ann", "bob", "x", "cat"]) == [True, True, True, False]
            assert publisher.ledger.erased().version == 3
    with pytest.raises(OvertakenError, match="rows were erased since"):
        scene.publish(scene.stage(TUESDAY, events("bob"), order=2, seen=SeenPublish()))
    assert scene.publisher.erase("event", ["cat"], "day").version == 4
    for key in (KEY, RENAMED):
        with as_stream(scene, key) as publisher:
            listed = publisher.ledger.erased()
            assert (listed.version, listed.matches(["ann", "bob", "x", "cat"])) == (4, [True] * 4)


def produce(bootstrap: str, topic: str, key: bytes, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value, key)
    assert producer.flush(20) == 0


@pytest.mark.parametrize("options", [{"turns": "off"}, {"atomicity": "partition"}, {"delivery": "at_least_once"}])
def test_a_stream_that_takes_no_turns_is_refused_where_somebody_is_erased(
    scene: Scene, options: dict[str, Any]
) -> None:
    scene.publisher.erase("event", ["ann"], "day")
    [problem] = scene.having(**options).preflight()
    assert "has an erase list, and without turns" in problem


def test_keys_that_are_numbers_are_named_by_their_text(broker: Any, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("event", pa.string()), pa.field("n", pa.int64())])
    scene = scene_of(broker.bootstrap, tmp_path, cleanup="compact", key_fields=("n",)).having(schema)
    assert scene.preflight() == []
    table = pa.table([pa.array(["a", "b", "c"]), pa.array([1, 7, 17])], schema=schema)
    scene.publish(scene.stage(MONDAY, table, order=1))
    assert scene.publisher.erase("n", ["17"], "day").rows == {MONDAY: 1}
    assert live(scene) == ["1", "7"]


def test_the_places_that_still_hold_them_are_named(scene: Scene) -> None:
    covered, rejects = scene.publisher.copies()
    assert scene.sink.topic in covered
    assert scene.sink.effective_dead_letter_topic in rejects
