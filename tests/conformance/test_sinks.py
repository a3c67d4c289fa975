"""What every file in ``sinks/`` must do, whatever it writes to: the behaviour behind the promise table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import SupersededError
from airflow_provider_connect.sink import Connections, Intent, LedgerRow, Publish, Sink, StreamKey
from airflow_provider_connect.spark.parquet import RowWriter
from airflow_provider_connect.stage import Manifest, Polled, attempt_folder, data_file
from airflow_provider_connect.storage import Folder
from airflow_provider_connect.window import ONE_DAY, Day

from .conftest import LOGIN, PASSWORD, SERVED

KEY = StreamKey(connector="conformance", stream="events")
SCHEMA = pa.schema(
    [
        pa.field("event", pa.string(), nullable=False, metadata={"comment": "what happened"}),
        pa.field("time", pa.timestamp("us", "UTC")),
        pa.field("amount", pa.float64()),
    ]
)
MONDAY = dt.date(2026, 10, 5)
DAYS = (Day(date=MONDAY),)


def intent(order: int) -> Intent:
    return Intent(token=f"{order:032x}", order=order, run=f"dag/run-{order}/task")


@dataclass
class Bench:
    """A sink under test and the stage it publishes from."""

    sink: Sink
    connections: Connections
    root: Path
    rows: Callable[[], list[tuple[dt.date, str]]] | None = None

    def stage(self, date: dt.date, rows: list[str], order: int, attempt: str = "1") -> Publish:
        """Freeze a day just as the executors do, and return its publish."""
        day, name = Day(date=date), f"{order:016x}-{attempt}-{date:%Y%m%d}"
        folder = Folder(str(self.root))
        folder.write(f"{attempt_folder(name)}/progress-00000.json", b"{}")
        with RowWriter(folder, data_file(day, name, 0, "0"), SCHEMA) as writer:
            if rows:
                noon = dt.datetime.combine(date, dt.time(12), tzinfo=dt.UTC)
                columns: list[Any] = [rows, [noon] * len(rows), [float(i) for i in range(len(rows))]]
                arrays = [pa.array(column, type=field.type) for column, field in zip(columns, SCHEMA, strict=True)]
                writer.write(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
        files = (writer.file,) if writer.file else ()
        polled = Polled(files=files, rows_read=len(rows), rows_written=len(rows), digest=f"{order:032x}")
        manifest = Manifest(day=day, attempt=name, fingerprint="f", polled=polled)
        folder.write(f"{attempt_folder(name)}/manifest.json", manifest.model_dump_json().encode())
        return Publish(
            key=KEY, day=day, intent=intent(order), manifest=manifest, stage=str(self.root), labels={"dag_id": "dag"}
        )

    def publish(self, staged: Publish) -> LedgerRow:
        """Take the steps of the driver and the executors."""
        token = self.sink.begin(staged, SCHEMA, self.connections)
        puts = type(self.sink).put is not Sink.put
        shares = self.sink.shares(staged.manifest.polled.files) if puts else []
        receipts = [self.sink.put(token, files, SCHEMA, self.connections) for files in shares]
        return self.sink.commit(staged, SCHEMA, token, receipts, self.connections)

    @property
    def ledger(self) -> Any:
        return self.sink.ledger(KEY, self.connections)

    def seen(self) -> tuple[Any, ...]:
        """Return everything that may not change when nothing is published."""
        rows = [self.ledger.row(date) for date in self.ledger.days()]
        return (*rows, self.readable())

    def readable(self) -> list[tuple[dt.date, str]] | None:
        """Return what a reader of the target finds, where this suite knows how to read it."""
        if self.rows is not None:
            return sorted(self.rows())
        if not (Path(self.sink.target) / "_delta_log").exists():
            return None
        from deltalake import DeltaTable

        table = DeltaTable(self.sink.target).to_pyarrow_table(columns=["day", "event"])
        return sorted((row["day"], row["event"]) for row in table.to_pylist())

    def files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}


@pytest.fixture
def bench(sink: Sink, tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    connections = {}
    for conn_id in sink.connection_ids:
        connections[conn_id] = Connection(conn_id=conn_id, login=LOGIN, password=PASSWORD)
    rows = None
    if sink.name in SERVED:
        server = request.getfixturevalue(f"{sink.name}_target")
        sink, connections, rows = server.sink, server.connections, server.rows
    assert sink.check(connections) == []
    assert sink.preflight(SCHEMA, KEY, DAYS, connections) == []
    root = Path(sink.stage_root(connections) or tmp_path / "stage")
    root.mkdir(parents=True, exist_ok=True)
    return Bench(sink, connections, root, rows)


def test_its_names_hold_no_secret(sink: Sink) -> None:
    for text in (sink.target, sink.asset_uri):
        assert text.strip() == text != ""
        assert "@" not in urlsplit(text).netloc
        assert not urlsplit(text).query
    assert urlsplit(sink.asset_uri).scheme


def test_the_ledger_of_what_does_not_exist_is_empty(sink: Sink, request: pytest.FixtureRequest) -> None:
    connections: Connections = {}
    if sink.name in SERVED:
        server = request.getfixturevalue(f"{sink.name}_target")
        sink, connections = server.sink, server.connections
    ledger = sink.ledger(KEY, connections)
    assert len(ledger.days()) == 0
    assert ledger.row(MONDAY) is None
    assert ledger.published(MONDAY, intent(1).token) is None


def test_a_frozen_day_is_published_once(bench: Bench) -> None:
    row = bench.publish(bench.stage(MONDAY, ["a", "b"], 1))
    assert (row.day, row.generation, row.token, row.order, row.rows) == (MONDAY, 1, intent(1).token, 1, 2)
    assert row.digest == f"{1:032x}"
    assert row.attempt == f"{1:016x}-1-20261005"
    assert bench.ledger.row(MONDAY) == row
    assert bench.ledger.published(MONDAY, intent(1).token) == row
    assert list(bench.ledger.days()) == [MONDAY]
    assert bench.readable() in (None, [(MONDAY, "a"), (MONDAY, "b")])


def test_days_are_apart(bench: Bench) -> None:
    dates = [MONDAY + ONE_DAY * i for i in (3, 0, 1)]
    for date in dates:
        assert bench.publish(bench.stage(date, [f"e{date.day}"], 1)).generation == 1
    assert list(bench.ledger.days()) == sorted(dates)
    assert bench.readable() in (None, [(date, f"e{date.day}") for date in sorted(dates)])


def test_another_stream_has_another_ledger(bench: Bench) -> None:
    bench.publish(bench.stage(MONDAY, ["a"], 1))
    other = bench.sink.ledger(StreamKey(connector="conformance", stream="others"), bench.connections)
    assert other.row(MONDAY) is None
    assert len(other.days()) == 0


def test_the_same_intent_again_changes_nothing(bench: Bench) -> None:
    row = bench.publish(bench.stage(MONDAY, ["a", "b"], 1))
    before = bench.seen()
    assert bench.publish(bench.stage(MONDAY, ["other"], 1, attempt="2")) == row
    assert bench.seen() == before


def test_a_new_intent_replaces_the_day_and_no_other(bench: Bench) -> None:
    tuesday = MONDAY + ONE_DAY
    bench.publish(bench.stage(MONDAY, ["a", "b"], 1))
    untouched = bench.publish(bench.stage(tuesday, ["t"], 1))
    row = bench.publish(bench.stage(MONDAY, ["c"], 2))
    assert (row.generation, row.rows, row.token) == (2, 1, intent(2).token)
    assert bench.ledger.row(MONDAY) == row
    assert bench.ledger.row(tuesday) == untouched
    assert list(bench.ledger.days()) == [MONDAY, tuesday]
    assert bench.readable() in (None, [(MONDAY, "c"), (tuesday, "t")])


def test_an_older_intent_is_refused_and_nothing_changes(bench: Bench) -> None:
    bench.publish(bench.stage(MONDAY, ["new"], 7))
    before = bench.seen()
    stale = bench.stage(MONDAY, ["old"], 6)
    with pytest.raises(SupersededError, match="newer"):
        bench.publish(stale)
    assert bench.seen() == before
    assert bench.ledger.published(MONDAY, intent(6).token) is None


def test_an_empty_day_is_a_done_day(bench: Bench) -> None:
    row = bench.publish(bench.stage(MONDAY, [], 1))
    assert (row.generation, row.rows) == (1, 0)
    assert list(bench.ledger.days()) == [MONDAY]
    assert bench.readable() in (None, [])


def test_a_day_that_became_empty_shows_no_old_rows(bench: Bench) -> None:
    bench.publish(bench.stage(MONDAY, ["a"], 1))
    assert bench.publish(bench.stage(MONDAY, [], 2)).generation == 2
    assert list(bench.ledger.days()) == [MONDAY]
    assert bench.readable() in (None, [])


def test_an_abort_touches_nothing_and_the_day_can_still_be_published(bench: Bench) -> None:
    bench.publish(bench.stage(MONDAY, ["a"], 1))
    staged = bench.stage(MONDAY, ["b"], 2)
    before, files = bench.seen(), bench.files()
    token = bench.sink.begin(staged, SCHEMA, bench.connections)
    bench.sink.abort(staged, token, bench.connections)
    assert bench.seen() == before
    assert files.items() <= bench.files().items()
    assert bench.publish(staged).generation == 2


def test_an_abort_after_the_commit_takes_nothing_back(bench: Bench) -> None:
    staged = bench.stage(MONDAY, ["a"], 1)
    token = bench.sink.begin(staged, SCHEMA, bench.connections)
    bench.publish(staged)
    before = bench.seen()
    bench.sink.abort(staged, token, bench.connections)
    assert bench.seen() == before


def test_a_sweep_spares_what_is_published_and_what_is_alive(bench: Bench) -> None:
    bench.publish(bench.stage(MONDAY, ["a"], 1))
    alive = bench.stage(MONDAY, ["b"], 2)
    before, files = bench.seen(), bench.files()
    assert bench.sink.sweep(KEY, bench.connections) == 0
    assert bench.seen() == before
    assert bench.files() == files
    assert bench.publish(alive).rows == 1


def test_problems_are_found_before_the_first_request_and_are_texts(bench: Bench) -> None:
    odd = pa.schema([pa.field("event", pa.duration("us"))])
    problems = bench.sink.preflight(odd, KEY, DAYS, bench.connections)
    assert problems
    assert all(isinstance(text, str) and "event" in text.lower() for text in problems)
    assert not any(LOGIN in text or PASSWORD in text for text in problems)


def test_a_changed_type_fails_with_the_columns_name_and_nothing_changes(bench: Bench) -> None:
    bench.publish(bench.stage(MONDAY, ["a"], 1))
    before = bench.seen()
    changed = SCHEMA.set(2, pa.field("amount", pa.string()))
    problems = bench.sink.preflight(changed, KEY, DAYS, bench.connections)
    assert any("'amount'" in text for text in problems)
    assert bench.seen() == before
