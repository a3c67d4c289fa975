"""The publish script, ledger, schema changes and sweep against the emulator, through the real client library.

The emulator runs one script at a time and knows no snapshot isolation, so tests of races do not miss the fence here:
that it is there and comes first stands in ``tests/unit/sinks/test_bigquery_publish.py``. With the environment variable
GOOGLE_CLOUD_PROJECT_FOR_TESTS (and Application Default Credentials) this file runs against a real project instead.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError, SupersededError
from airflow_provider_connect.sink import LedgerRow, StreamKey
from airflow_provider_connect.sinks._bigquery_access import Api
from airflow_provider_connect.sinks._bigquery_errors import ConflictError
from airflow_provider_connect.sinks._bigquery_ledger import BigQueryLedger, ensure
from airflow_provider_connect.sinks._bigquery_merge import POSITION, Merge, merge_of, tombstone_fields
from airflow_provider_connect.sinks._bigquery_place import Place
from airflow_provider_connect.sinks._bigquery_preflight import problems
from airflow_provider_connect.sinks._bigquery_publish import PublishPlan, WriteMode, publish_script, settle
from airflow_provider_connect.sinks._bigquery_rejects import REJECT_FIELDS, STAGED_REJECT_FIELDS, Rejects
from airflow_provider_connect.sinks._bigquery_sql import literal
from airflow_provider_connect.sinks._bigquery_sweep import stage_of, stages, sweep
from airflow_provider_connect.sinks._bigquery_table import Layout, Ready, drop, ensure_table, ensure_target, staging
from airflow_provider_connect.sinks._bigquery_types import columns

pytestmark = pytest.mark.slow

KEY = StreamKey(connector="mixpanel", stream="export")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("who's", pa.string()),
        pa.field("gone", pa.bool_()),
        pa.field("version", pa.int64()),
    ]
)
COUNT = itertools.count(1)


@pytest.fixture(scope="module")
def api(google_connection: Connection) -> Iterator[Api]:
    with Api.open(google_connection, timeout_seconds=20, retry_budget_seconds=20) as opened:
        yield opened


@dataclass
class Bench:
    """One dataset with one target, and what publishes rows into it."""

    api: Api
    target: Place
    ledger: Place
    write_mode: WriteMode = "replace"
    schema: pa.Schema = SCHEMA
    layout: Layout = field(default_factory=Layout)
    filter_column: str | None = None  # the emulator forgets that a table requires a filter

    def query(self, sql: str) -> list[dict[str, Any]]:
        return self.api.query(sql, doing="test", labels={})[0]

    def prepare(self) -> Ready:
        ensure(self.api, self.ledger, self.target, KEY, labels={}, write_mode=self.write_mode)
        return ensure_target(self.api, self.target, self.layout, lambda existing: columns(self.schema, existing))

    def stage(self, ready: Ready, attempt: str, rows: Sequence[tuple[Any, ...]]) -> Place:
        place = stage_of(self.target, attempt)
        position = {"name": POSITION, "type": "INTEGER", "mode": "NULLABLE"}
        staging(self.api, place, [*(column.staging for column in ready.columns), position], {})
        if rows:
            values = ", ".join(f"({', '.join(map(sql, (*row, i)))})" for i, row in enumerate(rows))
            names = ", ".join(f"`{column.name}`" for column in ready.columns)
            self.query(f"INSERT INTO {place.sql} ({names}, {POSITION}) VALUES {values}")
        return place

    def plan(
        self, day: int, order: int, rows: Sequence[tuple[Any, ...]], *, token: str | None = None, **changes: Any
    ) -> PublishPlan:
        ready = self.prepare()
        attempt = f"a{next(COUNT)}"
        row = LedgerRow(
            day=dt.date(2026, 9, day),
            generation=0,
            token=token or f"token-{day}-{order}",
            order=order,
            rows=len(rows),
            digest="d'1",
            attempt=attempt,
            counts={"rows_read": len(rows), "duplicates": 1},
            reference="job",
            link="https://example.com/?a=b",
        )
        plan = PublishPlan(
            target=self.target,
            staging=self.stage(ready, attempt, rows),
            ledger=self.ledger,
            key=KEY,
            row=row,
            run="dag/run'1/task",
            columns=ready.columns,
            write_mode=self.write_mode,
            filter_column=ready.filter_column or self.filter_column,
            streams=("s1", "s2"),
        )
        return replace(plan, **changes)

    def run(self, plan: PublishPlan) -> LedgerRow:
        deadline = time.monotonic() + 60
        while True:
            try:
                rows, _ = self.api.query(publish_script(plan), doing="publish", labels={})
                return settle(plan, rows[0])
            except ConflictError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def publish(self, day: int, order: int, rows: Sequence[tuple[Any, ...]], **changes: Any) -> LedgerRow:
        return self.run(self.plan(day, order, rows, **changes))

    def rows(self) -> list[tuple[Any, ...]]:
        found = self.query(f"SELECT id, version, day FROM {self.target.sql} ORDER BY day, id, version")
        return [(row["day"].day, row["id"], row["version"]) for row in found]

    def book(self, **changes: Any) -> BigQueryLedger:
        return BigQueryLedger(lambda: self.api, self.target, self.ledger, KEY, **changes)


def sql(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return "NULL" if value is None else literal(value)


def row(key: int | None, version: int | None = 1, *, gone: bool | None = False) -> tuple[Any, ...]:
    return (key, "it's", gone, version)


@pytest.fixture
def bench(api: Api, dataset: str) -> Bench:
    place = Place(api.project, dataset, "events")
    return Bench(api, place, place.sibling("connect_ledger"))


def test_a_reload_with_fewer_rows_leaves_none_of_the_old(bench: Bench) -> None:
    first = bench.publish(1, 1, [row(1), row(2), row(3)])
    other = bench.publish(2, 1, [row(9)])
    second = bench.publish(1, 2, [row(2, 5)])
    assert bench.rows() == [(1, 2, 5), (2, 9, 1)]
    assert (first.generation, first.rows, other.generation) == (1, 3, 1)
    assert (second.generation, second.rows, second.digest) == (2, 1, "d'1")
    assert second.counts == {"rows_read": 1, "duplicates": 1}
    assert second.published_at is not None


def test_replace_on_a_table_that_requires_a_filter_on_another_column(bench: Bench) -> None:
    bench.layout = Layout(partition_by="at", partition_filter="required")
    bench.schema = with_field(pa.field("at", pa.timestamp("us", "UTC")))
    bench.filter_column = "at"
    bench.publish(1, 1, [(*row(1), None), (*row(2), None)])
    bench.publish(1, 2, [(*row(3), None)])
    found = bench.query(f"SELECT id FROM {bench.target.sql} WHERE `at` IS NULL OR `at` IS NOT NULL")
    assert [r["id"] for r in found] == [3]


def test_the_same_intent_again_changes_nothing(bench: Bench) -> None:
    first = bench.publish(1, 1, [row(1)], token="t")
    again = bench.publish(1, 1, [row(1), row(2)], token="t")
    assert again == first
    assert bench.rows() == [(1, 1, 1)]
    bench.publish(1, 2, [row(5)])
    assert bench.publish(1, 1, [row(1)], token="t") == first  # also when a newer intent followed
    assert bench.rows() == [(1, 5, 1)]


def test_an_older_intent_is_refused_before_it_changes_anything(bench: Bench) -> None:
    bench.publish(1, 7, [row(1)])
    with pytest.raises(SupersededError, match=r"newer run has published generation 1; what dag/run'1/task staged"):
        bench.publish(1, 6, [row(2)])
    assert bench.publish(2, 6, [row(3)]).generation == 1  # of another day it is the first
    assert bench.rows() == [(1, 1, 1), (2, 3, 1)]


def test_a_staging_table_that_lacks_rows_is_not_published(bench: Bench) -> None:
    bench.publish(1, 1, [row(1)])
    plan = bench.plan(1, 2, [row(2), row(3)])
    short = replace(plan, row=plan.row.model_copy(update={"rows": 3}))
    with pytest.raises(RetriableError, match="3 rows and 0 rejects were sent, but 2 and 0 are in the staging table"):
        bench.run(short)
    assert bench.rows() == [(1, 1, 1)]
    assert bench.run(plan).generation == 2


def test_an_empty_day_is_published_and_remembered(bench: Bench) -> None:
    bench.publish(1, 1, [row(1)])
    assert bench.publish(1, 2, []).rows == 0
    assert bench.rows() == []
    assert list(bench.book().days()) == [dt.date(2026, 9, 1)]


def test_a_lost_fence_row_stops_a_publish(bench: Bench) -> None:
    plan = bench.plan(1, 1, [row(1)])
    bench.query(f"DELETE FROM {bench.ledger.sql} WHERE day IS NULL")
    with pytest.raises(RetriableError, match="no fence row"):
        bench.run(plan)
    bench.prepare()
    assert bench.run(plan).generation == 1


def test_two_streams_do_not_delete_each_others_days(bench: Bench) -> None:
    bench.publish(1, 1, [row(1)])
    other = StreamKey(connector="mixpanel", stream="other")
    with pytest.raises(ConfigError, match="another stream has published into"):
        ensure(bench.api, bench.ledger, bench.target, other, labels={}, write_mode="replace")
    ensure(bench.api, bench.ledger, bench.target, other, labels={}, write_mode="append")
    with pytest.raises(ConfigError, match="another stream has published into"):
        bench.publish(1, 1, [row(2)], key=other)
    assert bench.rows() == [(1, 1, 1)]


def test_append_refuses_a_published_day_unless_told_otherwise(bench: Bench) -> None:
    bench.write_mode = "append"
    bench.publish(1, 1, [row(1)])
    with pytest.raises(ConfigError, match="write_mode='append' would double it"):
        bench.publish(1, 2, [row(2)])
    assert bench.rows() == [(1, 1, 1)]
    forced = bench.publish(1, 2, [row(2)], on_published_day="append")
    assert (forced.generation, forced.rows) == (2, 2)
    assert bench.rows() == [(1, 1, 1), (1, 2, 1)]


def merging(bench: Bench, *, newest_by: str | None = None, key: str = "id") -> Merge:
    bench.write_mode = "merge"
    tombstones = bench.target.sibling("events__tombstones")
    found = columns(bench.schema)
    merge = merge_of(found, [key], newest_by, "gone", tombstones)
    ensure_table(bench.api, tombstones, tombstone_fields(merge, found), labels={}, kms_key=None, description="test")
    return merge


@pytest.mark.parametrize("partition_filter", ["optional", "required"])
def test_merge_keeps_one_row_a_key_and_the_newest(bench: Bench, partition_filter: Any) -> None:
    bench.layout = Layout(partition_filter=partition_filter)
    bench.filter_column = "day" if partition_filter == "required" else None
    merge = merging(bench)
    bench.publish(1, 1, [row(1, 1), row(2, 1), row(1, 2)], merge=merge)
    assert bench.rows() == [(1, 1, 2), (1, 2, 1)]
    result = bench.publish(3, 1, [row(2, 3), row(3, 3)], merge=merge)
    assert result.rows == 2
    assert bench.rows() == [(1, 1, 2), (3, 2, 3), (3, 3, 3)]
    # The older day again: newer rows stay, its own are updated.
    bench.publish(1, 2, [row(1, 9), row(2, 9), row(4, 9)], merge=merge)
    assert bench.rows() == [(1, 1, 9), (1, 4, 9), (3, 2, 3), (3, 3, 3)]


def test_merge_by_a_column_lets_its_highest_value_win_over_days_too(bench: Bench) -> None:
    merge = merging(bench, newest_by="version")
    bench.publish(2, 1, [row(1, 5), row(1, 4), row(2, None), row(3, 5)], merge=merge)
    assert bench.rows() == [(2, 1, 5), (2, 2, None), (2, 3, 5)]
    bench.publish(3, 1, [row(1, 4), row(2, 1), row(3, 5)], merge=merge)
    assert bench.rows() == [(2, 1, 5), (3, 2, 1), (3, 3, 5)]
    bench.publish(1, 1, [row(1, 6), row(2, None), row(3, 5)], merge=merge)
    assert bench.rows() == [(1, 1, 6), (3, 2, 1), (3, 3, 5)]


def test_a_deleted_key_stays_deleted_when_an_older_day_comes_later(bench: Bench) -> None:
    merge = merging(bench)
    bench.publish(2, 1, [row(1, gone=True), row(2)], merge=merge)
    bench.publish(1, 1, [row(1), row(2), row(3, gone=None)], merge=merge)
    assert bench.rows() == [(1, 3, 1), (2, 2, 1)]
    bench.publish(3, 1, [row(1), row(2, gone=True)], merge=merge)
    assert bench.rows() == [(1, 3, 1), (3, 1, 1)]
    # An older day's deletion leaves what is newer alone; reloaded without the deletion, the key may come back.
    bench.publish(2, 2, [row(1, gone=True)], merge=merge)
    bench.publish(3, 2, [row(2)], merge=merge)
    assert bench.rows() == [(1, 3, 1), (3, 1, 1), (3, 2, 1)]


def test_a_streams_reload_leaves_the_deletions_of_another_alone(bench: Bench) -> None:
    merge = merging(bench)
    other = StreamKey(connector="mixpanel", stream="other")
    ensure(bench.api, bench.ledger, bench.target, other, labels={}, write_mode="merge")
    bench.publish(2, 1, [row(1, gone=True)], merge=merge, key=other)
    bench.publish(2, 1, [row(5)], merge=merge)
    bench.publish(1, 1, [row(1), row(2)], merge=merge)
    assert bench.rows() == [(1, 2, 1), (2, 5, 1)]


def test_the_last_of_a_days_rows_decides_whether_the_key_lives(bench: Bench) -> None:
    merge = merging(bench)
    bench.publish(1, 1, [row(1), row(1, gone=True), row(2, gone=True), row(2, 7)], merge=merge)
    assert bench.rows() == [(1, 2, 7)]


def test_merge_refuses_rows_without_a_key(bench: Bench) -> None:
    merge = merging(bench)
    with pytest.raises(DataError, match=r"1 rows have NULL in the key \(id\)"):
        bench.publish(1, 1, [row(1), row(None)], merge=merge)
    assert bench.rows() == []


def test_rejects_come_and_go_with_their_day(bench: Bench) -> None:
    target = bench.target.sibling("events__rejects")
    ensure_table(bench.api, target, REJECT_FIELDS, labels={}, kms_key=None, description="test")

    def rejects(attempt: str, reasons: list[str]) -> Rejects:
        place = bench.target.sibling(f"events__stage_{attempt}_rejects")
        staging(bench.api, place, STAGED_REJECT_FIELDS, {})
        for i, reason in enumerate(reasons):
            values = f"'sink', {i}, 'id', {literal(reason)}, FROM_BASE64('eyJhIjogMX0=')"
            bench.query(f"INSERT INTO {place.sql} (origin, position, `column`, reason, record) VALUES ({values})")
        return Rejects(target, place, len(reasons))

    bench.publish(1, 1, [row(1)], rejects=rejects("r1", ["x", "y"]))
    bench.publish(2, 1, [row(1)], rejects=rejects("r2", ["other day"]))
    look = f"SELECT day, generation, reason, connector, stream FROM {target.sql} ORDER BY day, position"
    assert [(r["day"].day, r["generation"], r["reason"], r["stream"]) for r in bench.query(look)] == [
        (1, 1, "x", "export"),
        (1, 1, "y", "export"),
        (2, 1, "other day", "export"),
    ]
    with pytest.raises(RetriableError, match="1 rows and 3 rejects were sent, but 1 and 1 are"):
        bench.publish(1, 2, [row(1)], rejects=replace(rejects("r3", ["z"]), rows=3))
    bench.publish(1, 3, [row(1)], rejects=rejects("r4", ["z"]))
    assert [(r["generation"], r["reason"]) for r in bench.query(look)] == [(2, "z"), (1, "other day")]
    bench.publish(1, 4, [row(1)], rejects=Rejects(target))
    assert [r["reason"] for r in bench.query(look)] == ["other day"]


def in_threads(work: Sequence[Any]) -> list[Any]:
    results: list[Any] = [None] * len(work)

    def run(i: int) -> None:
        try:
            results[i] = work[i]()
        except Exception as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    return results


def test_publishers_of_one_day_at_once_leave_one_of_them_whole(bench: Bench) -> None:
    plans = [bench.plan(1, order, [row(order, order), row(100 + order, order)]) for order in range(1, 7)]
    results = in_threads([lambda plan=plan: bench.run(plan) for plan in plans])
    assert isinstance(results[-1], LedgerRow)  # the newest always gets through
    assert all(isinstance(result, (LedgerRow, SupersededError)) for result in results), results
    assert bench.rows() == [(1, 6, 6), (1, 106, 6)]
    published = [result for result in results if isinstance(result, LedgerRow)]
    assert sorted(result.generation for result in published) == list(range(1, len(published) + 1))


def test_the_same_intent_twice_at_once_publishes_once(bench: Bench) -> None:
    plans = [bench.plan(1, 1, [row(1), row(2)], token="t") for _ in range(4)]
    results = in_threads([lambda plan=plan: bench.run(plan) for plan in plans])
    assert len({result.attempt for result in results}) == 1
    assert bench.rows() == [(1, 1, 1), (1, 2, 1)]
    assert bench.query(f"SELECT COUNT(*) AS n FROM {bench.ledger.sql} WHERE day IS NOT NULL") == [{"n": 1}]


def test_days_at_once_all_get_through_and_readers_see_whole_days(bench: Bench) -> None:
    plans = [bench.plan(day, 1, [row(i) for i in range(day)]) for day in range(1, 9)]
    done = threading.Event()
    seen: list[tuple[int, int]] = []

    def read() -> None:
        while not done.is_set():
            found = bench.query(f"SELECT day, COUNT(*) AS n FROM {bench.target.sql} GROUP BY day")
            seen.extend((r["day"].day, r["n"]) for r in found)

    reader = threading.Thread(target=read)
    reader.start()
    results = in_threads([lambda plan=plan: bench.run(plan) for plan in plans])
    done.set()
    reader.join(30)
    assert [result.rows for result in results] == list(range(1, 9)), results
    assert all(day == n for day, n in seen)
    assert len(bench.rows()) == sum(range(1, 9))
    assert list(bench.book().days()) == [dt.date(2026, 9, day) for day in range(1, 9)]


def test_the_ledger_of_what_is_not_there_is_empty(bench: Bench) -> None:
    assert bench.book().row(dt.date(2026, 9, 1)) is None
    assert len(bench.book().days()) == 0
    elsewhere = BigQueryLedger(
        lambda: bench.api, replace(bench.target, dataset="nowhere"), replace(bench.ledger, dataset="nowhere"), KEY
    )
    assert elsewhere.published(dt.date(2026, 9, 1), "t") is None


def test_the_ledger_tells_what_was_published(bench: Bench) -> None:
    old = bench.publish(1, 1, [row(1)], token="old")
    new = bench.publish(1, 2, [row(1), row(2)], token="new")
    day = dt.date(2026, 9, 1)
    book = bench.book()
    assert book.row(day) == new
    assert book.published(day, "old") == old
    assert book.published(day, "unknown") is None
    strict = bench.book(on_published_day="refuse")
    assert strict.published(day, "old") == old
    with pytest.raises(ConfigError, match="has this day already"):
        strict.published(day, "unknown")
    kept = bench.query(f"SELECT run, load_method, streams FROM {bench.ledger.sql} WHERE token = 'new'")
    assert kept == [{"run": "dag/run'1/task", "load_method": "storage_write", "streams": ["s1", "s2"]}]


def test_a_table_in_the_ledgers_place_is_refused(bench: Bench) -> None:
    bench.query(f"CREATE TABLE {bench.ledger.sql} (a INT64)")
    with pytest.raises(ConfigError, match=r"is in the way: it is none of this sink's, it lacks the columns attempt"):
        bench.prepare()


def with_field(*fields: pa.Field) -> pa.Schema:
    return pa.schema([*SCHEMA, *fields])


def test_new_columns_are_added_and_old_rows_read_null(bench: Bench) -> None:
    bench.publish(1, 1, [row(1)])
    bench.schema = with_field(pa.field("extra", pa.string()), pa.field("amounts", pa.list_(pa.float64())))
    plan = bench.plan(2, 1, [])
    bench.query(f"INSERT INTO {plan.staging.sql} (id, extra, amounts, {POSITION}) VALUES (2, 'new', [1.5, 2.5], 0)")
    bench.run(replace(plan, row=plan.row.model_copy(update={"rows": 1})))
    found = bench.query(f"SELECT id, extra, amounts FROM {bench.target.sql} ORDER BY id")
    assert [(r["id"], r["extra"]) for r in found] == [(1, None), (2, "new")]
    assert found[1]["amounts"] == [1.5, 2.5]
    described = bench.api.client.get_table(bench.target.id, timeout=20, retry=None)
    assert [f.name for f in described.schema][-2:] == ["extra", "amounts"]
    bench.schema = SCHEMA  # a column that went away is NULL from then on
    bench.publish(3, 1, [row(3)])
    assert [r["extra"] for r in bench.query(f"SELECT extra FROM {bench.target.sql} WHERE id = 3")] == [None]


def test_freeze_fails_a_day_with_new_columns_and_discard_leaves_them_out(bench: Bench) -> None:
    bench.publish(1, 1, [row(1)])
    bench.schema = with_field(pa.field("extra", pa.string()))
    bench.layout = Layout(schema_contract="freeze")
    with pytest.raises(DataError, match="column 'extra' is new"):
        bench.prepare()
    bench.layout = Layout(schema_contract="discard_columns")
    ready = bench.prepare()
    assert ready.discarded == ("extra",)
    bench.publish(2, 1, [row(2)])
    assert bench.rows() == [(1, 1, 1), (2, 2, 1)]


def test_a_changed_type_names_column_and_both_types(bench: Bench) -> None:
    bench.prepare()
    bench.schema = pa.schema([SCHEMA.field("id"), pa.field("version", pa.string())])
    with pytest.raises(DataError, match=r"'version' is INTEGER in the table and STRING now: cast it in the source"):
        bench.prepare()


def test_required_columns_are_relaxed_when_the_source_may_leave_them_null(bench: Bench) -> None:
    bench.schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("gone", pa.bool_())])
    bench.prepare()
    mode = {f.name: f.mode for f in bench.api.client.get_table(bench.target.id, timeout=20, retry=None).schema}
    assert mode["id"] == "REQUIRED"
    bench.schema = SCHEMA
    bench.prepare()
    mode = {f.name: f.mode for f in bench.api.client.get_table(bench.target.id, timeout=20, retry=None).schema}
    assert mode["id"] == "NULLABLE"


def test_a_missing_table_is_made_as_the_layout_says(bench: Bench) -> None:
    bench.layout = Layout(
        create_disposition="never",
    )
    with pytest.raises(ConfigError, match="does not exist and create_disposition='never'"):
        bench.prepare()
    bench.layout = Layout(
        partition_type="month", partition_expiration_days=400, cluster_by=("id", "who's"), labels={"team": "x"}
    )
    ready = bench.prepare()
    made = bench.api.client.get_table(bench.target.id, timeout=20, retry=None)
    assert made.time_partitioning.field == "day"
    assert made.time_partitioning.type_ == "MONTH"
    assert made.time_partitioning.expiration_ms == 400 * 86_400_000
    assert made.clustering_fields == ["id", next(c.name for c in ready.columns if c.source == "who's")]
    assert made.labels == {"team": "x"}


def test_a_view_is_no_target(bench: Bench) -> None:
    bench.query(f"CREATE VIEW {bench.target.sql} AS SELECT 1 AS id")
    with pytest.raises(ConfigError, match="is a VIEW, which cannot be written"):
        bench.prepare()


def preflight(bench: Bench) -> list[str]:
    return problems(bench.api, bench.target, bench.layout, lambda existing: columns(bench.schema, existing))


def test_preflight_finds_nothing_before_and_after_the_first_publish_and_leaves_nothing(bench: Bench) -> None:
    assert preflight(bench) == []
    assert [item.table_id for item in bench.api.client.list_tables(bench.target.dataset, timeout=20, retry=None)] == []
    bench.publish(1, 1, [row(1)])
    assert preflight(bench) == []
    assert bench.rows() == [(1, 1, 1)]


def test_preflight_names_a_missing_dataset_and_a_wrong_location(bench: Bench) -> None:
    bench.layout = Layout(location="europe-west3")
    assert "lies in US and location='europe-west3'" in preflight(bench)[0]
    with Api.open(bench.api.connection, timeout_seconds=20, retry_budget_seconds=20) as fresh:
        nowhere = replace(bench, api=fresh, target=replace(bench.target, dataset="connect_test_nowhere"))
        [problem] = preflight(nowhere)
    assert "dataset" in problem
    assert "connect_test_nowhere does not exist" in problem


def test_preflight_names_every_problem_of_a_table_at_once(bench: Bench) -> None:
    bench.query(f"CREATE TABLE {bench.target.sql} (id STRING, day DATE, version STRING)")
    [partitioning, types] = preflight(bench)
    assert "partitioned otherwise (not at all)" in partitioning
    assert "'id' is STRING in the table and INTEGER now" in types
    assert "'version' is STRING in the table and INTEGER now" in types


def test_nested_fields_only_the_table_has_are_null(bench: Bench) -> None:
    inner = pa.struct([("b", pa.string()), ("a", pa.int64())])
    bench.query(f"CREATE TABLE {bench.target.sql} (day DATE, s STRUCT<a INT64, old STRING, b STRING>) PARTITION BY day")
    bench.schema = pa.schema([pa.field("s", inner)])
    plan = bench.plan(1, 1, [])
    bench.query(f"INSERT INTO {plan.staging.sql} (s, {POSITION}) VALUES (STRUCT('x' AS b, 1 AS a), 0)")
    bench.run(replace(plan, row=plan.row.model_copy(update={"rows": 1})))
    assert bench.query(f"SELECT s FROM {bench.target.sql}") == [{"s": {"a": 1, "old": None, "b": "x"}}]


def test_sweep_drops_old_staging_tables_of_this_target_alone(bench: Bench) -> None:
    ready = bench.prepare()
    bench.stage(ready, "dead-1", [])
    bench.stage(ready, "dead-2", [])
    other = replace(bench, target=bench.target.sibling("events2"))
    other.stage(ready, "alive", [])
    bench.query(f"CREATE TABLE {bench.target.sibling('events__stage_mine').sql} (a INT64)")  # a person's, by its label
    assert len(stages(bench.api, bench.target)) == 2
    assert [one.place.table for one in stages(bench.api, bench.target, "dead-1")] == ["events__stage_dead_1"]
    now = dt.datetime.now(dt.UTC)
    assert sweep(bench.api, bench.target, now - dt.timedelta(minutes=10)) == 0
    assert sweep(bench.api, bench.target, now + dt.timedelta(minutes=10)) == 2
    assert stages(bench.api, bench.target) == []
    assert len(stages(bench.api, other.target)) == 1
    drop(bench.api, bench.target.sibling("never_was"))


@pytest.mark.parametrize(
    "text", ["{{ ds }} {% x %} @p ? %s $$ -- /* */ ; #", "'; DROP TABLE x; --", "\\", "'''", "\\'"]
)
def test_texts_come_back_as_they_were(api: Api, text: str) -> None:
    script = f"DECLARE v STRING DEFAULT {literal(text)}; SELECT v AS one, {literal(text)} AS two;"
    assert api.query(script, doing="test", labels={})[0] == [{"one": text, "two": text}]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=20))
def test_any_texts_come_back_as_they_were(api: Api, values: list[str]) -> None:
    listed = ", ".join(map(literal, values))
    assert (
        json.loads(api.query(f"SELECT TO_JSON_STRING([{listed}]) AS v", doing="test", labels={})[0][0]["v"]) == values
    )
