"""Snapshots into BigQuery: the whole replaced, vanished keys deleted, and what is refused, against the emulator.

What every sink that shows the newest snapshot must do stands in the conformance suite; here ``merge`` runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.testing.bench import DAYS, KEY, MONDAY, OTHER_KEY, SCHEMA, Bench, Target
from airflow_provider_connect.testing.snapshots import SnapshotCases
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.bigquery.fixtures import Target as Table

pytestmark = pytest.mark.slow
TUESDAY, WEDNESDAY = MONDAY + ONE_DAY, MONDAY + 2 * ONE_DAY


class Shop:
    """One table, and benches with options of their own over it."""

    def __init__(self, connection: Connection, table: str, root: Path) -> None:
        self.connections = {"google_cloud_default": connection}
        self.table, self.root = table, root
        self.opened: list[Any] = []

    def bench(self, **options: Any) -> Bench:
        sink = BigQuerySink(table=self.table, **options)
        publisher = sink.open(KEY, self.connections)
        self.opened.append(publisher)
        self.root.mkdir(exist_ok=True)
        return Bench(Target(sink, Table(sink, self.connections).rows, self.connections), publisher, self.root)

    def merging(self, **options: Any) -> Bench:
        return self.bench(write_mode="merge", key=("event",), **options)


@pytest.fixture
def shop(google_connection: Connection, dataset: str, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(google_connection, f"{dataset}.profiles", tmp_path / "stage")
    yield made
    for publisher in made.opened:
        publisher.close()


def problems(bench: Bench, kind: Any = "snapshot") -> list[str]:
    return bench.publisher.preflight(SCHEMA, DAYS, kind)


def put(bench: Bench, day: Any, rows: list[str], number: int) -> LedgerRow:
    return bench.publish(bench.stage(day, rows, number, kind="snapshot"))


class TestMerged(SnapshotCases):
    @pytest.fixture
    def bench(self, shop: Shop) -> Bench:
        return shop.merging()


def test_a_merge_counts_the_rows_that_vanished(shop: Shop) -> None:
    bench = shop.merging()
    assert problems(bench) == []
    assert put(bench, MONDAY, ["a", "b", "c"], 1).counts["vanished"] == 0
    row = put(bench, TUESDAY, ["c", "d"], 2)
    assert (row.rows, row.counts["vanished"], row.counts["rows_read"]) == (2, 2, 2)
    assert bench.ledger.row(TUESDAY) == row
    assert bench.readable() == [(TUESDAY, "c"), (TUESDAY, "d")]


def test_a_row_that_is_newer_than_the_snapshots_has_not_vanished(shop: Shop) -> None:
    """The bench's ``amount`` is the row's place: 'b' is second in the first snapshot and first in the second."""
    bench = shop.merging(newest_by="amount")
    assert problems(bench) == []
    put(bench, MONDAY, ["a", "b"], 1)
    row = put(bench, TUESDAY, ["b", "new"], 2)
    assert bench.readable() == [(MONDAY, "b"), (TUESDAY, "new")]
    assert (row.rows, row.counts["vanished"]) == (2, 1)


def test_a_merged_snapshot_with_rows_set_aside_deletes_nothing(shop: Shop) -> None:
    bench = shop.merging()
    assert problems(bench) == []
    put(bench, MONDAY, ["a", "b"], 1)
    before = bench.state()
    with pytest.raises(DataError, match="2 rows of the snapshot were set aside; without their keys nobody knows"):
        bench.publish(bench.stage(TUESDAY, ["a"], 2, kind="snapshot", rejected=2))
    assert bench.state() == before


def test_append_takes_the_snapshot_of_each_day_alone(shop: Shop) -> None:
    (problem,) = problems(shop.bench(write_mode="append"))
    assert "write_mode='append' only adds rows" in problem
    assert "snapshot='daily'" in problem
    assert problems(shop.bench(write_mode="append"), "day") == []
    bench = shop.bench(write_mode="append", snapshot="daily")
    assert problems(bench) == []
    put(bench, MONDAY, ["a"], 1)
    put(bench, TUESDAY, ["a"], 2)
    assert bench.readable() == [(MONDAY, "a"), (TUESDAY, "a")]


def test_a_history_by_day_is_not_deleted_by_another_setting(shop: Shop) -> None:
    daily, whole = shop.bench(snapshot="daily"), shop.bench()
    assert problems(daily) == []
    put(daily, MONDAY, ["a"], 1)
    put(daily, TUESDAY, ["b"], 2)
    assert daily.ledger.newest(WEDNESDAY, "snapshot") is None
    before = daily.state()
    (problem,) = problems(whole)
    assert "holds 1 rows besides the newest snapshot (2026-10-06)" in problem
    with pytest.raises(ConfigError, match="snapshot='daily' to keep them"):
        put(whole, WEDNESDAY, ["c"], 3)
    assert daily.state() == before

    Table(whole.target.sink, shop.connections).query("DELETE FROM {table} WHERE day < '2026-10-06'")
    assert problems(whole) == []
    put(whole, WEDNESDAY, ["c"], 4)
    put(daily, WEDNESDAY + ONE_DAY, ["d"], 5)
    assert daily.readable() == [(WEDNESDAY, "c"), (WEDNESDAY + ONE_DAY, "d")]


@pytest.mark.parametrize("options", [{}, {"write_mode": "merge", "key": ("event",)}], ids=["replace", "merge"])
def test_rows_that_nobody_published_are_not_deleted(shop: Shop, options: dict[str, Any]) -> None:
    bench = shop.bench(**options)
    assert problems(bench) == []
    Table(bench.target.sink, shop.connections).query("INSERT INTO {table} (event) VALUES ('foreign')")
    (problem,) = problems(bench)
    assert "holds 1 rows that no publish of this stream brought" in problem
    with pytest.raises(ConfigError, match="delete those rows by hand"):
        put(bench, MONDAY, ["a"], 1)
    assert [event for _, event in bench.target.rows()] == ["foreign"]


def test_a_merged_snapshot_does_not_delete_the_rows_of_another_stream(shop: Shop) -> None:
    bench = shop.merging()
    assert problems(bench, "day") == []
    with bench.another_process(OTHER_KEY) as other:
        assert other.preflight(SCHEMA, DAYS, "day") == []
    put(bench, MONDAY, ["a"], 1)
    ledger = f"{shop.table}__ledger"
    copied = "target, connector, 'others', day, generation, 'x' FROM"
    columns = "target, connector, stream, day, generation, token"
    Table(bench.target.sink, shop.connections).query(
        f"INSERT INTO {ledger} ({columns}) SELECT {copied} {ledger} WHERE day IS NOT NULL"
    )
    assert ["another stream has published" in text for text in problems(bench)] == [True]
    with pytest.raises(ConfigError, match="give each stream a table of its own"):
        put(bench, TUESDAY, ["b"], 2)
    assert bench.readable() == [(MONDAY, "a")]


def test_a_sink_says_when_an_empty_answer_would_delete_rows(shop: Shop) -> None:
    assert shop.merging().target.sink.replaces("snapshot")
    assert not shop.merging().target.sink.replaces("day")
    assert not shop.merging(snapshot="daily").target.sink.replaces("snapshot")
    assert not shop.bench(write_mode="append").target.sink.replaces("snapshot")
    assert shop.bench(snapshot="daily").target.sink.replaces("snapshot")
