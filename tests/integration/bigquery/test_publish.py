"""The publish script against the emulator, through the real client library.

The emulator runs one script at a time and knows no snapshot isolation, so tests of races do not miss the fence here:
that it is there and comes first stands in ``tests/unit/sinks/bigquery/test_publish.py``. With the environment variable
GOOGLE_CLOUD_PROJECT_FOR_TESTS (and Application Default Credentials) this file runs against a real project instead.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_connect.clients.bigquery.sql import literal
from airflow_provider_connect.errors import ConfigError, DataError, OvertakenError, RetriableError
from airflow_provider_connect.sink import LedgerRow, StreamKey
from airflow_provider_connect.sinks._bigquery.columns.types import make_columns
from airflow_provider_connect.sinks._bigquery.ledger import ensure_ledger
from airflow_provider_connect.sinks._bigquery.rejects import STAGED_REJECT_FIELDS, RejectTables, ensure_rejects_table
from airflow_provider_connect.sinks._bigquery.staging import create_staging_table
from airflow_provider_connect.sinks._bigquery.tables import MergeRule, ensure_table, make_merge_rule, tombstone_fields
from tests.equipment.bigquery.fixtures import options
from tests.equipment.bigquery.publish_bench import NOON, Bench, row, with_field

pytestmark = pytest.mark.slow


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
    bench.options = options(partition_by="at")
    bench.schema = with_field(pa.field("at", pa.timestamp("us", "UTC")))
    bench.filter_column = "at"
    bench.publish(1, 1, [(*row(1), None), (*row(2), None)])
    bench.publish(1, 2, [(*row(3), None)])
    found = bench.query(f"SELECT id FROM {bench.target.sql} WHERE `at` IS NULL OR `at` IS NOT NULL")
    assert [r["id"] for r in found] == [3]


def test_publishing_the_same_intent_again_changes_nothing(bench: Bench) -> None:
    first = bench.publish(1, 1, [row(1)], token="t")
    again = bench.publish(1, 1, [row(1), row(2)], token="t")
    assert again == first
    assert bench.rows() == [(1, 1, 1)]
    bench.publish(1, 2, [row(5)])
    assert bench.publish(1, 1, [row(1)], token="t") == first  # also when a newer intent followed
    assert bench.rows() == [(1, 5, 1)]


def test_the_older_answer_of_two_is_refused_before_it_changes_anything(bench: Bench) -> None:
    older = bench.plan(1, 7, [row(2)])
    bench.publish(1, 6, [row(1)])
    with pytest.raises(OvertakenError, match=r"run'6/task has published generation 1 since .* generation 0") as lost:
        bench.run(older)
    assert (lost.value.by, lost.value.may_poll_again) == ("token-1-6", True)
    assert bench.publish(2, 5, [row(3)]).generation == 1  # of another day it is the first
    assert bench.rows() == [(1, 1, 1), (2, 3, 1)]


def test_the_newer_answer_wins_whoever_started_first(bench: Bench) -> None:
    bench.publish(1, 7, [row(1)])
    won = bench.publish(1, 6, [row(2)])
    assert (won.generation, won.run, won.polled_at) == (2, "dag/run'6/task", NOON)
    assert bench.rows() == [(1, 2, 1)]


def test_an_attempt_overtaken_by_a_later_clear_of_its_run_does_not_poll_again(bench: Bench) -> None:
    zombie = bench.plan(1, 1, [row(1)])
    cleared = bench.publish(1, 1, [row(2)], token="cleared", clear_number=1)
    assert (cleared.generation, cleared.clear_number) == (1, 1)
    with pytest.raises(OvertakenError) as lost:
        bench.run(zombie)
    assert (lost.value.by, lost.value.may_poll_again) == ("cleared", False)
    # A run made again has the same name, and counts its clears from 0.
    assert bench.publish(1, 1, [row(3)], token="made again").generation == 2
    assert bench.rows() == [(1, 3, 1)]


def test_a_ledger_that_lost_the_seen_generation_refuses_the_publish(bench: Bench) -> None:
    with pytest.raises(OvertakenError, match="generation 4 was there before the poll, and the ledger has none now"):
        bench.publish(1, 1, [row(1)], seen=4)
    assert bench.rows() == []


def test_a_forced_append_compares_nothing(bench: Bench) -> None:
    bench.write_mode = "append"
    bench.publish(1, 1, [row(1)], on_published_day="append")
    stale = bench.publish(1, 2, [row(2)], on_published_day="append", seen=0)
    assert (stale.generation, stale.rows) == (2, 2)


def test_append_refuses_a_day_that_was_published_meanwhile_for_good(bench: Bench) -> None:
    bench.write_mode = "append"
    late = bench.plan(1, 1, [row(1)])
    bench.publish(1, 2, [row(2)])
    with pytest.raises(ConfigError, match="write_mode='append' would double it"):
        bench.run(late)
    assert bench.rows() == [(1, 2, 1)]


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


def test_append_refuses_a_published_day_unless_told_otherwise(bench: Bench) -> None:
    bench.write_mode = "append"
    bench.publish(1, 1, [row(1)])
    with pytest.raises(ConfigError, match="write_mode='append' would double it"):
        bench.publish(1, 2, [row(2)])
    assert bench.rows() == [(1, 1, 1)]
    forced = bench.publish(1, 2, [row(2)], on_published_day="append")
    assert (forced.generation, forced.rows) == (2, 2)
    assert bench.rows() == [(1, 1, 1), (1, 2, 1)]


def merging(bench: Bench, *, newest_by: str | None = None, key: str = "id") -> MergeRule:
    bench.write_mode = "merge"
    tombstones = bench.target.sibling("events__tombstones")
    found = make_columns(bench.schema)
    merge = make_merge_rule(found, [key], newest_by, "gone", tombstones)
    ensure_table(bench.api, tombstones, tombstone_fields(merge, found), description="test")
    return merge


@pytest.mark.parametrize("partition_filter", ["optional", "required"])
def test_merge_keeps_one_row_a_key_and_the_newest(bench: Bench, partition_filter: Any) -> None:
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


def test_a_number_replaces_nan(bench: Bench) -> None:
    fields = [pa.field("id", pa.int64()), pa.field("gone", pa.bool_()), pa.field("version", pa.float64())]
    bench.schema = pa.schema(fields)
    merge = merging(bench, newest_by="version")
    none = float("nan")
    bench.publish(1, 1, [(1, False, none), (2, False, 4.0), (3, True, none), (4, False, none)], merge=merge)
    bench.publish(2, 1, [(1, False, 5.0), (2, False, none), (3, False, 5.0), (4, False, none)], merge=merge)
    bench.publish(3, 1, [(1, False, 6.0), (1, False, none)], merge=merge)
    found = bench.query(f"SELECT id, version, day FROM {bench.target.sql} ORDER BY id")
    assert [(row["id"], row["day"].day) for row in found] == [(1, 3), (2, 1), (3, 2), (4, 2)]
    assert [row["version"] for row in found][:3] == [6.0, 4.0, 5.0]


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
    bench.prepare()
    other = StreamKey(connector="mixpanel", stream="other")
    ensure_ledger(bench.api, bench.ledger, bench.target, other, write_mode="merge")
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
    ensure_rejects_table(bench.api, target, bench.target)

    def rejects(attempt: str, reasons: list[str]) -> RejectTables:
        place = bench.target.sibling(f"events__stage_{attempt}_rejects")
        create_staging_table(bench.api, place, STAGED_REJECT_FIELDS, {})
        for i, reason in enumerate(reasons):
            values = f"'sink', {i}, 'id', {literal(reason)}, FROM_BASE64('eyJhIjogMX0=')"
            bench.query(f"INSERT INTO {place.sql} (origin, position, `column`, reason, record) VALUES ({values})")
        return RejectTables(target, place, len(reasons))

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
    bench.publish(1, 4, [row(1)], rejects=RejectTables(target))
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
    [won] = [number for number, result in enumerate(results, start=1) if isinstance(result, LedgerRow)]
    assert all(isinstance(result, (LedgerRow, OvertakenError)) for result in results), results
    assert bench.rows() == [(1, won, won), (1, 100 + won, won)]


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


@pytest.mark.parametrize(
    "text", ["{{ ds }} {% x %} @p ? %s $$ -- /* */ ; #", "'; DROP TABLE x; --", "\\", "'''", "\\'"]
)
def test_texts_come_back_as_they_were(bench: Bench, text: str) -> None:
    script = f"DECLARE v STRING DEFAULT {literal(text)}; SELECT v AS one, {literal(text)} AS two;"
    assert bench.api.query(script, action="test", labels={})[0] == [{"one": text, "two": text}]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=20))
def test_any_texts_come_back_as_they_were(bench: Bench, values: list[str]) -> None:
    listed = ", ".join(map(literal, values))
    found = bench.api.query(f"SELECT TO_JSON_STRING([{listed}]) AS v", action="test", labels={})[0]
    assert json.loads(found[0]["v"]) == values
