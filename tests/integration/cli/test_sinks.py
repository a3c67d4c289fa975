"""What a person's questions find in Kafka and BigQuery: a check makes nothing there, and rejects are those of a day."""

from __future__ import annotations

import datetime as dt
import hashlib
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_connect.stage.rows import POSITION_BITS
from airflow_provider_connect.window import Day
from tests.equipment.bigquery.bench import SinkBench, bench_of
from tests.equipment.bigquery.fixtures import Target, connection_to
from tests.equipment.bigquery.proxy import BigQueryProxy, Refuse
from tests.equipment.frozen import MONDAY, SCHEMA, TUESDAY, events
from tests.equipment.kafka.scene import scene_of
from tests.standins.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow
DAYS = [Day(date=MONDAY)]
NUMBERS = pa.schema([pa.field("event", pa.string()), pa.field("x", pa.float64())])
NAN = float("nan")


def test_a_check_creates_no_topic(broker: KafkaBroker, tmp_path: Path) -> None:
    scene = scene_of(broker.bootstrap, tmp_path)
    assert scene.publisher.inspect(SCHEMA, DAYS, "day") == []
    assert scene.topics() == set()
    [problem] = scene.having(key_fields=("nowhere",)).publisher.inspect(SCHEMA, DAYS, "day")
    assert "the source has no column 'nowhere'" in problem


def test_a_check_creates_no_table(bigquery_target: Target, tmp_path: Path) -> None:
    bench = bench_of(bigquery_target, tmp_path)
    with bench.open() as publisher:
        before = tables(publisher)
        assert publisher.inspect(bench.schema, DAYS, "day") == []
        assert tables(publisher) == before
    lost = bench.having(table="connect_test_nowhere.events")
    with lost.open() as publisher:
        assert publisher.inspect(bench.schema, DAYS, "day") == lost.preflight()
        assert lost.preflight()


