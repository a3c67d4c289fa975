"""The driver under a real spark-submit into a real table of the BigQuery emulator; no Airflow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_provider_connect.demo.mixpanel.faults import Fault
from tests.equipment.bigquery.fixtures import Target
from tests.integration.conftest import Submitter

pytestmark = pytest.mark.slow

WEEK = [f"2026-10-{day:02d}" for day in range(5, 12)]


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
def test_a_week_arrives_whole_and_leaves_nothing_behind(into_bigquery: IntoBigQuery, method: str) -> None:
    ended = into_bigquery.run(WEEK, sink={"load_method": method})
    assert ended.process.returncode == 0, ended.output
    assert into_bigquery.rows() == into_bigquery.served(WEEK)
    assert {day.generation for day in ended.report.days} == {1}
    assert all((day.rows_read, day.rows_written, day.duplicates) == (2050, 2000, 50) for day in ended.report.days)
    assert into_bigquery.tables() == ["events", "events__ledger"]
    assert into_bigquery.staged() == []
    for day in ended.report.days:
        assert day.reference in str(day.link)
        assert str(day.link) in ended.output


def test_a_retry_polls_nothing_and_a_new_intent_reloads(into_bigquery: IntoBigQuery) -> None:
    day = WEEK[:1]
    into_bigquery.run(day)
    polled = polls(into_bigquery.standin)
    again = into_bigquery.run(day)
    assert (statuses(again.report), polls(into_bigquery.standin)) == ({day[0]: "already_published"}, polled)
    reload = into_bigquery.run(day, token="b" * 32)
    assert [each.generation for each in reload.report.days] == [2]
    covered = into_bigquery.run(day)
    assert statuses(covered.report) == {day[0]: "already_published"}
    assert into_bigquery.rows() == into_bigquery.served(day)
    generations = into_bigquery.target.query(
        f"SELECT generation FROM {into_bigquery.target.sink.table}__ledger WHERE day IS NOT NULL ORDER BY generation"
    )
    assert [row["generation"] for row in generations] == [1, 2]


def test_a_publish_that_failed_is_tried_again_from_the_stage(into_bigquery: IntoBigQuery) -> None:
    away = {**into_bigquery.sink_connections}
    extra = away["google_cloud_default"].extra | {"grpc_endpoint": "http://127.0.0.1:1"}
    into_bigquery.sink_connections = {
        "google_cloud_default": away["google_cloud_default"].model_copy(update={"extra": extra})
    }
    failed = into_bigquery.run(WEEK[:1], sink={"retry_budget_seconds": 2, "timeout_seconds": 2})
    assert failed.process.returncode == 75, failed.output
    assert into_bigquery.staged() != []
    polled = polls(into_bigquery.standin)
    into_bigquery.sink_connections = away
    ended = into_bigquery.run(WEEK[:1])
    assert ended.process.returncode == 0, ended.output
    assert polls(into_bigquery.standin) == polled
    assert into_bigquery.rows() == into_bigquery.served(WEEK[:1])
    assert into_bigquery.staged() == []


def test_what_the_source_set_aside_lies_beside_the_table(into_bigquery: IntoBigQuery) -> None:
    into_bigquery.standin.faults.replace([Fault.of({"kind": "bad_line", "date": WEEK[0], "times": 99})])
    ended = into_bigquery.run(WEEK[:1], source={"errors_tolerance": "all"})
    assert ended.process.returncode == 0, ended.output
    [day] = ended.report.days
    assert day.rejected == 1
    dataset = into_bigquery.target.sink.table.partition(".")[0]
    [reject] = into_bigquery.target.query(f"SELECT * FROM {dataset}.events__rejects")
    assert (str(reject["day"]), reject["origin"], reject["generation"]) == (WEEK[0], "source", 1)
    assert reject["record"]
    into_bigquery.standin.faults.replace([])
    into_bigquery.run(WEEK[:1], token="b" * 32)
    assert into_bigquery.target.query(f"SELECT * FROM {dataset}.events__rejects") == []
    assert into_bigquery.staged() == []
