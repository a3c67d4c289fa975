"""The package's reader gives each day of a topic as it is now: whole, or an error."""

from __future__ import annotations

import datetime as dt
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.clients.kafka.transaction import Transaction, transactional_id
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.readers.kafka import PublishedDay, json_day, newest_days, records
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.frozen import MONDAY, TUESDAY, events
from tests.equipment.kafka.scene import Scene, scene_of
from tests.standins.kafka_broker import KafkaBroker
from tests.standins.kafka_reader import ledger_entries

pytestmark = pytest.mark.slow


@pytest.fixture
def scene(broker: KafkaBroker, tmp_path: Path) -> Scene:
    return scene_of(broker.bootstrap, tmp_path)


def settings(scene: Scene) -> dict[str, str]:
    return {"bootstrap.servers": scene.bootstrap}


def found(scene: Scene) -> list[PublishedDay]:
    return newest_days(settings(scene), scene.sink.topic, ledger_topic=scene.sink.ledger_topic, timeout_seconds=10)


def numbered(prefix: str, count: int) -> pa.Table:
    return events(*(f"{prefix}{number}" for number in range(count)))


@pytest.mark.parametrize("mode", ["day", "template", "at_least_once"])
def test_each_day_is_read_as_it_is_now(scene: Scene, mode: str) -> None:
    options: dict[str, dict[str, Any]] = {
        "day": {},
        "template": {"topic": f"{scene.name}-{{event}}"},
        "at_least_once": {"delivery": "at_least_once"},
    }
    sink = scene.having(partitions=2, **options[mode])
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, events("a", "b"), events("c")))
    sink.publish(sink.stage(TUESDAY, events("d")))
    sink.publish(sink.stage(MONDAY, events("b", "x"), order=2))
    empty = sink.publish(sink.stage(TUESDAY, order=2))
    assert (empty.rows, empty.generation, sink.entry(TUESDAY)["offsets"]) == (0, 2, {})
    assert sink.newest_keys() == ["b", "x"]
    assert (sink.ledger.row(TUESDAY), list(sink.ledger.days())) == (empty, [MONDAY, TUESDAY])


@pytest.mark.parametrize("options", [{}, {"atomicity": "partition"}])
def test_without_headers_offsets_and_the_values_day_tell(scene: Scene, options: dict[str, Any]) -> None:
    sink = scene.having(partitions=2, headers=False, **options)
    assert sink.preflight() == []
    days = [MONDAY + ONE_DAY * number for number in range(2)]
    for order, size in ((1, 300), (2, 200)):
        staged = [
            sink.stage(day, numbered(f"{day:%d}-", size), numbered(f"{day:%d}+", size), order=order) for day in days
        ]
        with ThreadPoolExecutor(2) as pool:
            assert [row.generation for row in pool.map(sink.publish, staged)] == [order] * 2
    # A generation that does not count lies behind the first record that does.
    for order, day in ((3, TUESDAY), (3, MONDAY), (4, MONDAY)):
        sink.publish(sink.stage(day, numbered(f"{day:%d}-", 200), numbered(f"{day:%d}+", 200), order=order))
    wanted = [f"{day:%d}{sign}{number}" for day in days for sign in "-+" for number in range(200)]
    assert sink.newest_keys(day_of=json_day) == sorted(wanted)
    assert {record.headers == {} for record in sink.records()} == {True}
    with pytest.raises(DataError, match="2026-10-05 generation 4: found 0 of 400 published records"):
        sink.newest_keys()


def test_values_without_a_day_are_told_by_their_offsets(scene: Scene) -> None:
    sink = scene.having(partitions=2, headers=False, value_converter="string", value_field="event")
    assert sink.preflight() == []
    for day, order in ((MONDAY, 1), (TUESDAY, 1), (MONDAY, 2)):
        sink.publish(sink.stage(day, numbered(f"{day:%d}-{order}-", 50), order=order))
    wanted = [f"05-2-{number}" for number in range(50)] + [f"06-1-{number}" for number in range(50)]
    assert sink.newest_keys(day_of=lambda _: None) == sorted(wanted)


def test_the_reader_finds_in_the_ledger_what_the_sink_wrote_there(scene: Scene) -> None:
    sink = scene.having(partitions=2)
    assert sink.preflight() == []
    rows = [sink.publish(sink.stage(day, events("a", "b"), events("c"))) for day in (MONDAY, TUESDAY)]
    rows[0] = sink.publish(sink.stage(MONDAY, events("x"), order=2))
    other = sink.having(topic=f"{scene.name}-other")
    assert other.preflight() == []
    other.publish(other.stage(MONDAY, events("o")))
    days = found(sink)
    assert [(day.connector, day.stream) for day in days] == [("conformance", "events")] * 2
    assert [(day.day, day.generation, day.rows) for day in days] == [(r.day, r.generation, r.rows) for r in rows]
    assert all(day.exact for day in days)
    written = {key[3]: entry for key, entry in ledger_entries(sink.bootstrap, sink.sink.ledger_topic) if
               key[2] == sink.sink.topic}  # fmt: skip
    for day in days:
        offsets = written[str(day.day)]["offsets"]
        assert day.spans == {(t, int(p)): tuple(span) for t, ps in offsets.items() for p, span in ps.items()}
    [tuesday] = [day for day in days if day.day == TUESDAY]
    read = list(records(settings(sink), [tuesday], timeout_seconds=10))
    assert {day for day, _ in read} == {tuesday}
    assert sorted(message.key() or b"" for _, message in read) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("where", ["topic", "ledger"])
