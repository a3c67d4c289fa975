"""Several increments a day in one topic: the package's reader, an earlier version's records, and dead letters."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.readers.kafka import json_day, newest_days, records
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.testing.bench import DAYS, KEY, MONDAY, SCHEMA, TUESDAY, Bench
from airflow_provider_connect.testing.bench import Target as BenchTarget
from tests.equipment.kafka.fixtures import Target

pytestmark = pytest.mark.slow


@pytest.fixture(params=[True, False], ids=["headers", "values"])
def bench(request: pytest.FixtureRequest, kafka_target: Target, tmp_path: Path) -> Iterator[Bench]:
    sink = kafka_target.sink.model_copy(update={"headers": request.param, "value_converter": "json"})
    with sink.open(KEY, kafka_target.connections) as publisher:
        target = BenchTarget(sink, lambda: read_by_package(sink, kafka_target.bootstrap), kafka_target.connections)
        made = Bench(target, publisher, tmp_path)
        assert publisher.preflight(SCHEMA, DAYS, "increment") == []
        yield made


def read_by_package(sink: Any, bootstrap: str) -> list[tuple[dt.date, str]]:
    settings = {"bootstrap.servers": bootstrap}
    days = newest_days(settings, sink.topic, ledger_topic=sink.ledger_topic, timeout_seconds=20)
    day_of = None if sink.headers else json_day
    found = records(settings, days, day_of=day_of, timeout_seconds=20)
    return [(day.day, (message.key() or b"").decode()) for day, message in found]


def publish(
    bench: Bench, number: int, rows: list[str], day: dt.date = MONDAY, clear_number: int = 0, **how: Any
) -> LedgerRow:
    attempt = f"{clear_number + 1}"
    staged = bench.stage(day, rows, number, attempt, kind="increment", to=str(number), clear_number=clear_number, **how)
    return bench.publish(dataclasses.replace(staged, on_empty="accept"))


def events(bench: Bench) -> list[str]:
    return [event for _, event in bench.readable()]


def test_the_reader_shows_the_newest_generation_of_each_increment_of_a_day(bench: Bench) -> None:
    publish(bench, 1, ["a", "b"])
    publish(bench, 2, ["c"])
    publish(bench, 3, [])
    publish(bench, 4, ["t"], TUESDAY)
    assert events(bench) == ["a", "b", "c", "t"]
    assert publish(bench, 1, ["a2"], clear_number=1).generation == 2
    assert publish(bench, 2, ["c2", "c3"], clear_number=1).generation == 2
    assert events(bench) == ["a2", "c2", "c3", "t"]
    row = bench.ledger.row(MONDAY)
    assert (row.rows, row.generation, row.span_number) == (3, 2, 3)


def test_rows_of_an_earlier_version_are_the_first_increment_of_their_day(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version wrote no header and no run, and one increment a day."""
    from airflow_provider_connect.sinks._kafka.record_encoder import RecordEncoder

    def without_span(self: RecordEncoder, *args: Any) -> None:
        made(self, *args)
        self.constant_headers = [header for header in self.constant_headers if header[0] != "connect.span"]

    made = RecordEncoder.__init__
    with monkeypatch.context() as patch:
        patch.setattr(RecordEncoder, "__init__", without_span)
        staged = bench.stage(MONDAY, ["a", "b"], 1, kind="increment", to="1")
        span = staged.manifest.span
        assert span is not None
        manifest = staged.manifest.model_copy(update={"span": span.model_copy(update={"run": None})})
        bench.publish(dataclasses.replace(staged, manifest=manifest))
    publish(bench, 2, ["c"])
    assert events(bench) == ["a", "b", "c"]
    assert publish(bench, 1, ["a2"], clear_number=1).generation == 2
    assert events(bench) == ["a2", "c"]


def test_dead_letters_of_all_increments_of_a_day_are_found(bench: Bench) -> None:
    publisher: Any = bench.publisher
    publish(bench, 1, ["a"], rejected=2)
    publish(bench, 2, ["b"])
    publish(bench, 3, ["c"], rejected=1)
    found = [(day.day, day.ledger_count, len([*day.records])) for day in publisher.rejects(MONDAY, TUESDAY, 9)]
    assert sorted(found) == [(MONDAY, 1, 1), (MONDAY, 2, 2)]
