"""Freezes days as the executors do, for tests that publish without Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_provider_connect.sink import Intent, Publish, StreamKey
from airflow_provider_connect.stage.manifest import (
    Manifest,
    PollResult,
    SeenPublish,
    StagedFile,
    attempt_folder,
    data_file,
)
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.rejects import rejects_schema
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import ONE_DAY, Day

KEY = StreamKey(connector="conformance", stream="events")
MONDAY = dt.date(2026, 10, 5)
TUESDAY = MONDAY + ONE_DAY
SCHEMA = pa.schema([pa.field("event", pa.string(), nullable=False), pa.field("n", pa.int64())])


def intent(order: int) -> Intent:
    return Intent(token=f"{order:032x}", run=f"dag/run-{order}/task")


def events(*names: str) -> pa.Table:
    return pa.table([pa.array(names, pa.string()), pa.array(range(len(names)), pa.int64())], schema=SCHEMA)


def freeze(
    root: Path,
    day: dt.date,
    *files: pa.Table,
    order: int = 1,
    attempt: str = "1",
    rejects: Sequence[bytes] = (),
    seen: int | SeenPublish = 0,
    schema: pa.Schema | None = None,
    **fields: Any,
) -> Publish:
    """Freeze a day of some files, numbered like their partitions.

    :param order: number of the intent; a higher one need not have the newer answer.
    :param seen: the day's generation before the poll, or what a snapshot found.
    :param schema: of the rows; by default that of the first file, or of :func:`events`.
    :param fields: further fields of the publish.
    """
    folder, name = Folder(str(root)), f"{order:016x}-{attempt}-{day:%Y%m%d}"
    staged = []
    for part, table in enumerate(files):
        with RowWriter(folder, data_file(Day(date=day), name, part, "0"), table.schema) as writer:
            for batch in table.to_batches():
                writer.write(batch)
        staged += [writer.file] if writer.file else []
    rows = sum(file.rows for file in staged)
    polled = PollResult(
        files=tuple(staged),
        rejects=_rejects(folder, name, rejects),
        rows_read=rows + len(rejects),
        rows_written=rows,
        counts={"rejected": len(rejects)},
        digest=f"{order:032x}",
    )
    found = seen if isinstance(seen, SeenPublish) else SeenPublish(day=day, generation=seen) if seen else SeenPublish()
    manifest = Manifest(day=Day(date=day), attempt=name, fingerprint="f", polled=polled, seen=found)
    labels = {"dag_id": "Dag", "task_id": "load", "run_id": f"run {order}"}
    return Publish(
        key=KEY,
        day=manifest.day,
        intent=intent(order),
        manifest=manifest,
        schema=schema or (files[0].schema if files else SCHEMA),
        stage=str(root),
        labels=labels,
        **fields,
    )


def _rejects(folder: Folder, attempt: str, records: Sequence[bytes]) -> tuple[StagedFile, ...]:
    if not records:
        return ()
    path = f"{attempt_folder(attempt)}/rejects-00000.parquet"
    columns = [range(len(records)), ["no JSON"] * len(records), ["d"] * len(records), records]
    with RowWriter(folder, path, rejects_schema()) as writer:
        arrays = [pa.array(c, field.type) for c, field in zip(columns, rejects_schema(), strict=True)]
        writer.write(pa.RecordBatch.from_arrays(arrays, schema=rejects_schema()))
    assert writer.file is not None
    return (writer.file,)