def test_an_open_transaction_of_others_is_waited_for(scene: Scene, kafka_connection: Connection, where: str) -> None:
    assert scene.preflight() == []
    scene.publish(scene.stage(TUESDAY, events("c")))  # the ledger is there
    topic = scene.sink.topic if where == "topic" else scene.sink.ledger_topic
    key = b"other" if where == "topic" else b'["c","s","t","2026-10-06","claim"]'
    with Transaction(kafka_connection, transactional_id(scene.name), 20, 60) as other:
        other.begin()
        other.send(topic, key, b"{}", [("connect.day", b"2026-10-06")])
        other.flush()
        scene.publish(scene.stage(MONDAY, events("a", "b")))
        ask = {"ledger_topic": scene.sink.ledger_topic, "timeout_seconds": 1.0}
        with pytest.raises(RetriableError, match=r"a transaction is open there|an open transaction"):
            list(records(settings(scene), newest_days(settings(scene), scene.sink.topic, **ask), timeout_seconds=1))
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(scene.newest_keys)
            with pytest.raises(TimeoutError):
                reading.result(timeout=1.0)
            other.commit()
            assert reading.result(timeout=30) == ["a", "b", "c"]


def test_records_that_are_gone_are_an_error_and_the_other_days_can_be_read(scene: Scene) -> None:
    assert scene.preflight() == []
    scene.publish(scene.stage(MONDAY, events("a", "b")))
    scene.publish(scene.stage(TUESDAY, events("c")))
    admin = AdminClient(settings(scene) | {"log_level": "0"})
    [first] = admin.delete_records([TopicPartition(scene.sink.topic, 0, 1)]).values()
    first.result(20)
    days = found(scene)
    with pytest.raises(DataError, match=re.escape(scene.sink.topic) + ".*lacks records.*retention"):
        list(records(settings(scene), days, timeout_seconds=10))
    [(tuesday, message)] = records(settings(scene), days[1:], timeout_seconds=10)
    assert (tuesday.day, message.key()) == (TUESDAY, b"c")


def test_a_topic_that_was_made_anew_is_an_error(scene: Scene) -> None:
    assert scene.preflight() == []
    scene.publish(scene.stage(MONDAY, events("a", "b", "c")))
    days = found(scene)
    admin = AdminClient(settings(scene) | {"log_level": "0"})
    admin.delete_topics([scene.sink.topic])[scene.sink.topic].result(20)
    again = scene.having(ledger_topic=f"{scene.name}-again")
    with pytest.raises((ConfigError, DataError, RetriableError), match=re.escape(scene.sink.topic)):
        list(records(settings(scene), days, timeout_seconds=2))
    assert again.preflight() == []
    again.publish(again.stage(MONDAY, events("a")))
    with pytest.raises(DataError, match=re.escape(scene.sink.topic) + ".*or the topic was recreated"):
        list(records(settings(scene), days, timeout_seconds=1))


def test_a_ledger_that_does_not_know_the_topic_is_an_error(scene: Scene, broker: KafkaBroker) -> None:
    with pytest.raises(ConfigError, match=rf"ledger topic '{scene.sink.ledger_topic}' is missing"):
        found(scene)
    assert scene.preflight() == []
    scene.publish(scene.stage(MONDAY, events("a")))
    with pytest.raises(ConfigError, match=rf"no day of topic 'x'.*The ledger has days of: {scene.sink.topic}"):
        newest_days(settings(scene), "x", ledger_topic=scene.sink.ledger_topic, timeout_seconds=10)
    from confluent_kafka import Producer

    producer = Producer({**settings(scene), "log_level": 0})
    producer.produce(scene.sink.ledger_topic, key=b"mine", value=b"secret")
    assert producer.flush(20) == 0
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        found(scene)
    assert "secret" not in str(caught.value)


def test_nobody_there_is_told_in_time() -> None:
    started = dt.datetime.now(dt.UTC)
    with pytest.raises(RetriableError, match="no broker answers"):
        newest_days({"bootstrap.servers": "127.0.0.1:9"}, "topic", timeout_seconds=1)
    assert (dt.datetime.now(dt.UTC) - started).total_seconds() < 20
