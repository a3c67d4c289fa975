"""The driver under a real spark-submit into a real table of the BigQuery emulator; no Airflow."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from tests.equipment.bigquery.fixtures import Target
from tests.equipment.waiting import wait_until
from tests.integration.conftest import Submitter
from tests.standins.mixpanel.faults import Fault

pytestmark = pytest.mark.slow

WEEK = [f"2026-10-{day:02d}" for day in range(5, 12)]
BAD = "2026-10-12"


@dataclass
class IntoBigQuery(Submitter):
    """Starts drivers for one table of the emulator."""

    target: Any = None

    def sink_options(self) -> dict[str, Any]:
        return {"table": self.target.sink.table}

    def rows(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for row in self.target.query("SELECT day, event, TO_JSON_STRING(properties) AS properties FROM {table}"):
            text = json.dumps([row["event"], json.loads(row["properties"])], sort_keys=True)
            found.setdefault(str(row["day"]), []).append(text)
        return {day: sorted(rows) for day, rows in found.items()}

    def tables(self) -> list[str]:
        dataset = self.target.sink.table.partition(".")[0]
        sql = f"SELECT table_name FROM {dataset}.INFORMATION_SCHEMA.TABLES"
        return sorted(row["table_name"] for row in self.target.query(sql))

    def rejects(self) -> list[dict[str, Any]]:
        dataset = self.target.sink.table.partition(".")[0]
        return list(self.target.query(f"SELECT * FROM {dataset}.events__rejects"))

    def staged(self) -> list[str]:
        return [path.name for path in self.staging.rglob("*") if path.is_file()]


@pytest.fixture
def into_bigquery(submit: Submitter, bigquery_target: Target) -> IntoBigQuery:
    connections = bigquery_target.connections
    submit.staging.mkdir()
    return IntoBigQuery(
        submit.tmp,
        submit.standin,
        started=submit.started,  # so that the fixture ends them
        sink_name="bigquery",
        sink_connections=connections,
        target=bigquery_target,
    )


def polls(standin: Any) -> int:
    return sum(sum(by_status.values()) for by_status in standin.stats["requests"].values())


def statuses(report: Any) -> dict[str, str]:
    return {str(day.day): day.status for day in report.days}


@pytest.mark.parametrize("method", ["storage_write", pytest.param("load_job", marks=pytest.mark.campaign)])
def test_days_arrive_whole_then_a_retry_a_reload_and_the_first_run_again(
    into_bigquery: IntoBigQuery, method: str
) -> None:
    """A window leaves nothing behind but its tables; what the source set aside in its last day goes with the reload."""
    days, options = [*WEEK, BAD], {"source": {"errors_tolerance": "all"}, "sink": {"load_method": method}}
    into_bigquery.standin.faults.replace([Fault.from_json({"kind": "bad_line", "date": BAD, "times": 99})])
    ended = into_bigquery.run(days, **options)
    assert ended.process.returncode == 0, ended.output
    rows = into_bigquery.rows()
    assert {day: rows[day] for day in WEEK} == into_bigquery.served(WEEK)
    assert {day.generation for day in ended.report.days} == {1}
    *whole, last = ended.report.days
    assert all((day.rows_read, day.rows_written, day.duplicates) == (2050, 2000, 50) for day in whole)
    assert last.rejected == 1
    [reject] = into_bigquery.rejects()
    assert (str(reject["day"]), reject["origin"], reject["generation"]) == (BAD, "source", 1)
    assert reject["record"]
    assert into_bigquery.tables() == ["events", "events__ledger", "events__notes", "events__rejects"]
    assert into_bigquery.staged() == []
    for day in ended.report.days:
        assert day.reference in str(day.link)
        assert str(day.link) in ended.output

    polled = polls(into_bigquery.standin)
    again = into_bigquery.here(days, **options)
    assert set(statuses(again.report).values()) == {"already_published"}
    assert polls(into_bigquery.standin) == polled

    into_bigquery.standin.faults.replace([])
    reload = into_bigquery.here([BAD], token="b" * 32, **options)
    assert [each.generation for each in reload.report.days] == [2]
    covered = into_bigquery.here([BAD], **options)
    assert statuses(covered.report) == {BAD: "already_published"}
    assert into_bigquery.rows() == into_bigquery.served(days)
    assert into_bigquery.rejects() == []
    assert into_bigquery.staged() == []
    generations = into_bigquery.target.query(
        f"SELECT generation FROM {into_bigquery.target.sink.table}__ledger WHERE day = '{BAD}' ORDER BY generation"
    )
    assert [row["generation"] for row in generations] == [1, 2]


def test_a_publish_that_failed_is_tried_again_from_the_stage(into_bigquery: IntoBigQuery) -> None:
    away = {**into_bigquery.sink_connections}
    extra = away["google_cloud_default"].extra | {"grpc_endpoint": "http://127.0.0.1:1"}
    into_bigquery.sink_connections = {
        "google_cloud_default": away["google_cloud_default"].model_copy(update={"extra": extra})
    }
    failed = into_bigquery.run(WEEK[:1], sink={"retry_budget_seconds": 2})
    assert failed.process.returncode == 75, failed.output
    assert into_bigquery.staged() != []
    polled = polls(into_bigquery.standin)
    into_bigquery.sink_connections = away
    ended = into_bigquery.here(WEEK[:1])
    assert ended.report.exit_code == 0, ended.output
    assert polls(into_bigquery.standin) == polled
    assert into_bigquery.rows() == into_bigquery.served(WEEK[:1])
    assert into_bigquery.staged() == []


def test_a_table_for_each_event_is_loaded_from_the_stage_after_a_kill_between_its_tables(
    into_bigquery: IntoBigQuery,
) -> None:
    """The driver dies as soon as the first of its tables is there: no row is shown then, and the retry asks nobody."""
    dataset = into_bigquery.target.sink.table.partition(".")[0]
    sink = {"table": f"{dataset}.mp_{{event}}"}
    days = WEEK[:1]
    running = into_bigquery.start(days, sink=sink)

    def of_events() -> list[str]:
        return [name for name in into_bigquery.tables() if name.startswith("mp_")]

    wait_until(of_events)
    for process in [*psutil.Process(running.process.pid).children(recursive=True), running.process]:
        with contextlib.suppress(psutil.Error):
            process.kill()
    running.wait(60)
    counts = " UNION ALL ".join(f"SELECT COUNT(*) AS n FROM {dataset}.{name}" for name in of_events())
    assert {row["n"] for row in into_bigquery.target.query(counts)} == {0}, "the kill came after the publish"
    polled = polls(into_bigquery.standin)

    ended = into_bigquery.here(days, sink=sink)
    assert statuses(ended.report) == dict.fromkeys(days, "published"), ended.output
    assert polls(into_bigquery.standin) == polled
    found: Counter[str] = Counter()
    for name in of_events():
        for row in into_bigquery.target.query(f"SELECT event, COUNT(*) AS n FROM {dataset}.{name} GROUP BY event"):
            assert row["event"] not in found, "each event is in one table"
            found[row["event"]] = row["n"]
    kept = into_bigquery.standin.project.expected_rows(dt.date.fromisoformat(days[0]))
    assert found == Counter(row["event"] for row in kept)
    assert len(found) > 2
