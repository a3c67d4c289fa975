"""Folder of JSON lines: the shortest correct sink, which must pass the suite.

Data files never change once written. A file ``<connector>.<stream>.json`` lists the visible data files of each day and
is the ledger as well. A rename replaces it (https://man7.org/linux/man-pages/man2/rename.2.html).

**Connection.** None.

**Delivery.** Each day once, complete.

**Ledger.** In the same file as the list of visible data files.

**Schema.** Set by the first publish. A changed type fails the day.

**Limits.** One machine.

**Errors.** A file that cannot be read or written is an ``OSError``.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from airflow_provider_connect.capabilities.publisher import Confirms, KeepsNotes, StagesByExecutors
from airflow_provider_connect.ledger import task_of
from airflow_provider_connect.publishing import confirmed_row, ledger_row, next_generation, require_definition
from airflow_provider_connect.sink import DefinitionInForce, Ledger, LedgerRow, Publish, Publisher, Sink
from airflow_provider_connect.stage.definition import digest_of
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.stage.rows import read_batches
from airflow_provider_connect.window import DaySet, SourceKind
from airflow_provider_connect.wire import Wire


class State(Wire):
    """Published state.

    :param rows: ledger rows, oldest first.
    :param shown: visible files, by day.
    :param types: types of the columns.
    :param notes: notes of the stream, oldest first.
    """

    rows: tuple[LedgerRow, ...] = ()
    shown: dict[dt.date, tuple[str, ...]] = Field(default_factory=dict)
    types: dict[str, str] = Field(default_factory=dict)
    notes: tuple[LedgerNote, ...] = ()


class FolderLedger(Ledger):
    def __init__(self, publisher: FolderPublisher) -> None:
        self.publisher = publisher

    def rows(self) -> tuple[LedgerRow, ...]:
        return self.publisher.read().rows

    def row(self, day: Any) -> LedgerRow | None:
        return next((row for row in reversed(self.rows()) if row.day == day), None)

    def newest(self, day: Any, kind: Any) -> LedgerRow | None:
        if kind == "snapshot":
            return max(self.rows(), key=lambda row: (row.day, row.generation), default=None)
        return self.row(day)

    def published(self, day: Any, token: str) -> LedgerRow | None:
        return next((row for row in self.rows() if (row.day, row.token) == (day, token)), None)

    def days(self) -> DaySet:
        return DaySet.from_dates(row.day for row in self.rows())

    def definition_in_force(self) -> DefinitionInForce | None:
        published = (row for row in reversed(self.rows()) if row.definition is not None and not row.checks)
        row = next(published, None)
        return None if row is None else DefinitionInForce(str(row.definition), digest_of(task_of(str(row.run))))

    def notes(self) -> tuple[LedgerNote, ...]:
        return self.publisher.read().notes


class FolderSink(Sink):
    """Options of a folder as a sink."""

    name: ClassVar[str] = "folder"
    path: str = Field(description="The folder, which must exist.")

    @property
    def target(self) -> str:
        return self.path

    @property
    def asset_uri(self) -> str:
        return f"file://{self.path}"

    def replaces_whole(self, kind: SourceKind) -> bool:
        return kind == "snapshot"

    def open(self, key: Any, connections: Any) -> Publisher:
        return FolderPublisher(self.path, key)


class FolderPublisher(Publisher, StagesByExecutors, Confirms, KeepsNotes):
    def __init__(self, path: str, key: Any) -> None:
        self.path = Path(path)
        self.file = self.path / f"{key.connector}.{key.stream}.json"

    @property
    def ledger(self) -> FolderLedger:
        return FolderLedger(self)

    def read(self) -> State:
        return State.model_validate_json(self.file.read_text()) if self.file.exists() else State()

    def write(self, state: State) -> None:
        new_file = self.file.with_suffix(f".{uuid.uuid4().hex}")
        new_file.write_text(state.model_dump_json())
        new_file.replace(self.file)

    @contextmanager
    def alone(self) -> Iterator[None]:
        with (self.path / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def note(self, note: LedgerNote) -> None:
        with self.alone():
            state = self.read()
            if all((stored.kind, stored.id) != (note.kind, note.id) for stored in state.notes):
                self.write(state.model_copy(update={"notes": (*state.notes, note)}))

    def preflight(self, schema: Any, days: Any, kind: Any) -> list[str]:
        published_types = self.read().types
        return [
            f"column '{name}': {kind} is none that JSON has, or not {published_types.get(name)} as before"
            for name, kind in _types(schema).items()
            if kind.startswith("duration") or published_types.get(name, kind) != kind
        ]

    def begin(self, publish: Publish) -> str:
        attempt_folder = self.path / uuid.uuid4().hex
        attempt_folder.mkdir()
        return attempt_folder.name

    def put(self, token: str, stage: str, share: Any) -> list[str]:
        names = []
        for file in share:
            name = f"{token}/{uuid.uuid4().hex}"
            with (self.path / name).open("w") as lines:
                for _, batch in read_batches(stage, file.path, 1 << 20):
                    lines.writelines(json.dumps(row["event"]) + "\n" for row in batch.to_pylist())
            names.append(name)
        return names

    def commit(self, publish: Publish, token: str, receipts: Sequence[list[str]]) -> LedgerRow:
        with self.alone():
            day = publish.day.date
            if (row := self.ledger.published(day, publish.intent.token)) is not None:
                return row
            row = self.row(publish)
            require_definition(publish, self.ledger.definition_in_force())
            self.show(publish, row, receipts)
            return row

    def show(self, publish: Publish, row: LedgerRow, receipts: Sequence[list[str]]) -> None:
        state = self.read()
        other_days = {} if publish.kind == "snapshot" else state.shown
        files_by_day = other_days | {row.day: tuple(name for receipt in receipts for name in receipt)}
        changed = {"rows": (*state.rows, row), "shown": files_by_day, "types": state.types | _types(publish.schema)}
        self.write(state.model_copy(update=changed))

    def confirm(self, publish: Publish) -> LedgerRow:
        with self.alone():
            day = publish.day.date
            if (row := self.ledger.published(day, publish.intent.token)) is not None:
                return row
            row = self.check(publish, self.ledger.row(day))
            state = self.read()
            self.write(state.model_copy(update={"rows": (*state.rows, row)}))
            return row

    def check(self, publish: Publish, newest: LedgerRow | None) -> LedgerRow:
        return confirmed_row(publish, newest)

    def row(self, publish: Publish) -> LedgerRow:
        return ledger_row(publish, next_generation(publish, self.ledger.newest(publish.day.date, publish.kind)))

    def abort(self, publish: Publish, token: str) -> None:
        with self.alone():
            if not any(name.startswith(token) for names in self.read().shown.values() for name in names):
                shutil.rmtree(self.path / token, ignore_errors=True)


def _types(schema: Any) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema}


def read(path: str) -> list[tuple[dt.date, str]]:
    """Return the rows that a reader of the folder sees."""
    return [
        (day, json.loads(line))
        for file in Path(path).glob("*.json")
        for day, names in State.model_validate_json(file.read_text()).shown.items()
        for name in names
        for line in (Path(path) / name).read_text().splitlines()
    ]


def fresh(folder: Path) -> str:
    """Create a folder to publish into."""
    target = folder / "target"
    target.mkdir()
    return str(target)
