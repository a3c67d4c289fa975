"""One staged file on its way into the staging table, with rows that BigQuery refuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.clients.bigquery.streams import RefusedRow, RowsError, StreamReceipt
from airflow_provider_connect.errors import DataError
from airflow_provider_connect.sinks._bigquery.columns.types import make_columns
from airflow_provider_connect.sinks._bigquery.load_methods import storage_write as _storage_write
from airflow_provider_connect.sinks._bigquery.load_methods.storage_write import RESTARTS, put_file
from airflow_provider_connect.sinks._bigquery.staging import StagingLayout
from airflow_provider_connect.stage.rejects import Tolerance

FILE = "day=2026-09-01/a1-00000-0a1b.parquet"
SCHEMA = pa.schema([("n", pa.int64()), ("größe", pa.string())])
NAMES = [column.staging["name"] for column in make_columns(SCHEMA)]


@dataclass
class Picky:
    """Stands for BigQuery: refuses the first row of a file, as often as it is told."""

    refusals: int
    sent: int = 0
    stored: list[int] = field(default_factory=list)

    def appender(self, api: Any, table: TableRef, schema: pa.Schema) -> PickyAppender:
        return PickyAppender(self, schema.names == NAMES, [])


@dataclass
class PickyAppender:
    service: Picky
    takes_rows: bool
    batches: list[pa.RecordBatch]

    def __enter__(self) -> PickyAppender:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def append(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)

    def close(self) -> StreamReceipt:
        rows = sum(batch.num_rows for batch in self.batches)
        if self.takes_rows:
            self.service.sent += 1
            if self.service.sent <= self.service.refusals:
                raise RowsError(f"BigQuery refuses 1 rows; columns: {NAMES[1]}", [RefusedRow(0, NAMES[1], "not valid")])
            self.service.stored = [n for batch in self.batches for n in batch["n"].to_pylist()]
        return StreamReceipt("a stream" if rows else "", rows)


def put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusals: int, errors: Literal["none", "all"] = "all"
) -> tuple[Picky, Any]:
    service = Picky(refusals)
    monkeypatch.setattr(_storage_write, "Appender", service.appender)
    (tmp_path / FILE).parent.mkdir()
    pq.write_table(pa.table({"n": range(20), "größe": [f"text {n}" for n in range(20)]}, SCHEMA), tmp_path / FILE)
    place, made = TableRef("a-project", "d", "rows"), make_columns(SCHEMA)
    staging = StagingLayout(place, place.sibling("rejected"), made, made, "storage_write")
    return service, lambda: put_file(None, staging, str(tmp_path), FILE, Tolerance(errors, 50))  # type: ignore[arg-type]


def test_refused_rows_are_rejected_and_the_others_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, send = put(tmp_path, monkeypatch, RESTARTS)
    receipt = send()
    assert (receipt.rows.rows, receipt.rejects.rows) == (20 - RESTARTS, RESTARTS)
    assert service.stored == list(range(RESTARTS, 20))


def test_a_file_is_sent_again_a_limited_number_of_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, send = put(tmp_path, monkeypatch, 19)
    with pytest.raises(DataError, match="refused other rows each of the 6 times that the file was sent, 6 so far"):
        send()
    assert service.sent == RESTARTS + 1


def test_refused_columns_have_their_source_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, send = put(tmp_path, monkeypatch, 1, "none")
    with pytest.raises(RowsError, match=r"refuses 1 rows; columns: größe$"):
        send()


def test_rejects_name_the_source_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_aside: list[Any] = []
    monkeypatch.setattr(_storage_write, "append_rejects", lambda appender, origin, bad: set_aside.extend(bad))
    _, send = put(tmp_path, monkeypatch, 1)
    send()
    assert [(bad.position, bad.column, bad.reason) for bad in set_aside] == [
        (0, "größe", "refused by BigQuery: not valid")
    ]
