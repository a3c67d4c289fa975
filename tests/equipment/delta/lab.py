"""A Delta table on this disk, its sink, and days staged as driver and executors stage them."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from airflow_provider_connect.publishing import seen_publish
from airflow_provider_connect.registry import stages_marks
from airflow_provider_connect.sink import Intent, LedgerRow, Publish, Publisher, StreamKey
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.log import VERSION_NOTES_FOLDER
from airflow_provider_connect.sinks._delta.stream_ledger import DeltaLedger
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.stage.manifest import Manifest, PollResult, StagedFile, attempt_folder, data_file
from airflow_provider_connect.stage.soft_deletes import DELETED, with_mark_columns
from airflow_provider_connect.window import Day, SourceKind

KEY = StreamKey(connector="mixpanel", stream="export")
SCHEMA = pa.schema(
    [
        pa.field("event", pa.string(), nullable=False, metadata={"comment": "what happened"}),
        pa.field("time", pa.timestamp("us", "UTC")),
        pa.field("time_local", pa.timestamp("us")),
        pa.field("day", pa.date32()),
    ]
)
MAY = dt.date(2026, 5, 1)


@dataclass(frozen=True)
class _OneState(DeltaLedger):
    """A ledger in one version of its table, which is opened once."""

    state: LedgerView

    def view(self) -> LedgerView:
        return self.state


def staged(
    root: Path,
    date: dt.date,
    rows: list[str],
    token: str,
    *,
    schema: pa.Schema = SCHEMA,
    attempt: str = "",
    run: str = "",
    clear_number: int = 0,
    sink: DeltaSink | None = None,
    kind: SourceKind = "day",
    answer: str | None = None,
    polled_at: dt.datetime | None = None,
    others: Mapping[str, pa.Array] | None = None,
) -> Publish:
    """Look into the ledger, stage a day, and return its publish; without rows there is no file.

    :param rows: events; what stands before a ``=`` makes the row's key, where the schema has one.
    :param others: values of other columns.
    """
    day, attempt = Day(date=date), attempt or f"{token}-{date}"
    sink = sink or DeltaSink(path=str(root))
    ledger = sink.open(KEY, {}).ledger
    if type(ledger) is DeltaLedger:
        ledger = _OneState(ledger.options, ledger.key, ledger.view())
    seen = seen_publish(ledger.newest(date, kind), ledger.erased().version)
    files: tuple[StagedFile, ...] = ()
    softly = stages_marks(sink, kind)
    columns = [field for field in (with_mark_columns(schema) if softly else schema) if field.name != "day"]
    if rows:
        noon = dt.datetime.combine(date, dt.time(12))
        values: dict[str, Any] = {"event": rows, "time": [noon.replace(tzinfo=dt.UTC)] * len(rows)}
        values |= {"time_local": [noon] * len(rows), DELETED: [False] * len(rows)}
        values |= {"record_key": [hashlib.md5(row.partition("=")[0].encode()).hexdigest() for row in rows]}
        values |= others or {}
        # Another column holds nothing, or, where it must hold something, what the event does.
        arrays = [
            pa.array(values.get(c.name, [None] * len(rows) if c.nullable else rows), type=c.type) for c in columns
        ]
        path = data_file(day, attempt, 0, "0")
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(arrays, schema=pa.schema(columns)), root / path)
        stats = {"minValues": {"event": min(rows)}, "maxValues": {"event": max(rows)}, "nullCount": {"event": 0}}
        files = (StagedFile(path=path, rows=len(rows), size_bytes=(root / path).stat().st_size, stats=stats),)
    polled = PollResult(files=files, rows_read=len(rows), rows_written=len(rows), digest=f"{len(rows):032x}")
    manifest = Manifest(day=day, attempt=attempt, fingerprint="f", polled=polled, seen=seen, polled_at=polled_at)
    folder = root / attempt_folder(attempt)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "progress-0.json").write_text("{}")
    (folder / "manifest.json").write_text(manifest.model_dump_json())
    intent = Intent(token=token, run=run or f"dag/run-{token}/task", clear_number=clear_number)
    return Publish(
        key=KEY,
        day=day,
        intent=intent,
        manifest=manifest,
        schema=schema,
        stage=str(root),
        kind=kind,
        labels={"dag": "dag"},
        answer=answer,
    )


def rows_of(path: Path, date: dt.date | None = None) -> list[str]:
    """Read the table's events as any reader of Delta would: the files of its newest version."""
    table = DeltaTable(str(path))
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    files = [path / a["path"] for a in actions if date is None or a["partition.day"] == date]
    return sorted(event for file in files for event in pq.ParquetFile(file).read(["event"])["event"].to_pylist())


