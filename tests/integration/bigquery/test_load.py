"""Load jobs: files of this machine and of a bucket, job ids of our own, and jobs that fail in every way (B8-B10).

A job's id is taken once in a project: every test has ids of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.sinks._bigquery.load_methods import load_job as _load_job
from airflow_provider_connect.sinks._bigquery.load_methods.load_job import PACE_SECONDS, run_load_jobs
from tests.equipment.bigquery.fixtures import connection_to, fresh_table
from tests.equipment.bigquery.proxy import Answer, BigQueryProxy, Change, Lose, Refuse, RefuseAfter

pytestmark = pytest.mark.slow

FIELDS = [
    {"name": "n", "type": "INTEGER", "mode": "NULLABLE"},
    {"name": "text", "type": "STRING", "mode": "NULLABLE"},
    {"name": "tags", "type": "STRING", "mode": "REPEATED"},
]
UPLOAD = "PUT /upload/"  # the piece that ends an upload starts the job


@pytest.fixture
def api(proxy: BigQueryProxy) -> Iterator[BigQueryApi]:
    with BigQueryApi.open(connection_to(proxy), timeout_seconds=15, retry_budget_seconds=30) as opened:
        yield opened


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_load_job, "_PAUSES", (0.1,))


@pytest.fixture
def table(api: BigQueryApi, dataset: str) -> TableRef:
    return fresh_table(api, dataset, FIELDS)


def parquet(path: Path, start: int, rows: int = 100, text: str = "") -> str:
    numbers = range(start, start + rows)
    columns = {
        "n": pa.array(numbers, pa.int64()),
        "text": pa.array([text or f"text {n}" for n in numbers]),
        "tags": pa.array([["a", "b"][: n % 3] for n in numbers], pa.list_(pa.string())),
    }
    pq.write_table(pa.table(columns), path, compression="none", use_dictionary=False)
    return str(path)


def stored(api: BigQueryApi, table: TableRef) -> list[int]:
    found, _ = api.query(f"SELECT n FROM {table.sql} ORDER BY n", action="reading", labels={})
    return [row["n"] for row in found]


def run(api: BigQueryApi, table: TableRef, *files: str, attempt: str = "a1") -> list[str]:
    attempt = f"{table.dataset}-{attempt}"
    return run_load_jobs(api, table, files, FIELDS, labels={"connector": "test"}, attempt=attempt)


def job(table: TableRef, end: str = "a1_0") -> str:
    """Return the id of a job that :func:`run` starts."""
    return f"connect_load_{table.dataset}-{end}"


def test_a_day_of_many_files_of_this_machine_is_one_job(
    api: BigQueryApi, table: TableRef, tmp_path: Path, proxy: BigQueryProxy
) -> None:
    """BigQuery allows five changes of a table in ten seconds, and a load job is one."""
    files = [parquet(tmp_path / f"{n}.parquet", n * 100) for n in range(11)]
    files += [f"file://{parquet(tmp_path / 'k.parquet', 1100)}"]
    assert run(api, table, *files) == [job(table)]
    assert (proxy.count("POST /upload/"), proxy.count(UPLOAD), proxy.count("POST .*/jobs$")) == (1, 1, 1)
    assert stored(api, table) == list(range(1200))
    found, _ = api.query(f"SELECT tags FROM {table.sql} WHERE n = 2", action="reading", labels={})
    assert found == [{"tags": ["a", "b"]}]


def done(api: BigQueryApi, table: TableRef) -> Answer:
    into = {"projectId": api.project, "datasetId": table.dataset, "tableId": table.table}
    body = {
        "jobReference": {"projectId": api.project, "jobId": job(table), "location": "US"},
        "configuration": {"load": {"destinationTable": into}},
        "status": {"state": "DONE"},
    }
    return Answer(body)


def test_files_of_a_bucket_are_one_job(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    proxy.breaks("POST /projects/[^/]+/jobs", done(api, table))
    assert run(api, table, *(f"gs://bucket/{n}.parquet" for n in range(3))) == [job(table)]
    assert proxy.count("POST /projects/[^/]+/jobs") == 1


def test_more_files_than_a_job_takes_are_several_jobs_at_a_pace(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(_load_job.time, "sleep", slept.append)
    monkeypatch.setattr(_load_job, "FILES_PER_JOB", 2)
    proxy.breaks("POST /projects/[^/]+/jobs", done(api, table))
    assert len(run(api, table, *(f"gs://bucket/{n}.parquet" for n in range(13)))) == 7
    assert proxy.count("POST /projects/[^/]+/jobs") == 7
    assert slept == [PACE_SECONDS] * 6
    assert 10 / PACE_SECONDS <= 4  # of five changes in ten seconds; the table's making is another one


@pytest.mark.parametrize("fault", [Lose(), RefuseAfter(503, "backendError"), RefuseAfter(500, "internalError")])
def test_b8_a_lost_response_leads_to_the_job_that_was_started(
    api: BigQueryApi, table: TableRef, tmp_path: Path, proxy: BigQueryProxy, fault: Any
) -> None:
    proxy.breaks(UPLOAD, fault, 1)
    assert run(api, table, parquet(tmp_path / "a.parquet", 0)) == [job(table)]
    assert proxy.count(UPLOAD) == 1
    assert stored(api, table) == list(range(100))


def test_b8_a_job_that_exists_already_is_waited_for(
    api: BigQueryApi, table: TableRef, tmp_path: Path, proxy: BigQueryProxy
) -> None:
    file = parquet(tmp_path / "a.parquet", 0)
    run(api, table, file)
    proxy.breaks(UPLOAD, Refuse(409, "duplicate", "Already Exists: Job"))
    assert run(api, table, file) == [job(table)]
    assert stored(api, table) == list(range(100))


def failed(reason: str, message: str = "made by the test", *, bad_records: int = 0, **more: Any) -> Change:
    def change(body: Any) -> Any:
        error = {"reason": reason, "message": message} | more
        status = {"state": "DONE", "errors": [error]} | ({} if bad_records else {"errorResult": error})
        body["status"] = status
        body.setdefault("statistics", {}).setdefault("load", {})["badRecords"] = str(bad_records)
        return body

    return Change(change)


def test_b9_a_job_with_a_transient_error_is_followed_by_another(
    api: BigQueryApi, table: TableRef, tmp_path: Path, proxy: BigQueryProxy
) -> None:
    gone = {
        "jobReference": {"projectId": api.project, "jobId": job(table), "location": "US"},
        "configuration": {"load": {}},
        "status": {"state": "DONE", "errorResult": {"reason": "jobRateLimitExceeded", "message": "later"}},
    }
    proxy.breaks(UPLOAD, Refuse(409, "duplicate"), 1)
    proxy.breaks("GET /projects/[^/]+/jobs/connect_load_[^/]*a1_0$", Answer(gone))
    assert run(api, table, parquet(tmp_path / "a.parquet", 0)) == [job(table, "a1_0_1")]
    assert stored(api, table) == list(range(100))


def test_b9_a_job_of_this_id_that_loaded_another_table_is_not_taken_for_ours(
    api: BigQueryApi, table: TableRef, tmp_path: Path, proxy: BigQueryProxy
) -> None:
    other = {
        "jobReference": {"projectId": api.project, "jobId": job(table), "location": "US"},
        "configuration": {"load": {"destinationTable": {"projectId": "pppp", "datasetId": "d", "tableId": "older"}}},
        "status": {"state": "DONE"},
    }
    proxy.breaks(UPLOAD, Refuse(409, "duplicate"), 1)
    proxy.breaks("GET /projects/[^/]+/jobs/connect_load_[^/]*a1_0$", Answer(other))
    assert run(api, table, parquet(tmp_path / "a.parquet", 0)) == [job(table, "a1_0_1")]
    assert stored(api, table) == list(range(100))


def test_b9_a_job_that_fails_every_time_ends_in_an_error(
    api: BigQueryApi, table: TableRef, tmp_path: Path, proxy: BigQueryProxy
) -> None:
    proxy.breaks(UPLOAD, failed("backendError"))
    with pytest.raises(RetriableError, match="backendError"):
        run(api, table, parquet(tmp_path / "a.parquet", 0))
    assert proxy.count(UPLOAD) == _load_job.TRIES


def test_b10_a_job_that_is_done_with_an_error_is_a_failure(
    api: BigQueryApi, table: TableRef, tmp_path: Path, proxy: BigQueryProxy
) -> None:
    message = "Error while reading data, error message: Bad value: CANARY"
    proxy.breaks(UPLOAD, failed("invalid", message, location="gs://bucket/a.parquet"))
    with pytest.raises(
        DataError, match=r"job connect_load_\S+-a1_0 did not load .* in gs://bucket/a.parquet"
    ) as caught:
        run(api, table, parquet(tmp_path / "a.parquet", 0))
    assert "CANARY" not in str(caught.value)
    assert proxy.count(UPLOAD) == 1


def test_b10_records_that_were_left_out_are_a_failure(
    api: BigQueryApi, table: TableRef, tmp_path: Path, proxy: BigQueryProxy
) -> None:
    proxy.breaks(UPLOAD, failed("invalid", bad_records=3))
    with pytest.raises(DataError, match="3 bad records"):
        run(api, table, parquet(tmp_path / "a.parquet", 0))


@pytest.mark.parametrize(
    ("reason", "error", "retry_after"),
    [("quotaExceeded", RetriableError, 3600), ("accessDenied", ConfigError, None)],
)
def test_b13_failed_jobs_are_classified(
    api: BigQueryApi,
    table: TableRef,
    tmp_path: Path,
    proxy: BigQueryProxy,
    reason: str,
    error: Any,
    retry_after: float | None,
) -> None:
    proxy.breaks(UPLOAD, failed(reason))
    with pytest.raises(error) as caught:
        run(api, table, parquet(tmp_path / "a.parquet", 0))
    assert getattr(caught.value, "retry_after_seconds", None) == retry_after
    assert proxy.count(UPLOAD) == 1


def test_a_table_that_is_gone_is_made_again_by_the_next_attempt(
    api: BigQueryApi, table: TableRef, tmp_path: Path, proxy: BigQueryProxy
) -> None:
    file = parquet(tmp_path / "a.parquet", 0)
    proxy.breaks(UPLOAD, failed("notFound"), 1)  # not known yet
    assert run(api, table, file) == [job(table, "a1_0_1")]
    proxy.breaks(UPLOAD, failed("notFound"))
    with pytest.raises(RetriableError, match="the table, stream or job of this attempt is gone"):
        run(api, table, file, attempt="a2")
    api.retry_budget_seconds = 1
    proxy.breaks("POST /upload/", Refuse(404, "notFound"))
    with pytest.raises(RetriableError, match="the table, stream or job of this attempt is gone"):
        run(api, table, file, attempt="a3")


def test_a_load_carries_the_labels_of_all_jobs(
    api: BigQueryApi, table: TableRef, tmp_path: Path, proxy: BigQueryProxy
) -> None:
    api.labels = {"team": "b", "connector": "none"}
    run(api, table, parquet(tmp_path / "a.parquet", 0))
    [sent] = [json.loads(call.body) for call in proxy.calls if call.name.startswith("POST /upload/")]
    assert sent["configuration"]["labels"] == {"team": "b", "connector": "test"}


def test_b13_a_rate_limit_is_waited_out(
    api: BigQueryApi, table: TableRef, tmp_path: Path, proxy: BigQueryProxy
) -> None:
    proxy.breaks(UPLOAD, Refuse(403, "rateLimitExceeded"), 1, 2)
    assert run(api, table, parquet(tmp_path / "a.parquet", 0)) == [job(table)]
    assert stored(api, table) == list(range(100))


def test_a_file_that_is_missing_is_an_error(api: BigQueryApi, table: TableRef, tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(RetriableError, match=r"none\.parquet is gone"):
        run(api, table, str(tmp_path / "none.parquet"))
    assert time.monotonic() - started < 2