def test_a_listing_names_the_staging_tables_that_a_sweep_drops(
    bigquery_target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench_of(bigquery_target, tmp_path)
    assert bench.preflight() == []
    with bench.open() as publisher:
        token = publisher.begin(bench.stage(MONDAY, events("a")))
        assert publisher.leftovers() == []  # it may still live
        monkeypatch.setattr("airflow_provider_connect.sinks._bigquery.publisher.SWEEP_AGE", -dt.timedelta(minutes=5))
        assert publisher.leftovers() == [token.table.id]
        assert token.table.table in tables(publisher)
        assert publisher.sweep() == 1
        assert publisher.leftovers() == []


def numbers(*given: float) -> pa.Table:
    return pa.table([[f"e{at}" for at in range(len(given))], given], schema=NUMBERS)


def digest(record: bytes) -> str:
    return hashlib.blake2b(record, digest_size=16).hexdigest()


def tables(publisher: object) -> set[str]:
    target = publisher.tables.target  # type: ignore[attr-defined]
    client = publisher.api.client  # type: ignore[attr-defined]
    return {table.table_id for table in client.list_tables(f"{target.project}.{target.dataset}")}


def test_the_right_to_make_a_table_is_asked_for_without_making_one(
    bigquery_target: Target, proxy: BigQueryProxy, tmp_path: Path
) -> None:
    bench = bench_of(bigquery_target, tmp_path)
    fronted = SinkBench(bench.sink, connection_to(proxy), bench.reader, bench.root)
    made = proxy.count("POST .*/tables$")
    with fronted.open() as publisher:
        assert publisher.inspect(bench.schema, DAYS, "day") == []
        proxy.breaks("POST .*/jobs$", Refuse(403, "accessDenied"))
        [problem] = publisher.inspect(bench.schema, DAYS, "day") or ()
    assert "try to make table" in problem
    assert "the missing right" in problem
    assert proxy.count("POST .*/tables$") == made


def test_dead_letters_of_a_topic_are_those_of_the_newest_answer(broker: KafkaBroker, tmp_path: Path) -> None:
    scene = scene_of(broker.bootstrap, tmp_path).having(NUMBERS, errors_tolerance="all")
    assert scene.preflight() == []
    assert list(scene.publisher.rejects(MONDAY, MONDAY, 10)) == []
    scene.publish(scene.stage(MONDAY, numbers(1.0, NAN), rejects=[b"{old", b"{older"]))
    scene.publish(scene.stage(MONDAY, numbers(1.0, NAN), numbers(NAN), rejects=[b"{new"], order=2))
    scene.publish(scene.stage(TUESDAY, numbers(1.0), order=3))
    [day] = scene.publisher.rejects(MONDAY, TUESDAY, 2)
    found = list(day.records)
    assert (day.day, day.generation, day.ledger_count, len(found)) == (MONDAY, 2, 3, 3)
    assert scene.sink.effective_dead_letter_topic in day.location
    [source] = [each for each in found if each.origin == "source"]
    assert (source.position, source.digest) == (0, digest(b"{new"))
    assert {each.position for each in found if each.origin == "sink"} == {1, 1 << POSITION_BITS}
    assert sum(each.record is not None for each in found) == 2
    assert all(each.reason for each in found)
    missing = scene.having(dead_letter_topic=f"{scene.name}.elsewhere")
    assert [(day.ledger_count, list(day.records)) for day in missing.publisher.rejects(MONDAY, MONDAY, 2)] == [(3, [])]


def test_a_letter_that_was_sent_twice_is_one(broker: KafkaBroker, tmp_path: Path) -> None:
    options = {"delivery": "at_least_once", "errors_tolerance": "all"}
    scene = scene_of(broker.bootstrap, tmp_path).having(NUMBERS, **options)
    assert scene.preflight() == []
    staged = scene.stage(MONDAY, numbers(1.0, NAN), rejects=[b"{"])
    scene.put(scene.begin(staged), staged)  # by a task that Spark then lost
    scene.publish(staged)
    assert len(scene.records(scene.sink.effective_dead_letter_topic)) == 3
    [day] = scene.publisher.rejects(MONDAY, MONDAY, 9)
    assert (day.ledger_count, sorted(each.origin for each in day.records)) == (2, ["sink", "source"])


def test_dead_letters_of_a_table_are_those_of_the_newest_answer(bigquery_target: Target, tmp_path: Path) -> None:
    bench = bench_of(bigquery_target, tmp_path).having(errors_tolerance="all")
    assert bench.preflight() == []
    bench.publish(bench.stage(MONDAY, events("a"), rejects=[b"{old", b"{older"]))
    bench.publish(bench.stage(MONDAY, events("a"), rejects=[b"{new", b"", b"{newer"], order=2))
    bench.publish(bench.stage(TUESDAY, events("a"), order=3))
    with bench.open() as publisher:
        [day] = publisher.rejects(MONDAY, TUESDAY, 2)
        assert (day.day, day.generation, day.ledger_count) == (MONDAY, 2, 3)
        assert [(each.origin, each.record) for each in day.records] == [
            ("source", b"{new"),
            ("source", None),
            ("source", None),
        ]
        assert next(iter(day.records)).digest == digest(b"{new")
        [day] = publisher.rejects(MONDAY, MONDAY, 0)
        assert [each.record for each in day.records] == [None, None, None]
    bench.publish(bench.stage(MONDAY, events("a"), order=4))
    with bench.open() as publisher:
        assert list(publisher.rejects(MONDAY, TUESDAY, 2)) == []
    bench.publish(bench.stage(MONDAY, events("a"), rejects=[b"{last"], order=5))
    with bench.open() as publisher:
        assert publisher.erase("event", ["a"], "day").rows == {MONDAY: 1, TUESDAY: 1}
        [day] = publisher.rejects(MONDAY, TUESDAY, 1)
        assert [each.record for each in day.records] == [b"{last"]