class Lab:
    """One table and its sink; the table is there, as preflight makes it before anything is staged."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        self.sink = DeltaSink(path=str(root), **options)

    @property
    def publisher(self) -> Publisher:
        return self.sink.open(KEY, {})

    def preflight(self, schema: pa.Schema = SCHEMA, kind: SourceKind = "day") -> list[str]:
        return self.publisher.preflight(schema, (), kind)

    def make(self, schema: pa.Schema = SCHEMA, kind: SourceKind = "day") -> Lab:
        assert self.preflight(schema, kind) == []
        return self

    def stage(self, date: dt.date, rows: list[str], token: str, **more: Any) -> Publish:
        return staged(self.root, date, rows, token, sink=self.sink, **more)

    def publish(self, date: dt.date, rows: list[str], token: str = "t1", **more: Any) -> LedgerRow:
        return self.commit(self.stage(date, rows, token, **more))

    def commit(self, publish: Publish) -> LedgerRow:
        return self.publisher.commit(publish, None, [])

    def sweep(self) -> int:
        return self.publisher.sweep()

    def there(self, publish: Publish) -> bool:
        """Whether the data files of a staged day are there."""
        return all((self.root / file.path).exists() for file in publish.manifest.polled.files)

    def clean_log(self) -> None:
        """Clean up the log as Delta does after 30 days: only a checkpoint and the newest commit stay."""
        table = DeltaTable(str(self.root))
        table.create_checkpoint()
        for log in (self.root / "_delta_log").glob("*.json"):
            if log.name != f"{table.version():020}.json":
                log.unlink()

    def checkpoint_elsewise(self, layout: str) -> None:
        """Lay the newest checkpoint out as another engine might: ``parts`` of it, or under a ``uuid``."""
        log = self.root / "_delta_log"
        whole = max(log.glob("*.checkpoint.parquet"))
        table, version = pq.read_table(whole), whole.name[:20]
        half = table.num_rows // 2
        if layout == "parts":
            for part, rows in ((1, table[:half]), (2, table[half:])):
                pq.write_table(rows, log / f"{version}.checkpoint.{part:010}.{2:010}.parquet")
            hint = {"version": int(version), "size": table.num_rows, "parts": 2}
            (log / "_last_checkpoint").write_text(json.dumps(hint))
        else:
            pq.write_table(table, log / f"{version}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet")
            (log / "_last_checkpoint").unlink()
        whole.unlink()

    @property
    def ledger(self) -> Any:
        return self.publisher.ledger

    @property
    def version(self) -> int:
        return DeltaTable(str(self.root)).version()


def files_of(root: Path) -> set[str]:
    """Return the names of all files below a folder, except the note of the newest version: each commit replaces it."""
    names = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    return {name for name in names if f"{VERSION_NOTES_FOLDER}/" not in name}


def age(folder: Path, days: float = 2) -> None:
    """Make files look as if nobody had touched them for days."""
    old = (dt.datetime.now(dt.UTC) - dt.timedelta(days=days)).timestamp()
    for path in folder.rglob("*"):
        os.utime(path, (old, old))
