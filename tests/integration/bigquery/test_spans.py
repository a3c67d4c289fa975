"""Several increments a day in one BigQuery table: rows of an earlier version, an erase, rejects, and a merge."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.testing.bench import DAYS, KEY, MONDAY, SCHEMA, TUESDAY, Bench, Target
from tests.equipment.bigquery.fixtures import Target as Table

pytestmark = pytest.mark.slow


@contextmanager
def bench_of(connection: Connection, dataset: str, folder: Path, **options: Any) -> Iterator[Bench]:
    connections = {"google_cloud_default": connection}
    sink = BigQuerySink(table=f"{dataset}.events", **options)
    (folder / "stage").mkdir()
    with sink.open(KEY, connections) as publisher:
        made = Bench(Target(sink, Table(sink, connections).rows, connections), publisher, folder / "stage")
        assert publisher.preflight(SCHEMA, DAYS, "increment") == []
        yield made


@pytest.fixture
def bench(google_connection: Connection, dataset: str, tmp_path: Path) -> Iterator[Bench]:
    with bench_of(google_connection, dataset, tmp_path) as made:
        yield made


def publish(
    bench: Bench, number: int, rows: list[str], day: dt.date = MONDAY, clear_number: int = 0, **how: Any
) -> LedgerRow:
    attempt = f"{clear_number + 1}"
    staged = bench.stage(day, rows, number, attempt, kind="increment", to=str(number), clear_number=clear_number, **how)
    return bench.publish(dataclasses.replace(staged, on_empty="accept"))


def events(bench: Bench) -> list[str]:
    return [event for _, event in bench.readable()]


def query(bench: Bench, sql: str) -> list[dict[str, Any]]:
    publisher: Any = bench.publisher
    rows, _ = publisher.api.query(sql, action="test", labels={"connect": "test"})
    return [dict(row) for row in rows]


def test_rows_of_an_earlier_version_belong_to_the_first_increment_of_their_day(bench: Bench) -> None:
    """An earlier version wrote no numbers of spans into the rows, and one increment a day."""
    publisher: Any = bench.publisher
    publish(bench, 1, ["a", "b"])
    query(bench, f"UPDATE {publisher.tables.target.sql} AS t SET connect_span = NULL WHERE TRUE; SELECT 1 AS one")
    publish(bench, 2, ["c"])
    assert events(bench) == ["a", "b", "c"]
    assert publish(bench, 2, ["c2"], clear_number=1).generation == 2
    assert events(bench) == ["a", "b", "c2"]
    assert publish(bench, 1, ["a2"], clear_number=1).generation == 2
    assert events(bench) == ["a2", "c2"]


def test_an_erase_counts_each_increment_of_a_day_and_keeps_its_run(bench: Bench) -> None:
    publish(bench, 1, ["ann", "bob"])
    publish(bench, 2, ["cat", "ann"])
    publish(bench, 3, ["dan"])
    publish(bench, 4, ["ann"], TUESDAY)
    publisher: Any = bench.publisher
    assert publisher.erase("event", ["ann"], "increment").rows == {MONDAY: 2, TUESDAY: 1}
    assert events(bench) == ["bob", "cat", "dan"]
    spans = publisher.ledger.span_rows(MONDAY, TUESDAY)
    assert sorted((row.span_number, row.generation, row.rows, row.counts.get("erased")) for row in spans) == [
        (1, 2, 1, 1),
        (2, 2, 1, 1),
        (3, 1, 1, None),
        (4, 2, 0, 1),
    ]
    assert publish(bench, 2, ["cat2"], clear_number=1).generation == 3
    assert publish(bench, 5, ["eve"]).span_number == 5
    assert events(bench) == ["bob", "cat2", "dan", "eve"]


def test_rejects_of_a_span_are_replaced_with_it(bench: Bench) -> None:
    publisher: Any = bench.publisher

    def rejects() -> list[tuple[Any, ...]]:
        return [(day.ledger_count, len([*day.records])) for day in publisher.rejects(MONDAY, MONDAY, 0)]

    publish(bench, 1, ["a"], rejected=2)
    publish(bench, 2, ["b"])
    publish(bench, 3, ["c"], rejected=1)
    assert rejects() == [(3, 3)]
    publish(bench, 2, ["b"], clear_number=1)
    assert rejects() == [(3, 3)]
    publish(bench, 1, ["a"], clear_number=1)
    assert rejects() == [(1, 1)]


def test_a_merged_table_refuses_a_second_increment_of_a_day_by_name(
    google_connection: Connection, dataset: str, tmp_path: Path
) -> None:
    """Its tombstones know their day alone: a clear of the first run could bring deleted rows back."""
    how = {"write_mode": "merge", "key": ["event"], "newest_by": "amount"}
    with bench_of(google_connection, dataset, tmp_path, **how) as bench:
        publish(bench, 1, ["a", "b"])
        with pytest.raises(ConfigError, match="keeps one increment a day"):
            publish(bench, 2, ["x", "c", "a"])
        publish(bench, 1, ["a", "c"], clear_number=1)
        assert events(bench) == ["a", "b", "c"]
        assert bench.ledger.row(MONDAY).rows == 3
