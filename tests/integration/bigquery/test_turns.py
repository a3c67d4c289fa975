"""Sixteen days at once under BigQuery's limit of statements, and rows that found no turn: nothing is sent twice."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.errors import ConflictError
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.clients.bigquery.tables import drop_table
from airflow_provider_connect.errors import DataError, OvertakenError, RetriableError
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks._bigquery import turns as _bigquery_turns
from airflow_provider_connect.sinks._bigquery.plan import PublishPlan
from airflow_provider_connect.sinks._bigquery.turns import run_publish
from tests.equipment.bigquery.bench import SinkBench, bench_of
from tests.equipment.bigquery.fixtures import Target, connection_to
from tests.equipment.bigquery.proxy import BigQueryProxy, Gate, Refuse
from tests.equipment.bigquery.publish_bench import Bench, row
from tests.equipment.bigquery.turns import Turns, VirtualTime
from tests.equipment.clock import NoTime
from tests.equipment.frozen import MONDAY, SCHEMA, events

pytestmark = pytest.mark.slow

JOBS = "POST /projects/[^/]+/jobs$"
SAYS_ABORTED = "Query error: Transaction is aborted due to concurrent update against table p:d.t. at [4:1]"


@pytest.fixture
def api(proxy: BigQueryProxy) -> Iterator[BigQueryApi]:
    with BigQueryApi.open(connection_to(proxy), timeout_seconds=30, retry_budget_seconds=30) as opened:
        yield opened


@pytest.fixture
def sink(bigquery_target: Target, tmp_path: Path, proxy: BigQueryProxy) -> SinkBench:
    direct = bench_of(bigquery_target, tmp_path)
    assert direct.preflight() == []
    return SinkBench(direct.sink, connection_to(proxy), direct.reader, direct.root)


def test_sixteen_concurrent_days_all_publish_below_the_dml_limit(
    api: BigQueryApi, dataset: str, proxy: BigQueryProxy
) -> None:
    place = TableRef(api.project, dataset, "events")
    bench = Bench(api, place, place.sibling("connect_ledger"))
    ready = bench.prepare()
    plans = [bench.plan(day, 1, [], seen=0, ready=ready) for day in range(1, 17)]
    clock = VirtualTime(len(plans))
    turns = Turns(clock.now, open_seconds=2.0)
    proxy.breaks(JOBS, Gate(turns.enter))
    kept: list[dt.date] = []

    def publish(plan: PublishPlan) -> LedgerRow:
        clock.sleep(0.0)
        try:
            published = run_publish(api, plan, {}, lambda: kept.append(plan.row.day), clock=clock)
        finally:
            drop_table(api, plan.staging)
            clock.done()
        return published

    with ThreadPoolExecutor(16) as threads:
        rows = list(threads.map(publish, plans))
    proxy.heal()
    assert [(row.day.day, row.generation, row.rows) for row in rows] == [(day, 1, 0) for day in range(1, 17)]
    assert len(bench.book().days()) == 16
    assert turns.lost > 0, "nobody lost a turn: the test shows nothing"
    assert len(kept) == len(set(kept)) == 15
    assert (turns.refused, turns.most <= 25) == (0, True)
    assert clock.seconds < 16 * turns.open_seconds * 3


def test_a_rate_limit_in_a_script_is_waited_out_and_costs_no_more_statements(
    api: BigQueryApi, dataset: str, proxy: BigQueryProxy
) -> None:
    place = TableRef(api.project, dataset, "events")
    bench = Bench(api, place, place.sibling("connect_ledger"))
    plan = bench.plan(1, 1, [row(1)])
    clock = NoTime()
    turns = Turns(limit=1)
    proxy.breaks(JOBS, Gate(turns.enter), 1, 2)
    assert run_publish(api, plan, {}, lambda: None, clock=clock).generation == 1
    assert turns.refused == 2
    assert [pause >= 30 for pause in clock.pauses] == [True, True]


def test_without_the_right_to_list_tables_many_publishers_are_assumed(
    api: BigQueryApi, dataset: str, proxy: BigQueryProxy
) -> None:
    place = TableRef(api.project, dataset, "events")
    plan = Bench(api, place, place.sibling("connect_ledger")).plan(1, 1, [row(1)])
    clock = NoTime()
    proxy.breaks(JOBS, Refuse(400, "invalidQuery", SAYS_ABORTED), 1)
    proxy.breaks("GET /projects/[^/]+/datasets/[^/]+/tables$", Refuse(403, "accessDenied"))
    assert run_publish(api, plan, {}, lambda: None, clock=clock).generation == 1
    assert len(clock.pauses) == 1
    assert clock.pauses[0] > 9


def loses_every_turn(monkeypatch: pytest.MonkeyPatch, proxy: BigQueryProxy) -> None:
    monkeypatch.setattr(_bigquery_turns, "PUBLISH_SECONDS", 0.0)
    proxy.breaks(JOBS, Refuse(400, "invalidQuery", SAYS_ABORTED))


def attempt(sink: SinkBench, staged: Publish) -> None:
    """Publish as the driver does, which aborts what fails."""
    with sink.open() as publisher:
        token = publisher.begin(staged)
        try:
            publisher.commit(staged, token, sink.put(staged, token))
        except BaseException:
            publisher.abort(staged, token)
            raise


@pytest.mark.parametrize("method", ["storage_write", "load_job"])
def test_rows_of_a_publish_that_got_no_turn_are_not_sent_again(
    sink: SinkBench, proxy: BigQueryProxy, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    sink = sink.having(load_method=method)
    staged = sink.stage(MONDAY, events("a", "b"), events("c"))
    loses_every_turn(monkeypatch, proxy)
    with pytest.raises(ConflictError):
        attempt(sink, staged)
    assert len(sink.staging_tables()) == 1
    proxy.heal()
    proxy.calls.clear()
    attempt(sink, staged)
    assert proxy.count("AppendRows|CreateWriteStream|BatchCommit|/upload/") == 0
    assert proxy.count("POST .*/tables$") == 0
    sink.holds_exactly(MONDAY, "a", "b", "c")
    assert sink.staging_tables() == []
    [found] = sink.query("SELECT stream_count, load_method FROM `{beside}__ledger` WHERE day IS NOT NULL")
    assert (found["stream_count"], found["load_method"]) == (2 if method == "storage_write" else 0, method)


def test_rows_kept_with_another_layout_are_staged_again(
    sink: SinkBench, proxy: BigQueryProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = sink.stage(MONDAY, events("a"), rejects=[b"{"])
    loses_every_turn(monkeypatch, proxy)
    with pytest.raises(ConflictError):
        attempt(sink, staged)
    assert len(sink.staging_tables()) == 2
    proxy.heal()
    merging = sink.having(write_mode="merge", key=("event",))
    attempt(merging, staged)
    sink.holds_exactly(MONDAY, "a")
    assert len(sink.staging_tables()) == 2  # a sweep's, or they expire


def test_kept_rejects_are_published_too(sink: SinkBench, proxy: BigQueryProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    staged = sink.stage(MONDAY, events("a"), rejects=[b"{", b"}"])
    loses_every_turn(monkeypatch, proxy)
    with pytest.raises(ConflictError):
        attempt(sink, staged)
    proxy.heal()
    proxy.calls.clear()
    attempt(sink, staged)
    assert proxy.count("AppendRows") == 0
    assert sink.query("SELECT COUNT(*) AS n FROM `{beside}__rejects`") == [{"n": 2}]
    assert sink.row(MONDAY).counts["rejected"] == 2
    assert sink.staging_tables() == []


def test_a_kept_table_that_is_missing_or_incomplete_is_staged_again(
    sink: SinkBench, proxy: BigQueryProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = sink.stage(MONDAY, events("a", "b"))
    loses_every_turn(monkeypatch, proxy)
    with pytest.raises(ConflictError):
        attempt(sink, staged)
    proxy.heal()
    [name] = sink.staging_tables()
    beside = sink.sink.table.rpartition(".")[0]
    sink.query(f"DELETE FROM {beside}.{name} WHERE event = 'a'")
    with pytest.raises(RetriableError, match="2 rows and 0 rejects were sent, but 1 and 0 are in the staging table"):
        attempt(sink, staged)
    assert sink.staging_tables() == []
    attempt(sink, staged)
    sink.holds_exactly(MONDAY, "a", "b")


def test_a_note_that_names_the_target_deletes_no_row(
    sink: SinkBench, proxy: BigQueryProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt(sink, sink.stage(MONDAY, events("a"), order=1))
    staged = sink.stage(MONDAY, events("b", "c"), order=2)
    loses_every_turn(monkeypatch, proxy)
    with pytest.raises(ConflictError):
        attempt(sink, staged)
    proxy.heal()
    [note] = sink.root.rglob("bigquery.json")
    changed = json.loads(note.read_text()) | {"table": sink.sink.table.rpartition(".")[2]}
    note.write_text(json.dumps(changed))
    attempt(sink, staged)
    assert sink.rows(MONDAY) == ["b", "c"]


def test_a_final_or_outdated_publish_keeps_no_staging_table(
    sink: SinkBench, proxy: BigQueryProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = sink.stage(MONDAY, events("old"))
    attempt(sink, sink.stage(MONDAY, events("new"), order=2))
    with pytest.raises(OvertakenError):
        attempt(sink, stale)
    assert sink.staging_tables() == []
    keyless = sink.having(write_mode="merge", key=("n",))
    nulls = events("x").set_column(1, SCHEMA.field("n"), pa.array([None], pa.int64()))
    with pytest.raises(DataError, match="NULL in the key"):
        attempt(keyless, keyless.stage(MONDAY, nulls, order=3))
    assert sink.staging_tables() == []
