"""Snapshots into a compacted topic: only what changed is sent, and a tombstone for what vanished."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from airflow_provider_connect import registry as connectors
from airflow_provider_connect import sources
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.job import DayReport, JobConfig
from airflow_provider_connect.readers.kafka import newest_days
from airflow_provider_connect.sink import Intent, OnEmpty, StreamKey
from airflow_provider_connect.stage.manifest import SeenPublish
from airflow_provider_connect.window import Day
from tests.equipment.kafka.bench import Watch, set_topic
from tests.equipment.kafka.fixtures import Target, records
from tests.equipment.kafka.registry import SchemaRegistry
from tests.equipment.kafka.scene import scene_of
from tests.equipment.spark.here import drive

pytestmark = pytest.mark.slow

KEY = StreamKey(connector="shelf", stream="items")
FIRST, SECOND, THIRD = (dt.date(2026, 10, day) for day in (5, 6, 7))


@pytest.fixture(autouse=True)
def shelf_source(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(Path(__file__).parents[2] / "equipment" / "kafka" / "connectors" / "sources")
    monkeypatch.setattr(sources, "__path__", [*sources.__path__, folder])


@dataclass
class Shop:
    """The source, and the topic that follows it."""

    options: dict[str, Any]
    connections: dict[str, Connection]
    bootstrap: str
    root: Path

    def snapshot(
        self,
        day: dt.date,
        items: dict[str, int],
        order: int,
        parts: int = 1,
        on_empty: OnEmpty = "fail",
        **options: Any,
    ) -> DayReport:
        job = JobConfig(
            source_name="shelf",
            source={"items": items, "parts": parts},
            sink_name="kafka",
            sink=self.options | options,
            days=(Day(date=day),),
            intent=Intent(token=f"{order:032x}", run=f"dag/run-{order}/task"),
            attempt=f"{order:016x}-1",
            report=str(self.root / "run" / "report.json"),
            staging=str(self.root / "stage"),
            on_empty=on_empty,
            progress_seconds=1,
        )
        whole = drive(job, self.connections | {"shelf": Connection(conn_id="shelf")})
        assert whole.days, whole.failure
        [report] = whole.days
        return report

    def sent(self) -> list[tuple[str, int | None]]:
        """Return all records that were ever sent, a tombstone as None, in the order of their partitions."""
        found = records(self.bootstrap, self.options["topic"])
        return [((r.key or b"").decode(), None if r.value is None else json.loads(r.value)["count"]) for r in found]

    def counts(self, day: dt.date) -> tuple[int, int]:
        """Return what the ledger counted as unchanged and vanished."""
        row = connectors.sink_class("kafka").from_options(self.options).open(KEY, self.connections).ledger.row(day)
        assert row is not None
        return row.counts["unchanged"], row.counts["vanished"]

    def state(self) -> dict[str, int]:
        """Return what a reader of the topic knows at its end."""
        newest = dict(self.sent())
        return {item: count for item, count in newest.items() if count is not None}


@pytest.fixture
def shop(kafka_target: Target, tmp_path: Path) -> Shop:
    sink = kafka_target.sink
    options = {
        "topic": sink.topic,
        "ledger_topic": sink.ledger_topic,
        "key_fields": ["item"],
        "cleanup": "compact",
        "partitions": 3,
        "timeout_seconds": 20,
    }
    return Shop(options, kafka_target.connections, kafka_target.bootstrap, tmp_path)


def test_only_what_changed_is_sent_and_what_vanished_gets_a_tombstone(shop: Shop) -> None:
    first = {"apple": 1, "pear": 2, "plum": 3}
    report = shop.snapshot(FIRST, first, order=1, parts=2)
    assert (report.status, report.rows_written, report.failure) == ("published", 3, None)
    assert shop.state() == first
    before = sorted(shop.sent())

    second = {"apple": 1, "pear": 20, "fig": 4}
    report = shop.snapshot(SECOND, second, order=2)
    assert (report.status, report.rows_written) == ("published", 3)
    assert shop.counts(SECOND) == (1, 1)
    assert shop.state() == second
    new = sorted(set(shop.sent()) - set(before), key=str)
    assert new == [("fig", 4), ("pear", 20), ("plum", None)]

    report = shop.snapshot(THIRD, second, order=3)
    assert (report.status, shop.counts(THIRD)) == ("published", (3, 0))
    assert len(shop.sent()) == len(before) + 3


@pytest.mark.parametrize("converter", ["json", "avro", "json_schema", "protobuf"])
def test_a_soft_delete_sends_the_last_value_before_the_tombstone(
    shop: Shop, registry: SchemaRegistry, converter: str
) -> None:
    """Byte for byte as it was sent before, whatever its format: nobody has to read it."""
    shop.options |= {"deletes": "soft", "value_converter": converter}
    if converter != "json":
        shop.connections["registry"] = Connection(conn_id="registry", conn_type="http", host=registry.url)
        shop.options |= {"registry_conn_id": "registry"}
    shop.snapshot(FIRST, {"apple": 1, "pear": 2}, order=1)
    shop.snapshot(SECOND, {"apple": 1, "pear": 3}, order=2)
    last = {record.key: record for record in records(shop.bootstrap, shop.options["topic"])}[b"pear"]
    report = shop.snapshot(THIRD, {"apple": 1}, order=3)
    assert (report.failure, report.rows_written, shop.counts(THIRD)) == (None, 1, (1, 1))
    assert report.counts["soft_deleted"] == 1

    *_, soft, tombstone = [r for r in records(shop.bootstrap, shop.options["topic"]) if r.key == b"pear"]
    assert (soft.value, soft.partition, tombstone.value) == (last.value, last.partition, None)
    headers = dict(soft.headers)
    assert (headers["__deleted"], headers["connect.day"]) == ("true", str(THIRD))
    assert headers["connect.event_id"] == dict(last.headers)["connect.event_id"]
    assert dt.datetime.fromisoformat(headers["__deleted_at"]).tzinfo is not None
    assert "__deleted" not in dict(tombstone.headers)

    sent = len(records(shop.bootstrap, shop.options["topic"]))
    shop.snapshot(THIRD, {"apple": 1}, order=4)
    assert len(records(shop.bootstrap, shop.options["topic"])) == sent, "it vanishes once"
    shop.snapshot(THIRD, {"apple": 1, "pear": 3}, order=5)
    found = records(shop.bootstrap, shop.options["topic"])
    back = {record.key: record for record in found}[b"pear"]
    assert (len(found), back.value, "__deleted" in dict(back.headers)) == (sent + 1, last.value, False)


def test_soft_deletes_need_snapshots(shop: Shop) -> None:
    sink = connectors.sink_class("kafka")
    with pytest.raises(ConfigError, match="deletes belongs to cleanup='compact'"):
        sink.from_options(shop.options | {"deletes": "soft", "cleanup": "delete"})
    publisher = sink.from_options(shop.options | {"deletes": "soft"}).open(KEY, shop.connections)
    schema = pa.schema([pa.field("item", pa.string()), pa.field("count", pa.int64())])
    (problem,) = publisher.preflight(schema, (Day(date=FIRST),), "day")
    assert "This one polls days" in problem


def test_who_is_erased_stays_out_of_later_snapshots_and_does_not_vanish_twice(shop: Shop) -> None:
    shop.snapshot(FIRST, {"apple": 1, "pear": 2}, order=1)
    with connectors.sink_class("kafka").from_options(shop.options).open(KEY, shop.connections) as publisher:
        assert dict(publisher.erase("item", ["apple"], "snapshot").rows) == {FIRST: 1}
    assert shop.state() == {"pear": 2}
    sent = len(shop.sent())
    report = shop.snapshot(SECOND, {"apple": 1, "pear": 2}, order=2)
    assert (report.status, report.failure, report.rows_written) == ("published", None, 1)
    assert (report.counts["erased"], shop.counts(SECOND)) == (1, (1, 0))
    assert len(shop.sent()) == sent


@pytest.mark.parametrize("name", ["json", "avro", "json_schema", "protobuf"])
def test_a_row_has_the_same_key_in_every_snapshot_whatever_is_registered_meanwhile(
    shop: Shop, registry: SchemaRegistry, name: str
) -> None:
    shop.connections["registry"] = Connection(conn_id="registry", conn_type="http", host=registry.url)
    shop.options |= {"key_converter": name} | ({} if name == "json" else {"registry_conn_id": "registry"})
    shop.snapshot(FIRST, {"apple": 1, "pear": 2, "plum": 3}, order=1)
    if name != "json":
        with SchemaRegistryClient({"url": registry.url, "timeout": 10}) as client:
            newer = client.get_latest_version(f"{shop.options['topic']}-key").schema
            text = (newer.schema_str or "").replace("Key", "AnotherKey")
            client.register_schema(f"{shop.options['topic']}-key", Schema(text, newer.schema_type or "AVRO"))
        shop.options["schema_registration"] = "use_latest"
    report = shop.snapshot(SECOND, {"apple": 1, "pear": 20}, order=2)
    assert (report.status, report.failure, shop.counts(SECOND)) == ("published", None, (1, 1))
    keys = {key for record in records(shop.bootstrap, shop.options["topic"]) if (key := record.key)}
    assert len(keys) == 3
    assert {item.encode() for item in ("apple", "pear", "plum")} == {
        word for key in keys for word in (b"apple", b"pear", b"plum") if word in key
    }


def test_a_tombstone_lies_in_the_partition_of_what_it_buries_and_what_comes_back_is_sent(shop: Shop) -> None:
    shop.snapshot(FIRST, {f"item-{n}": n for n in range(50)}, order=1)
    shop.snapshot(SECOND, {}, order=2, on_empty="accept")
    places: dict[bytes, set[int]] = {}
    for record in records(shop.bootstrap, shop.options["topic"]):
        places.setdefault(record.key or b"", set()).add(record.partition)
    assert len(places) == 50
    assert all(len(partitions) == 1 for partitions in places.values())
    assert shop.state() == {}
    shop.snapshot(THIRD, {"item-7": 7}, order=3)
    assert shop.state() == {"item-7": 7}


def test_the_reader_of_days_refuses_a_topic_of_changes(shop: Shop) -> None:
    shop.snapshot(FIRST, {"apple": 1, "pear": 1}, order=1)
    shop.snapshot(SECOND, {"apple": 1, "pear": 2}, order=2)
    settings = {"bootstrap.servers": shop.bootstrap}
    with pytest.raises(ConfigError, match="only receives changes of snapshots: read it to its end"):
        newest_days(settings, shop.options["topic"], ledger_topic=shop.options["ledger_topic"], timeout_seconds=20)


def test_values_carry_no_day_and_headers_do(shop: Shop) -> None:
    shop.snapshot(FIRST, {"apple": 1}, order=1)
    [record] = records(shop.bootstrap, shop.options["topic"])
    assert json.loads(record.value or b"") == {"item": "apple", "count": 1}
    assert record.day == str(FIRST)


def test_an_older_snapshot_does_not_undo_a_newer_one_of_another_day(shop: Shop) -> None:
    shop.snapshot(SECOND, {"apple": 2}, order=7)
    report = shop.snapshot(FIRST, {"apple": 1, "pear": 1}, order=6)
    assert report.status == "superseded"
    assert report.failure is not None
    assert f"a snapshot of {SECOND} is published already" in report.failure.message
    assert shop.state() == {"apple": 2}


def test_an_earlier_day_that_is_cleared_does_not_roll_the_topic_back(shop: Shop) -> None:
    shop.snapshot(SECOND, {"apple": 2, "pear": 2}, order=2)
    report = shop.snapshot(FIRST, {"apple": 1}, order=3)
    assert report.status == "superseded"
    assert report.failure is not None
    assert f"a snapshot of {SECOND} is published already" in report.failure.message
    assert shop.state() == {"apple": 2, "pear": 2}
    assert shop.snapshot(SECOND, {"apple": 2}, order=4).status == "published"
    assert shop.state() == {"apple": 2}


def test_a_row_that_is_set_aside_does_not_bury_its_key(shop: Shop) -> None:
    long = "long" * 200
    shop.options["errors_tolerance"] = "all"
    assert shop.snapshot(FIRST, {"apple": 1, long: 1, "plum": 1}, order=1).status == "published"
    set_topic(shop.bootstrap, shop.options["topic"], max__message__bytes="1300")
    report = shop.snapshot(SECOND, {"apple": 2, long: 2}, order=2)
    assert (report.status, shop.counts(SECOND)) == ("published", (0, 1))
    assert shop.state() == {"apple": 2, long: 1}


@pytest.mark.parametrize(
    ("keys", "rejects", "message"),
    [
        (["a"], [b"{"], "the source has rejected 1 rows of the snapshot"),
        (["a", None], [], "1 rows of the snapshot have no key"),
    ],
)
def test_rows_whose_key_nobody_knows_leave_unknown_what_vanished(
    kafka_target: Target, tmp_path: Path, keys: list[str | None], rejects: list[bytes], message: str
) -> None:
    scene = scene_of(kafka_target.bootstrap, tmp_path, cleanup="compact", errors_tolerance="all")
    scene = scene.having(pa.schema([("event", pa.string())]))
    assert scene.preflight() == []
    as_snapshot: dict[str, Any] = {"kind": "snapshot"}
    both = pa.table({"event": ["a", "b"]}, schema=scene.schema)
    scene.publish(scene.stage(FIRST, both, **as_snapshot))
    holed = scene.stage(
        SECOND,
        pa.table({"event": keys}, schema=scene.schema),
        order=2,
        rejects=rejects,
        seen=SeenPublish(day=FIRST, generation=1),
        **as_snapshot,
    )
    with pytest.raises(DataError, match=message):
        scene.publish(holed)
    assert sorted(record.key or b"" for record in scene.records()) == [b"a", b"b"]


def test_an_empty_snapshot_buries_nothing_unless_it_is_asked_to(shop: Shop) -> None:
    assert shop.snapshot(FIRST, {}, order=1).status == "published"
    shop.snapshot(FIRST, {"apple": 1, "pear": 1}, order=2)
    before = shop.sent()
    report = shop.snapshot(SECOND, {}, order=3)
    assert report.failure is not None
    assert report.failure.type == "DataError"
    assert "on_empty='accept'" in report.failure.message
    assert shop.sent() == before
    assert shop.snapshot(SECOND, {}, order=4, on_empty="accept").status == "published"
    assert shop.state() == {}
    assert shop.snapshot(THIRD, {}, order=5).status == "published"


def test_the_same_intent_again_sends_nothing(shop: Shop) -> None:
    shop.snapshot(FIRST, {"apple": 1}, order=1)
    report = shop.snapshot(FIRST, {"apple": 5}, order=1)
    assert report.status == "already_published"
    assert shop.sent() == [("apple", 1)]


def test_a_topic_with_records_of_others_is_left_alone(shop: Shop, kafka_target: Target) -> None:
    shop.snapshot(FIRST, {"apple": 1}, order=1)
    from confluent_kafka import Producer

    other = Producer({"bootstrap.servers": shop.bootstrap})
    other.produce(shop.options["topic"], b"value", b"theirs")
    assert other.flush(20) == 0
    report = shop.snapshot(SECOND, {"apple": 2}, order=2)
    assert report.failure is not None
    assert report.failure.type == "ConfigError"
    assert "did not write" in report.failure.message
    assert "theirs" not in report.failure.message


def test_a_key_that_comes_twice_fails_the_snapshot_and_changes_nothing(shop: Shop) -> None:
    shop.snapshot(FIRST, {"apple": 1, "pear": 1}, order=1)
    before = shop.sent()
    # The count is no key: both rows have the same.
    report = shop.snapshot(SECOND, {"fig": 1, "plum": 1}, order=2, key_fields=["count"])
    assert report.failure is not None
    assert report.failure.type == "DataError"
    assert "1 rows of the snapshot have the key of another row" in report.failure.message
    assert shop.sent() == before


@pytest.mark.parametrize(
    "options", [{"delivery": "at_least_once"}, {"atomicity": "partition"}, {"headers": False}, {"topic": "of_{item}"}]
)
def test_what_a_snapshot_cannot_do_is_said_before_the_poll(shop: Shop, options: dict[str, Any]) -> None:
    publisher = connectors.sink_class("kafka").from_options(shop.options | options).open(KEY, shop.connections)
    schema = pa.schema([pa.field("item", pa.string()), pa.field("count", pa.int64())])
    (problem,) = publisher.preflight(schema, (Day(date=FIRST),), "snapshot")
    assert "in one transaction" in problem
    assert publisher.preflight(schema, (Day(date=FIRST),), "day") == []


def test_readers_see_a_snapshot_whole(shop: Shop) -> None:
    shop.snapshot(FIRST, {"apple": 1}, order=1)
    with Watch(shop.bootstrap, shop.options["topic"]) as watch:
        for order in range(2, 5):
            shop.snapshot(FIRST, {f"item-{n}": n * order for n in range(200)}, order=order)
        watch.caught_up()
    assert shop.state() == {f"item-{n}": n * 4 for n in range(200)}
