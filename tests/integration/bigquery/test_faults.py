"""Queries and other REST calls with answers lost, refused and late: each has its effect once, and ends in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from airflow_provider_connect.clients.bigquery import api as _bigquery_access
from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.errors import ConflictError, ExistsError, MissingError
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from tests.equipment.bigquery.fixtures import connection_to, fresh_table
from tests.equipment.bigquery.proxy import Answer, BigQueryProxy, Change, Cut, Lose, Refuse, RefuseAfter, Silent, Slow

pytestmark = pytest.mark.slow

JOBS = "POST /projects/[^/]+/jobs$"
ONE_JOB = "GET /projects/[^/]+/jobs/"
RESULTS = "GET /projects/[^/]+/queries/"
TABLES = "POST /projects/[^/]+/datasets/[^/]+/tables$"


@pytest.fixture
def api(proxy: BigQueryProxy) -> Iterator[BigQueryApi]:
    with BigQueryApi.open(connection_to(proxy), timeout_seconds=5, retry_budget_seconds=16) as opened:
        yield opened


@pytest.fixture
def table(api: BigQueryApi, dataset: str) -> TableRef:
    return fresh_table(api, dataset, [{"name": "n", "type": "INT64"}])


def job_of(table: TableRef) -> str:
    return f"connect_publish_{table.dataset}"  # the emulator is the whole session's, so its jobs are


def insert(api: BigQueryApi, table: TableRef) -> Any:
    sql = f"INSERT INTO {table.sql} (n) VALUES (1); SELECT COUNT(*) AS found FROM {table.sql}"
    return api.query(sql, action="publishing", labels={"day": "2026-09-01"}, job_id=job_of(table))


def stored(api: BigQueryApi, table: TableRef) -> int:
    rows, _ = api.query(f"SELECT COUNT(*) AS found FROM {table.sql}", action="counting", labels={})
    return int(rows[0]["found"])


def test_a_query_runs_under_its_id_with_its_labels(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    rows, job = insert(api, table)
    assert rows == [{"found": 1}]
    assert (job.job_id, job.labels) == (job_of(table), {"day": "2026-09-01"})
    assert proxy.count(JOBS) == 1


@pytest.mark.parametrize("fault", [Lose(), RefuseAfter(503, "backendError"), RefuseAfter(500), RefuseAfter(429)])
def test_a_lost_answer_to_a_query_leads_to_the_job_that_was_started(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy, fault: Any
) -> None:
    proxy.breaks(JOBS, fault, 1)
    rows, job = insert(api, table)
    assert (rows, job.job_id) == ([{"found": 1}], job_of(table))
    assert proxy.count(JOBS) == 1
    assert stored(api, table) == 1


def test_a_late_answer_to_a_query_counts_as_lost(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    def late(body: Any) -> Any:
        time.sleep(1.5)
        return body

    api.timeout_seconds = 0.7
    proxy.breaks(JOBS, Change(late), 1)
    assert insert(api, table)[0] == [{"found": 1}]
    assert stored(api, table) == 1


def test_an_id_that_exists_already_is_that_job(api: BigQueryApi, table: TableRef) -> None:
    insert(api, table)
    rows, _ = insert(api, table)  # 409 from the proxy
    assert rows == [{"found": 1}]
    assert stored(api, table) == 1


def test_an_id_that_exists_and_cannot_be_found_is_not_taken_for_done(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy
) -> None:
    api.retry_budget_seconds = 0.8
    insert(api, table)
    proxy.breaks(ONE_JOB, Refuse(404, "notFound", "Not found: Job"))
    with pytest.raises(RetriableError, match=f"has a job {job_of(table)} but does not show it"):
        insert(api, table)


@pytest.mark.parametrize("fault", [Cut(), Refuse(503, "backendError"), Refuse(429, "rateLimitExceeded"), Refuse(502)])
@pytest.mark.parametrize("call", [JOBS, RESULTS])
def test_faults_that_pass_are_tried_again(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy, call: str, fault: Any
) -> None:
    proxy.breaks(call, fault, 1, 2)
    assert insert(api, table)[0] == [{"found": 1}]
    assert stored(api, table) == 1


@pytest.mark.parametrize(
    "fault",
    [Silent(20), Cut(), Refuse(500, "internalError"), Refuse(403, "rateLimitExceeded")],
    ids=lambda fault: f"{type(fault).__name__}{getattr(fault, 'status', '')}",
)
@pytest.mark.parametrize("call", [JOBS, RESULTS, ONE_JOB])
def test_a_fault_that_stays_is_an_error_within_the_budget(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy, call: str, fault: Any
) -> None:
    api.timeout_seconds, api.retry_budget_seconds = 0.4, 0.8
    proxy.breaks(call, fault)
    if call == ONE_JOB:
        proxy.breaks(JOBS, Lose(), 1)
    started = time.monotonic()
    with pytest.raises(RetriableError, match="publishing"):
        insert(api, table)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("reason", "expected", "retry_after"),
    [
        ("quotaExceeded", RetriableError, 3600),
        ("accessDenied", ConfigError, None),
        ("billingNotEnabled", ConfigError, None),
    ],
)
def test_b13_a_final_error_is_not_retried(
    api: BigQueryApi,
    table: TableRef,
    proxy: BigQueryProxy,
    reason: str,
    expected: type[ConnectError],
    retry_after: float | None,
) -> None:
    proxy.breaks(JOBS, Refuse(403, reason))
    with pytest.raises(expected) as caught:
        insert(api, table)
    assert getattr(caught.value, "retry_after_seconds", None) == retry_after
    assert proxy.count(JOBS) == 1


def done_with(reason: str, message: str) -> Change:
    def change(job: Any) -> Any:
        return job | {"status": {"state": "DONE", "errorResult": {"reason": reason, "message": message}}}

    return Change(change)


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        ("invalidQuery", "Bad int64 value: CANARY", ConfigError),
        ("notFound", "Not found: Table p:d.t", MissingError),
        ("stopped", "Job execution was cancelled", RetriableError),
        ("invalidQuery", "Transaction is aborted due to concurrent update against table CANARY", ConflictError),
    ],
)
def test_b10_b16_a_job_that_is_done_with_an_error_is_a_failure(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy, reason: str, message: str, expected: type[ConnectError]
) -> None:
    proxy.breaks(JOBS, done_with(reason, message))
    with pytest.raises(expected) as caught:
        insert(api, table)
    assert type(caught.value) is expected
    assert "CANARY" not in str(caught.value)
    assert proxy.count(JOBS) == 1


def test_a_job_that_failed_by_itself_is_followed_by_another(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy
) -> None:
    proxy.breaks(JOBS, Answer(job_of_the_service(table)), 1)
    rows, job = insert(api, table)
    assert (rows, job.job_id) == ([{"found": 1}], f"{job_of(table)}_1")


def job_of_the_service(table: TableRef) -> dict[str, Any]:
    return {
        "jobReference": {"projectId": table.project, "jobId": job_of(table), "location": "US"},
        "configuration": {"query": {}},
        "status": {"state": "DONE", "errorResult": {"reason": "backendError", "message": "x"}},
    }


def test_b16_a_conflict_that_comes_as_a_server_error_is_not_tried_again_here(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy
) -> None:
    proxy.breaks(
        JOBS, Refuse(500, "internalError", "Transaction is aborted due to concurrent update against table p:d.t.")
    )
    with pytest.raises(ConflictError):
        insert(api, table)
    assert proxy.count(JOBS) == 1


def test_a_job_is_waited_for(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    def running(job: Any) -> Any:
        return job | {"status": {"state": "RUNNING"}}

    proxy.breaks(JOBS, Change(running))
    proxy.breaks(ONE_JOB, Change(running), 1, 2)
    assert insert(api, table)[0] == [{"found": 1}]
    assert proxy.count(ONE_JOB) == 3


def test_a_job_that_never_ends_is_cancelled(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def running(job: Any) -> Any:
        return job | {"status": {"state": "RUNNING"}}

    monkeypatch.setattr(_bigquery_access, "JOB_SECONDS", 1.0)
    proxy.breaks(f"{JOBS}|{ONE_JOB}", Change(running))
    proxy.breaks("POST .*/cancel$", Answer({"job": {"status": {"state": "RUNNING"}}}))
    with pytest.raises(RetriableError, match=f"job {job_of(table)} was not done after 1 s and has been cancelled"):
        insert(api, table)
    assert proxy.count("POST .*/cancel$") == 1


def test_a_lost_response_to_a_tables_creation_returns_the_table(
    api: BigQueryApi, dataset: str, proxy: BigQueryProxy
) -> None:
    from google.cloud import bigquery

    place = TableRef(api.project, dataset, "made")
    table = bigquery.Table(place.id, [bigquery.SchemaField("n", "INT64")])
    proxy.breaks(TABLES, Lose(), 1)
    with pytest.raises(ExistsError):
        api.call("making it", api.client.create_table, table)
    assert api.call("reading it", api.client.get_table, place.id).num_rows == 0


def test_a_dataset_made_a_moment_ago_may_be_unknown_for_a_while(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy
) -> None:
    proxy.breaks("GET /projects/[^/]+/datasets/", Refuse(404, "notFound", "Not found: Dataset"), 1, 2)
    api.call("reading", api.client.get_dataset, table.dataset, retry_missing_seconds=5)
    proxy.breaks("GET /projects/[^/]+/datasets/", Refuse(404, "notFound", "Not found: Dataset"))
    with pytest.raises(MissingError):
        api.call("reading", api.client.get_dataset, table.dataset)


def test_jobs_run_where_the_dataset_lies(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    proxy.breaks("GET /projects/[^/]+/datasets/", Change(lambda dataset: dataset | {"location": "europe-west1"}))
    assert api.locate(table) == "europe-west1"
    assert api.location == "europe-west1"
    api.locate(table)
    assert proxy.count("GET /projects/[^/]+/datasets/") == 1
    assert api.console_link("a_job") == (
        "https://console.cloud.google.com/bigquery?project=connect-test&j=bq:europe-west1:a_job&page=queryresults"
    )


def test_threads_share_one_api(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    proxy.breaks("", Slow(0.05))
    together = threading.Barrier(8)

    def work(number: int) -> int:
        together.wait()
        api.write_client  # noqa: B018 - made once, whoever comes first
        rows, _ = api.query(f"SELECT {number} AS n", action="asking", labels={})
        return int(rows[0]["n"])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == list(range(8))
