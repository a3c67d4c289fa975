"""Stages and publishes days for the sink suite, without Spark."""

from __future__ import annotations

import datetime as dt
import itertools
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from airflow_provider_connect.capabilities.publisher import Confirms, KeepsNotes, StagesByExecutors, Sweeps
from airflow_provider_connect.errors import ConnectError, refuse_text
from airflow_provider_connect.publishing import seen_publish
from airflow_provider_connect.registry import stages_marks
from airflow_provider_connect.sink import Connections, Intent, LedgerRow, Publish, Publisher, Sink, StreamKey
from airflow_provider_connect.stage.manifest import Manifest, PollResult, StagedFile, manifest_file, rejects_file
from airflow_provider_connect.stage.manifest import progress_file as sign_of_life
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.stage.rejects import Reject, write_rejects
from airflow_provider_connect.stage.spans import next_span
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.tables import StagedPart, TableTemplate, open_row_writer
from airflow_provider_connect.window import ONE_DAY, Day, SourceKind

KEY = StreamKey(connector="conformance", stream="events")
OTHER_KEY = StreamKey(connector="conformance", stream="others")
SCHEMA = pa.schema(
    [
        pa.field("event", pa.string(), nullable=False, metadata={"comment": "what happened"}),
        pa.field("time", pa.timestamp("us", "UTC")),
        pa.field("amount", pa.float64()),
    ]
)
"""Columns that the suite publishes. ``event`` identifies a row."""

MONDAY = dt.date(2026, 10, 5)
TUESDAY, WEDNESDAY = MONDAY + ONE_DAY, MONDAY + 2 * ONE_DAY
DAYS = (Day(date=MONDAY),)
NOON = dt.datetime(2026, 10, 7, 12, tzinfo=dt.UTC)

T = TypeVar("T")

Row = tuple[dt.date, str]
"""Day and ``event`` of a row that a reader sees."""


@dataclass
class Target:
    """A sink with its target, for one test.

    :param rows: reads the target as users do, not through the sink. Returns day and ``event`` of every visible row, in
        any order.
    :param connections: by the ids in the sink's options.
    :param age: makes all objects in the target look days old. Required if the sink's sweep selects by age.
    """

    sink: Sink
    rows: Callable[[], Sequence[Row]]
    connections: Connections = field(default_factory=dict)
    age: Callable[[], None] = field(default=lambda: None)


def intent(number: int, clear_number: int = 0) -> Intent:
    """Return the intent of run ``number``."""
    return Intent(token=f"{number:016x}{clear_number:016x}", run=f"dag/run-{number}/task", clear_number=clear_number)


def number_of(intent_or_row: Intent | LedgerRow) -> int:
    """Return the run number that made the intent."""
    return int(intent_or_row.token[:16], 16)


