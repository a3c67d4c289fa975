"""The tables of one template on this disk, days staged for them, and processes that die, or are held, at any step."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.publishing import seen_publish
from airflow_provider_connect.sink import Intent, LedgerRow, Publish, Publisher
from airflow_provider_connect.sinks._delta.tables import commit as tables_commit
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.stage import storage
from airflow_provider_connect.stage.manifest import Manifest, PollResult, manifest_file, progress_file
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.tables import HEAD_FOLDER, StagedPart, open_row_writer
from airflow_provider_connect.window import Day
from tests.equipment.delta.lab import KEY, MAY

SCHEMA = pa.schema([pa.field("event", pa.string()), pa.field("answer", pa.string())])

Answer = Mapping[str | None, list[str]]
"""What a poll brought: texts of the column ``answer``, by event."""


class TablesLab:
    """A lake with a table for each event; its head is there, as preflight makes it before anything is staged."""

    def __init__(self, root: Path, template: str = "{event}", **options: Any) -> None:
        self.root = root
        self.sink = DeltaSink(path=f"{root}/{template}", **options)
        assert self.sink.tables is not None
        self.tables = self.sink.tables

    @property
    def publisher(self) -> Publisher:
        return self.sink.open(KEY, {})

    @property
    def ledger(self) -> Any:
        return self.publisher.ledger

    def preflight(self, schema: pa.Schema = SCHEMA, kind: Any = "day") -> list[str]:
        return self.publisher.preflight(schema, (), kind)

    def make(self) -> TablesLab:
        assert self.preflight() == []
        return self

    def stage(
        self, answer: Answer, token: str, date: dt.date = MAY, *, schema: pa.Schema = SCHEMA, attempt: str = ""
    ) -> Publish:
        """Look into the ledger, and stage a day."""
        day, attempt = Day(date=date), attempt or f"{token}-{date}"
        folder = Folder(str(self.root))
        seen = seen_publish(self.ledger.newest(date, "day"), self.ledger.erased().version)
        folder.write(progress_file(attempt, 0), b"{}")
        rows = [(event, text) for event, texts in answer.items() for text in texts]
        with open_row_writer(folder, schema, self.tables, StagedPart(day, attempt, 0, "0")) as writer:
            columns = {"event": [row[0] for row in rows], "answer": [row[1] for row in rows]}
            arrays = [pa.array(columns.get(f.name, [None] * len(rows)), f.type) for f in schema]
            writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
        polled = PollResult(files=writer.files, rows_read=len(rows), rows_written=len(rows))
        manifest = Manifest(day=day, attempt=attempt, fingerprint="f", polled=polled, seen=seen)
        folder.write(manifest_file(attempt), manifest.model_dump_json().encode())
        return self.publish_of(manifest, token, schema)

    def publish_of(self, manifest: Manifest, token: str, schema: pa.Schema = SCHEMA) -> Publish:
        """Return the publish of a staged day."""
        intent = Intent(token=token, run=f"dag/run-{token}/task")
        return Publish(
            key=KEY, day=manifest.day, intent=intent, manifest=manifest, schema=schema, stage=str(self.root), labels={}
        )

    def commit(self, publish: Publish) -> LedgerRow:
        return self.publisher.commit(publish, None, [])

    def publish(self, answer: Answer, token: str = "t1", date: dt.date = MAY, **more: Any) -> LedgerRow:
        return self.commit(self.stage(answer, token, date, **more))

    def names(self) -> list[str]:
        return sorted(log.parent.name for log in self.root.glob("[!_]*/_delta_log"))

    def shown(self, date: dt.date = MAY) -> dict[str, list[str]]:
        """Read a day as any reader of Delta would: what each table has of it, by the table's name."""
        found = {}
        for name in self.names():
            actions = pa.table(DeltaTable(str(self.root / name)).get_add_actions(flatten=True)).to_pylist()
            files = [self.root / name / a["path"] for a in actions if a["partition.day"] == date]
            texts = [text for file in files for text in pq.ParquetFile(file).read(["answer"])["answer"].to_pylist()]
            if texts:
                found[name] = sorted(texts)
        return found

    def expected(self, answer: Answer) -> dict[str, list[str]]:
        return {self.tables.folder_name(event): sorted(texts) for event, texts in answer.items() if texts}


class KilledError(BaseException):
    """The process is dead: nothing catches this."""


@dataclass
class _Run:
    """One process under way, and what happens at one of its steps."""

    at: float | str
    act: Callable[[], Any]
    count: int = 0
    named: Counter[str] = field(default_factory=Counter)
    has_acted: bool = False


class Steps:
    """Counts what a publish changes on the disk, and does something at one of these steps.

    A step is known by its number (5 is before, 5.5 right after it), or by its name and which of these it is:
    ``head 1`` is before the first commit to the head, ``table 2`` before the second to a table.
    """

    HEAD, TABLE, OTHER = "head", "table", "other"

    def __init__(self) -> None:
        self._run: _Run | None = None
        self.was_killed = False

    def pass_one(self, name: str, change: Callable[[], Any]) -> Any:
        run = self._run
        if run is None:
            return change()
        run.named[name] += 1
        self._act(run, run.count, f"{name} {run.named[name]}")
        result = change()
        self._act(run, run.count + 0.5)
        run.count += 1
        return result

    def _act(self, run: _Run, *here: float | str) -> None:
        if run.at not in here or run.has_acted:
            if run.act == self._die and run.has_acted:
                raise KilledError  # whatever the dead process still tries
            return
        run.has_acted = True
        self._run = None  # what somebody else does at a step is no step of this process
        try:
            run.act()
        finally:
            self._run = run

    @contextmanager
    def at(self, step: float | str, act: Callable[[], Any]) -> Iterator[_Run]:
        """Do something at a step, once; in it another process may have steps of its own."""
        before, self._run = self._run, _Run(step, act)
        try:
            yield self._run
        finally:
            self._run = before

    def _die(self) -> None:
        raise KilledError

    @contextmanager
    def killed_at(self, step: float | str) -> Iterator[None]:
        """Let the process die at a step; whether it came as far shows ``was_killed``."""
        self.was_killed = False
        with self.at(step, self._die):
            try:
                yield
            except KilledError:
                self.was_killed = True


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Make a step of every commit, table and file that is written or deleted, one after the other."""
    found = Steps()

    def counted(owner: Any, name: str, called: Callable[..., str]) -> Callable[..., Any]:
        whole = getattr(owner, name)
        return lambda *args, **kwargs: found.pass_one(called(*args), lambda: whole(*args, **kwargs))

    def committed(table: DeltaTable, *_: Any) -> str:
        return Steps.HEAD if HEAD_FOLDER in table.table_uri else Steps.TABLE

    monkeypatch.setattr(storage, "_flush", lambda path: None)
    monkeypatch.setattr(tables_commit, "_TOGETHER", 1)
    for name in ("write", "delete", "sync"):
        monkeypatch.setattr(Folder, name, counted(Folder, name, lambda *_: Steps.OTHER))
    commit = counted(DeltaTable, "create_write_transaction", committed)
    monkeypatch.setattr(DeltaTable, "create_write_transaction", commit)
    make = counted(DeltaTable, "create", lambda *_: Steps.OTHER)
    monkeypatch.setattr(DeltaTable, "create", staticmethod(make))
    return found
