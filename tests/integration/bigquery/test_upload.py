"""A day's files as one upload in pieces: whatever breaks between them, every row is loaded once, and nothing twice."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.clients.bigquery import api as _bigquery_access
from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.errors import GoneError
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sinks._bigquery.load_methods import upload as _bigquery_upload
from airflow_provider_connect.sinks._bigquery.load_methods.load_job import run_load_jobs
from airflow_provider_connect.sinks._bigquery.load_methods.upload import merge_files
from tests.equipment.bigquery.fixtures import connection_to, fresh_table
from tests.equipment.bigquery.proxy import BigQueryProxy, Cut, Lose, Refuse, RefuseAfter

pytestmark = pytest.mark.slow

FIELDS = [{"name": "n", "type": "INTEGER", "mode": "NULLABLE"}, {"name": "text", "type": "STRING", "mode": "NULLABLE"}]
CHUNK_BYTES = 256 * 1024
FILES, GROUPS, ROWS = 3, 2, 4_000
PIECE = "PUT /upload/"


@pytest.fixture
def api(proxy: BigQueryProxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[BigQueryApi]:
    monkeypatch.setattr(_bigquery_access, "_PAUSES", (0.05, 0.1))
    monkeypatch.setattr(_bigquery_upload, "CHUNK_BYTES", CHUNK_BYTES)
    with BigQueryApi.open(connection_to(proxy), timeout_seconds=30, retry_budget_seconds=30) as opened:
        yield opened


@pytest.fixture
def table(api: BigQueryApi, dataset: str) -> TableRef:
    return fresh_table(api, dataset, FIELDS)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Files that make some pieces: their texts are hardly compressed."""
    made = []
    for number in range(FILES):
        path = tmp_path / f"{number}.parquet"
        start = number * GROUPS * ROWS
        numbers = range(start, start + GROUPS * ROWS)
        texts = [random.Random(n).randbytes(100).hex() for n in numbers]
        rows = pa.table({"n": pa.array(numbers, pa.int64()), "text": texts})
        pq.write_table(rows, path, row_group_size=ROWS, compression="zstd")
        made.append(str(path))
    return made


def loaded_once(api: BigQueryApi, table: TableRef) -> bool:
    [found], _ = api.query(
        f"SELECT COUNT(*) AS c, COUNT(DISTINCT n) AS d, SUM(n) AS s FROM {table.sql}", action="reading", labels={}
    )
    total = FILES * GROUPS * ROWS
    return found == {"c": total, "d": total, "s": total * (total - 1) // 2}


def run(api: BigQueryApi, table: TableRef, files: list[str]) -> list[str]:
    return run_load_jobs(api, table, files, FIELDS, labels={}, attempt=table.dataset)


def test_a_day_is_uploaded_in_chunks(api: BigQueryApi, table: TableRef, files: list[str], proxy: BigQueryProxy) -> None:
    assert len(run(api, table, files)) == 1
    assert loaded_once(api, table)
    assert proxy.count(PIECE) > 3
    assert proxy.count("POST /upload/") == 1


@pytest.mark.parametrize(
    "fault", [Cut(), Lose(), Refuse(503, "backendError"), RefuseAfter(503, "backendError")], ids=lambda f: str(f)[:16]
)
def test_a_broken_chunk_is_resumed(
    api: BigQueryApi, table: TableRef, files: list[str], proxy: BigQueryProxy, fault: Any
) -> None:
    proxy.breaks(PIECE, fault, 1, 3, 6)
    assert len(run(api, table, files)) == 1
    assert loaded_once(api, table)
    assert proxy.count("POST /upload/") == 1, "the day was sent again from its beginning"


def test_the_status_request_is_retried_too(
    api: BigQueryApi, table: TableRef, files: list[str], proxy: BigQueryProxy
) -> None:
    proxy.breaks(PIECE, Lose(), 2, 3, 4)
    run(api, table, files)
    assert loaded_once(api, table)


def test_a_lost_response_to_the_last_chunk_leads_to_the_job(
    api: BigQueryApi, table: TableRef, files: list[str], proxy: BigQueryProxy
) -> None:
    run(api, table, files)
    pieces = proxy.count(PIECE)
    other = table.sibling("rows2")
    api.query(f"CREATE TABLE {other.sql} (n INT64, text STRING)", action="making", labels={})
    proxy.breaks(PIECE, Lose(), pieces)
    run_load_jobs(api, other, files, FIELDS, labels={}, attempt=f"{table.dataset}-2")
    assert loaded_once(api, other)
    assert proxy.count(PIECE) == 2 * pieces


@pytest.mark.parametrize("reason", ["", "backendError"])
@pytest.mark.parametrize("piece", [2, None], ids=["in the middle", "the last"])
def test_a_lost_upload_is_not_asked_about_again(
    api: BigQueryApi, table: TableRef, files: list[str], proxy: BigQueryProxy, piece: int | None, reason: str
) -> None:
    if piece is None:
        run(api, table, files)
        piece = proxy.count(PIECE)
        proxy.calls.clear()
        table = table.sibling("rows2")
        api.query(f"CREATE TABLE {table.sql} (n INT64, text STRING)", action="making", labels={})
    proxy.breaks(PIECE, Refuse(410, reason), *range(piece, 50))
    with pytest.raises(GoneError, match="the rows must be sent again"):
        run_load_jobs(api, table, files, FIELDS, labels={}, attempt=f"{table.dataset}-2")
    assert proxy.count(PIECE) <= piece + 1
    proxy.heal()
    run_load_jobs(api, table, files, FIELDS, labels={}, attempt=f"{table.dataset}-3")
    assert loaded_once(api, table)


def test_a_file_that_went_away_meanwhile_loads_nothing(
    api: BigQueryApi, table: TableRef, files: list[str], proxy: BigQueryProxy
) -> None:
    Path(files[-1]).unlink()
    with pytest.raises(RetriableError, match=r"2\.parquet is gone: the day must be staged again"):
        run(api, table, files)
    assert proxy.count(PIECE) > 0
    assert api.query(f"SELECT n FROM {table.sql}", action="reading", labels={})[0] == []


def test_one_file_has_all_row_groups_and_no_more_than_one_at_a_time(files: list[str]) -> None:
    parts = list(merge_files(files))
    whole = pq.ParquetFile(io.BytesIO(b"".join(parts)))
    assert whole.num_row_groups == FILES * GROUPS
    assert whole.read() == pa.concat_tables(pq.read_table(path) for path in files)
    assert max(map(len, parts)) < 1.5 * sum(map(len, parts)) / (FILES * GROUPS)
