"""Snapshots into BigQuery: the whole replaced, vanished keys deleted, and what is refused, against the emulator.

What every sink that shows the newest snapshot must do stands in the conformance suite; here ``merge`` runs it.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, SupersededError
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.testing.bench import DAYS, KEY, MONDAY, OTHER_KEY, SCHEMA, Bench, Target
from airflow_provider_connect.testing.kinds import SnapshotCases
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
    with pytest.raises(DataError, match=r"2 rows of the snapshot were set aside\. Without their keys"):
        bench.publish(bench.stage(TUESDAY, ["a"], 2, kind="snapshot", rejected=2))
    assert bench.state() == before


def test_append_accepts_only_daily_snapshots(shop: Shop) -> None:
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
    with pytest.raises(ConfigError, match="Give each stream its own table"):
        put(bench, TUESDAY, ["b"], 2)
    assert bench.readable() == [(MONDAY, "a")]


KEYED = SCHEMA.append(pa.field("record_key", pa.string(), nullable=False))
SOFTLY = {"replace": {}, "merge": {"write_mode": "merge", "key": ("record_key",)}}


class Soft:
    """A bench whose events have keys: what stands before the ``=`` in one."""

    def __init__(self, shop: Shop, **options: Any) -> None:
        self.bench = shop.bench(**options)
        self.table = Table(self.bench.target.sink, shop.connections)

    def problems(self, schema: pa.Schema = KEYED, kind: Any = "snapshot") -> list[str]:
        return self.bench.publisher.preflight(schema, DAYS, kind)

    def stage(self, day: dt.date, rows: list[str], number: int) -> Publish:
        staged = self.bench.stage(day, rows, number, kind="snapshot", polled_at=at(day, number))
        files = []
        for file in staged.manifest.polled.files:
            path = self.bench.root / file.path
            found = pq.ParquetFile(path).read()
            keys = [hashlib.md5(event.partition("=")[0].encode()).hexdigest() for event in found["event"].to_pylist()]
            pq.write_table(found.append_column(KEYED.field("record_key"), pa.array(keys)), path)
            files.append(file.model_copy(update={"size_bytes": path.stat().st_size}))
        polled = staged.manifest.polled.model_copy(update={"files": tuple(files)})
        manifest = staged.manifest.model_copy(update={"polled": polled})
        return dataclasses.replace(staged, manifest=manifest, schema=KEYED, on_empty="accept")

    def put(self, day: dt.date, rows: list[str], number: int) -> LedgerRow:
        return self.bench.publish(self.stage(day, rows, number))

    def shown(self) -> tuple[list[str], dict[str, dt.datetime]]:
        """Read the table: what is there, and what is deleted since when."""
        rows = self.table.query("SELECT event, __deleted, __deleted_at FROM {table}")
        assert all(row["__deleted"] is (row["__deleted_at"] is not None) for row in rows)
        gone = {row["event"]: row["__deleted_at"] for row in rows if row["__deleted"]}
        return sorted(row["event"] for row in rows if not row["__deleted"]), gone


def at(day: dt.date, number: int) -> dt.datetime:
    return dt.datetime.combine(day + ONE_DAY, dt.time(number), tzinfo=dt.UTC)


@pytest.mark.parametrize("options", SOFTLY.values(), ids=SOFTLY)
def test_rows_that_vanish_stay_as_deleted(shop: Shop, options: dict[str, Any]) -> None:
    """From hard deletes to soft ones and back, with a reload, a retry, late ones and one that is empty."""
    hard = Soft(shop, **options)
    assert hard.problems() == []
    hard.put(MONDAY, ["a=1", "b=1"], 1)

    soft = Soft(shop, deletes="soft", schema_contract="freeze", **options)
    assert soft.problems() == []
    late = soft.stage(MONDAY, ["a=1", "b=1", "late=1"], 2)
    first = soft.stage(TUESDAY, ["a=2", "c=1"], 3)
    row = soft.bench.publish(first)
    names = ("soft_deleted", "restored", "soft_deleted_in_all")
    assert (row.rows, [row.counts[name] for name in names]) == (2, [1, 0, 1])
    assert soft.shown() == (["a=2", "c=1"], {"b=1": at(TUESDAY, 3)})

    for publish in (late, soft.stage(MONDAY, ["a=1", "b=1"], 4)):
        with pytest.raises(SupersededError):
            soft.bench.publish(publish)
    with soft.bench.another_process() as other:
        assert soft.bench.publish(first, other).generation == 1
    assert soft.shown() == (["a=2", "c=1"], {"b=1": at(TUESDAY, 3)})

    row = soft.put(TUESDAY, ["b=2", "c=2"], 5)  # a reload
    assert (row.generation, row.rows, [row.counts[name] for name in names]) == (2, 2, [1, 1, 1])
    assert soft.shown() == (["b=2", "c=2"], {"a=2": at(TUESDAY, 5)})
    row = soft.put(WEDNESDAY, ["c=2"], 6)
    assert (row.rows, [row.counts[name] for name in names]) == (1, [1, 0, 2])
    assert soft.shown() == (["c=2"], {"a=2": at(TUESDAY, 5), "b=2": at(WEDNESDAY, 6)})
    assert soft.problems() == []

    if "key" not in options:
        assert soft.bench.publisher.find("event", ["a=2", "c=2"]) == {WEDNESDAY: 2}
        erased = soft.bench.publisher.erase("event", ["a=2"], "snapshot")
        assert dict(erased.rows) == {WEDNESDAY: 1}
        row = soft.bench.ledger.row(WEDNESDAY)
        assert (row.generation, row.rows, row.counts["erased"]) == (2, 1, 0)
        assert soft.shown() == (["c=2"], {"b=2": at(WEDNESDAY, 6)})

    row = soft.put(WEDNESDAY + ONE_DAY, [], 7)
    assert (row.rows, row.counts["soft_deleted"], soft.shown()[0]) == (0, 1, [])
    back = Soft(shop, **options)
    assert back.problems() == []
    back.put(WEDNESDAY + 2 * ONE_DAY, ["c=3", "d=1"], 8)
    rows = back.table.query("SELECT event, __deleted FROM {table}")
    assert sorted((row["event"], row["__deleted"] or False) for row in rows) == [("c=3", False), ("d=1", False)]


def test_a_row_that_is_newer_than_the_snapshots_comes_back_with_its_own_values(shop: Shop) -> None:
    """The bench's ``amount`` is the row's place: 'b' is second in the first snapshot and first in the last."""
    soft = Soft(shop, deletes="soft", write_mode="merge", key=("record_key",), newest_by="amount")
    assert soft.problems() == []
    soft.put(MONDAY, ["a=1", "b=1"], 1)
    soft.put(TUESDAY, ["a=1"], 2)
    assert soft.shown() == (["a=1"], {"b=1": at(TUESDAY, 2)})
    row = soft.put(WEDNESDAY, ["b=2"], 3)
    assert soft.shown() == (["b=1"], {"a=1": at(WEDNESDAY, 3)})
    assert (row.rows, row.counts["restored"]) == (1, 1)


def test_an_erase_from_a_merged_table_counts_the_rows_that_were_there(shop: Shop) -> None:
    bench = shop.merging(deletes="soft")
    assert problems(bench) == []
    put(bench, MONDAY, ["a", "b", "c", "d"], 1)
    put(bench, TUESDAY, ["c", "d"], 2)
    erased = bench.publisher.erase("event", ["a", "c"], "snapshot")
    assert dict(erased.rows) == {MONDAY: 1, TUESDAY: 1}, "a deleted row keeps its day"
    row = bench.ledger.row(TUESDAY)
    assert (row.generation, row.rows, row.counts["erased"]) == (2, 1, 1)
    assert bench.readable() == [(MONDAY, "b"), (TUESDAY, "d")]


def test_a_soft_snapshot_with_rows_set_aside_deletes_nothing(shop: Shop) -> None:
    soft = Soft(shop, deletes="soft")
    assert soft.problems() == []
    soft.put(MONDAY, ["a"], 1)
    staged = soft.stage(TUESDAY, ["b"], 2)
    counts = staged.manifest.polled.model_copy(update={"counts": {"rejected": 2}})
    holed = dataclasses.replace(staged, manifest=staged.manifest.model_copy(update={"polled": counts}))
    with pytest.raises(DataError, match="2 rows of the snapshot were set aside"):
        soft.bench.publish(holed)
    assert soft.shown() == (["a"], {})


def test_unsupported_options_of_soft_deletes_are_refused(shop: Shop) -> None:
    soft = Soft(shop, deletes="soft")
    (problem,) = soft.problems(kind="day")
    assert "This one polls days" in problem
    (problem,) = soft.problems(SCHEMA)
    assert "compares snapshots by record_key" in problem
    hard = shop.bench()
    assert problems(hard) == []
    (problem,) = Soft(shop, deletes="soft", schema_contract="discard_columns").problems()
    assert "has no column record_key, and schema_contract='discard_columns' does not add it" in problem
    put(hard, MONDAY, ["a"], 1)
    assert soft.problems() == []
    with pytest.raises(ConfigError, match="holds 1 rows without record_key"):
        soft.put(TUESDAY, ["a"], 2)
    assert hard.readable() == [(MONDAY, "a")]


def test_replaces_is_true_where_an_empty_answer_would_delete_rows(shop: Shop) -> None:
    assert shop.merging().target.sink.replaces("snapshot")
    assert not shop.merging().target.sink.replaces("day")
    assert not shop.merging(snapshot="daily").target.sink.replaces("snapshot")
    assert not shop.bench(write_mode="append").target.sink.replaces("snapshot")
    assert shop.bench(snapshot="daily").target.sink.replaces("snapshot")