@dataclass
class Bench:
    """Target under test, the driver's publisher, and the stage's folder."""

    target: Target
    publisher: Publisher
    root: Path

    def stage(
        self,
        date: dt.date,
        rows: list[str],
        number: int,
        attempt: str = "1",
        *,
        clear_number: int = 0,
        rejected: int = 0,
        polled_at: dt.datetime = NOON,
        kind: SourceKind = "day",
        files: int = 1,
        answer: str | None = None,
        counts: Mapping[str, int] | None = None,
        definition: str | None = None,
        to: str = "",
    ) -> Publish:
        """Read the ledger, stage a day, and return its publish, like driver and executors.

        :param number: run number, see :func:`intent`.
        :param files: number of polled partitions.
        :param answer: digest of the source's answer, as the driver computes it.
        :param counts: counts of the poll besides rows and rejects.
        :param definition: digest of the day's definition.
        :param to: end position of an increment.
        """
        refuse_text("rows", rows)
        day, name = Day(date=date), f"{number:016x}-{attempt}-{date:%Y%m%d}"
        if kind == "increment":
            newest = self.ledger.newest_increment(date, intent(number).run)
        else:
            newest = self.ledger.newest(date, kind)
        seen = seen_publish(newest, self.ledger.erased().version)
        in_force = None if definition is None else self.ledger.definition_in_force()
        folder = Folder(str(self.root))
        folder.write(sign_of_life(name, 0), b"{}")
        tables = self.target.sink.tables
        soft_deletes = stages_marks(self.target.sink, kind)
        staged = [
            _write(folder, tables, StagedPart(day, name, part, "0"), rows[part::files], soft_deletes=soft_deletes)
            for part in range(files)
        ]
        rejects = write_rejects(
            folder, rejects_file(name, 0, "0"), [Reject(index, "no JSON", b"zzz") for index in range(rejected)]
        )
        polled = PollResult(
            files=tuple(itertools.chain(*staged)),
            rejects=(rejects,) if rejects else (),
            rows_read=len(rows) + rejected,
            rows_written=len(rows),
            counts={"rejected": rejected, **(counts or {})},
            digest=f"{number:032x}",
        )
        manifest = Manifest(day=day, attempt=name, fingerprint="f", polled=polled, seen=seen, polled_at=polled_at)
        if kind == "increment":
            span = next_span(newest, date, intent(number).run, lambda *_: to)
            manifest = manifest.model_copy(update={"span": span})
        folder.write(manifest_file(name), manifest.model_dump_json().encode())
        return Publish(
            key=KEY,
            day=day,
            intent=intent(number, clear_number),
            manifest=manifest,
            schema=SCHEMA,
            stage=str(self.root),
            kind=kind,
            labels={"dag_id": "dag"},
            answer=answer,
            definition=definition,
            definition_seen=None if in_force is None else in_force.digest,
        )

    @contextmanager
    def another_process(self, key: StreamKey = KEY) -> Iterator[Publisher]:
        """Open a publisher without shared state, like a new driver."""
        sink = type(self.target.sink).from_options(self.target.sink.serialize())
        with sink.open(key, pickle.loads(pickle.dumps(self.target.connections))) as publisher:
            yield publisher

    def send(self, staged: Publish, publisher: Publisher | None = None, copies: int = 1) -> tuple[Any, list[Any]]:
        """Do the steps of a publish before its commit. Returns the token and one receipt per share.

        :param copies: puts per share. The last receipt is returned.
        """
        publisher = publisher or self.publisher
        token = self.begin(staged, publisher)
        return token, [[self.put(token, share) for _ in range(copies)][-1] for share in self.shares(staged, publisher)]

    def begin(self, staged: Publish, publisher: Publisher | None = None) -> Any:
        """Begin a publish. Returns the executors' token, if any."""
        publisher = publisher or self.publisher
        return as_sent(publisher.begin(staged)) if isinstance(publisher, StagesByExecutors) else None

    def abort(self, staged: Publish, token: Any, publisher: Publisher | None = None) -> None:
        """Abort a publish, if the sink can."""
        publisher = publisher or self.publisher
        if isinstance(publisher, StagesByExecutors):
            publisher.abort(staged, token)

    def confirm(self, staged: Publish, publisher: Publisher | None = None) -> LedgerRow:
        """Confirm a publish."""
        publisher = publisher or self.publisher
        assert isinstance(publisher, Confirms)
        return publisher.confirm(staged)

    def note(self, note: LedgerNote, publisher: Publisher | None = None) -> None:
        """Store a note in the ledger."""
        publisher = publisher or self.publisher
        assert isinstance(publisher, KeepsNotes)
        publisher.note(note)

    def sweep(self) -> int:
        """Sweep like another job's last step. Returns the number."""
        with self.another_process() as other_publisher:
            return other_publisher.sweep() if isinstance(other_publisher, Sweeps) else 0

    def shares(self, staged: Publish, publisher: Publisher | None = None) -> list[tuple[StagedFile, ...]]:
        """Divide a day's staged files into shares, one per task."""
        publisher = publisher or self.publisher
        return publisher.shares(staged.manifest.polled.files) if isinstance(publisher, StagesByExecutors) else []

    def put(self, token: Any, share: tuple[StagedFile, ...]) -> Any:
        """Put a share like an executor, through a new publisher."""
        with self.another_process() as executor:
            assert isinstance(executor, StagesByExecutors)
            return as_sent(executor.put(token, str(self.root), share))

    def publish(self, staged: Publish, publisher: Publisher | None = None) -> LedgerRow:
        """Do all steps of driver and executors. Aborts after an error."""
        publisher = publisher or self.publisher
        token = self.begin(staged, publisher)
        try:
            receipts = [self.put(token, share) for share in self.shares(staged, publisher)]
            return publisher.commit(staged, token, receipts)
        except BaseException:
            self.abort(staged, token, publisher)
            raise

    @property
    def ledger(self) -> Any:
        """Ledger of the driver's publisher."""
        return self.publisher.ledger

    def state(self) -> tuple[Any, ...]:
        """Return all ledger rows and visible rows."""
        with self.another_process() as other_publisher:
            ledger = other_publisher.ledger
            return (*(ledger.row(date) for date in ledger.days()), self.readable())

    def readable(self) -> list[Row]:
        """Return the visible rows, sorted."""
        return sorted(self.target.rows())

    def staged(self) -> dict[str, bytes]:
        """Return the bytes of every staged file, by path."""
        return {str(path): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}


def as_sent(value: Any) -> Any:
    """Return a pickled copy, as another process receives it."""
    return pickle.loads(pickle.dumps(value))


def outcome(call: Callable[[], T]) -> T | ConnectError:
    """Return the result of a call, or its ConnectError."""
    try:
        return call()
    except ConnectError as error:
        return error


@contextmanager
def restless_threads() -> Iterator[None]:
    """Switch threads every 10 µs inside the block, to provoke races."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def _write(
    folder: Folder, tables: TableTemplate | None, share: StagedPart, rows: list[str], *, soft_deletes: bool
) -> tuple[StagedFile, ...]:
    with open_row_writer(folder, SCHEMA, tables, share, soft_deletes=soft_deletes) as writer:
        if rows:
            noon = dt.datetime.combine(share.day.date, dt.time(12), tzinfo=dt.UTC)
            columns: list[Any] = [rows, [noon] * len(rows), [float(i) for i in range(len(rows))]]
            arrays = [pa.array(column, type=field.type) for column, field in zip(columns, SCHEMA, strict=True)]
            writer.write(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    return writer.files
