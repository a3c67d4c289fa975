"""What every file in ``sinks/`` must do, whatever it writes to: the behaviour behind the promise table."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import OvertakenError, RetriableError
from airflow_provider_connect.publishing import seen_in
from airflow_provider_connect.sink import Connections, Intent, LedgerRow, Publish, Publisher, Sink, StreamKey
from airflow_provider_connect.stage.manifest import Manifest, Polled, StagedFile, attempt_folder, data_file
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.rejects import rejects_schema
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import ONE_DAY, Day
from tests.conformance.conftest import LOGIN, PASSWORD, SERVED

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
NOON = dt.datetime(2026, 10, 7, 12, tzinfo=dt.UTC)


def intent(number: int, clear_number: int = 0) -> Intent:
    """Return the intent of a run; its number says nothing about when it began."""
    return Intent(token=f"{number:016x}{clear_number:016x}", run=f"dag/run-{number}/task", clear_number=clear_number)


@dataclass
class Bench:
    """A sink under test and the stage it publishes from."""

    sink: Sink
    connections: Connections
    publisher: Publisher
    root: Path
    rows: Callable[[], list[tuple[dt.date, str]]] | None = None

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
    ) -> Publish:
        """Look into the ledger, and freeze a day, just as driver and executors do; return its publish."""
        day, name = Day(date=date), f"{number:016x}-{attempt}-{date:%Y%m%d}"
        seen = seen_in(self.ledger.newest(date, "day"))
        folder = Folder(str(self.root))
        folder.write(f"{attempt_folder(name)}/progress-00000.json", b"{}")
        with RowWriter(folder, data_file(day, name, 0, "0"), SCHEMA) as writer:
            if rows:
                noon = dt.datetime.combine(date, dt.time(12), tzinfo=dt.UTC)
                columns: list[Any] = [rows, [noon] * len(rows), [float(i) for i in range(len(rows))]]
                arrays = [pa.array(column, type=field.type) for column, field in zip(columns, SCHEMA, strict=True)]
                writer.write(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
        files = (writer.file,) if writer.file else ()
        polled = Polled(
            files=files,
            rejects=self._rejects(folder, name, rejected),
            rows_read=len(rows) + rejected,
            rows_written=len(rows),
            counts={"rejected": rejected},
            digest=f"{number:032x}",
        )
        manifest = Manifest(day=day, attempt=name, fingerprint="f", polled=polled, seen=seen, polled_at=polled_at)
        folder.write(f"{attempt_folder(name)}/manifest.json", manifest.model_dump_json().encode())
        return Publish(
            key=KEY,
            day=day,
            intent=intent(number, clear_number),
            manifest=manifest,
            schema=SCHEMA,
            stage=str(self.root),
            labels={"dag_id": "dag"},
        )

    def _rejects(self, folder: Folder, attempt: str, count: int) -> tuple[StagedFile, ...]:
        if not count:
            return ()
        with RowWriter(folder, f"{attempt_folder(attempt)}/rejects-00000.parquet", rejects_schema()) as writer:
            columns: list[Any] = [range(count), ["no JSON"] * count, ["d"] * count, [b"zzz"] * count]
            arrays = [pa.array(c, type=field.type) for c, field in zip(columns, rejects_schema(), strict=True)]
            writer.write(pa.RecordBatch.from_arrays(arrays, schema=rejects_schema()))
        assert writer.file is not None
        return (writer.file,)

    def send(self, staged: Publish, copies: int = 1) -> tuple[Any, list[Any]]:
        """Take the steps before the commit; each share is sent as often as Spark may run its task."""
        token = self.publisher.begin(staged)
        puts = type(self.publisher).put is not Publisher.put
        shares = self.publisher.shares(staged.manifest.polled.files) if puts else []
        return token, [[self._put(token, share) for _ in range(copies)][-1] for share in shares]

    def _put(self, token: Any, share: tuple[StagedFile, ...]) -> Any:
        """Put a share as an executor does: with a publisher of its own."""
        with self.sink.open(KEY, self.connections) as publisher:
            return publisher.put(token, str(self.root), share)

    def publish(self, staged: Publish, copies: int = 1) -> LedgerRow:
        """Take the steps of the driver and the executors."""
        token, receipts = self.send(staged, copies)
        return self.publisher.commit(staged, token, receipts)

    @property
    def ledger(self) -> Any:
        return self.publisher.ledger

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
def bench(sink: Sink, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    connections = {}
    for conn_id in sink.connection_ids:
        connections[conn_id] = Connection(conn_id=conn_id, login=LOGIN, password=PASSWORD)
    rows = None
    if sink.name in SERVED:
        server = request.getfixturevalue(f"{sink.name}_target")
        sink, connections, rows = server.sink, server.connections, server.rows
    assert sink.check(connections) == []
    with sink.open(KEY, connections) as publisher:
        assert publisher.preflight(SCHEMA, DAYS, "day") == []
        root = Path(sink.stage_root(connections) or tmp_path / "stage")
        root.mkdir(parents=True, exist_ok=True)
        yield Bench(sink, connections, publisher, root, rows)


def test_its_names_hold_no_secret(sink: Sink) -> None:
    for text in (sink.target, sink.asset_uri):
        assert text.strip() == text != ""
        assert "@" not in urlsplit(text).netloc
        assert not urlsplit(text).query
    assert urlsplit(sink.asset_uri).scheme


def test_every_option_that_names_a_connection_says_of_which_types_it_may_be(sink: Sink) -> None:
    assert set(sink.connection_types) == {name for name in type(sink).model_fields if name.endswith("conn_id")}
    assert all(sink.connection_types.values())


def test_the_ledger_of_what_does_not_exist_is_empty(sink: Sink, request: pytest.FixtureRequest) -> None:
    connections: Connections = {}
    if sink.name in SERVED:
        server = request.getfixturevalue(f"{sink.name}_target")
        sink, connections = server.sink, server.connections
    with sink.open(KEY, connections) as publisher:
        ledger = publisher.ledger
        assert len(ledger.days()) == 0
        assert ledger.row(MONDAY) is None
        assert ledger.published(MONDAY, intent(1).token) is None


def test_a_frozen_day_is_published_once(bench: Bench) -> None:
    row = bench.publish(bench.stage(MONDAY, ["a", "b"], 1))
    assert (row.day, row.generation, row.token, row.rows) == (MONDAY, 1, intent(1).token, 2)
    assert (row.run, row.clear_number, row.polled_at) == (intent(1).run, 0, NOON)
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
    with bench.sink.open(StreamKey(connector="conformance", stream="others"), bench.connections) as other:
        assert other.ledger.row(MONDAY) is None
        assert len(other.ledger.days()) == 0


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


def test_the_older_answer_of_two_is_refused_and_nothing_changes(bench: Bench) -> None:
    stale = bench.stage(MONDAY, ["old"], 6)
    bench.publish(bench.stage(MONDAY, ["new"], 7))
    before = bench.seen()
    with pytest.raises(OvertakenError, match=r"run-7/task has published generation 1") as caught:
        bench.publish(stale)
    assert (caught.value.by, caught.value.may_poll_again) == (intent(7).token, True)
    assert bench.seen() == before
    assert bench.ledger.published(MONDAY, intent(6).token) is None


def test_the_newer_answer_wins_whoever_started_first(bench: Bench) -> None:
    bench.publish(bench.stage(MONDAY, ["old"], 7))
    row = bench.publish(bench.stage(MONDAY, ["new"], 6))
    assert (row.generation, row.token) == (2, intent(6).token)
    assert bench.readable() in (None, [(MONDAY, "new")])


def test_who_lost_to_a_later_clear_of_its_own_run_is_told_not_to_poll_again(bench: Bench) -> None:
    zombie = bench.stage(MONDAY, ["old"], 6)
    row = bench.publish(bench.stage(MONDAY, ["new"], 6, "2", clear_number=1))
    assert (row.generation, row.clear_number) == (1, 1)
    with pytest.raises(OvertakenError) as caught:
        bench.publish(zombie)
    assert not caught.value.may_poll_again


def test_a_run_made_again_counts_its_clears_from_zero_and_is_not_refused(bench: Bench) -> None:
    bench.publish(bench.stage(MONDAY, ["old"], 6, clear_number=3))
    row = bench.publish(bench.stage(MONDAY, ["new"], 6, "2"))
    assert (row.generation, row.run, row.clear_number) == (2, intent(6).run, 0)


def test_a_retry_after_a_reload_by_hand_finds_what_it_published(bench: Bench) -> None:
    mine = bench.publish(bench.stage(MONDAY, ["a", "b"], 1))
    bench.publish(bench.stage(MONDAY, ["by hand"], 2))
    before = bench.seen()
    found = bench.ledger.published(MONDAY, intent(1).token)
    assert found is not None
    assert (found.generation, found.token) == (1, mine.token)
    again = bench.publish(bench.stage(MONDAY, ["other"], 1, attempt="2"))
    assert (again.generation, again.token) == (1, mine.token)
    assert bench.seen() == before


def test_two_publishers_at_once_leave_one_whole_answer_and_the_other_is_told(bench: Bench) -> None:
    staged = [bench.stage(MONDAY, [f"{number}-{i}" for i in range(20)], number) for number in (6, 7)]
    both_are_here = threading.Barrier(2)

    def publish(one: Publish) -> LedgerRow | RetriableError:
        both_are_here.wait(60)
        try:
            return bench.publish(one)
        except RetriableError as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(publish, staged))
    (row,) = [end for end in ended if isinstance(end, LedgerRow)]
    assert (row.generation, bench.ledger.row(MONDAY)) == (1, row)
    assert bench.readable() in (None, sorted((MONDAY, f"{int(row.token[:16], 16)}-{i}") for i in range(20)))
    loser = next(one for one, end in zip(staged, ended, strict=True) if isinstance(end, RetriableError))
    number = int(loser.intent.token[:16], 16)
    assert bench.publish(bench.stage(MONDAY, ["again"], number, "2")).generation == 2
    assert bench.readable() in (None, [(MONDAY, "again")])


def test_a_share_that_spark_sends_twice_counts_once(bench: Bench) -> None:
    row = bench.publish(bench.stage(MONDAY, ["a", "b"], 1), copies=2)
    assert (row.generation, row.rows) == (1, 2)
    assert bench.readable() in (None, [(MONDAY, "a"), (MONDAY, "b")])


def test_a_commit_whose_answer_was_lost_is_safe_to_repeat(bench: Bench) -> None:
    staged = bench.stage(MONDAY, ["a", "b"], 1)
    token, receipts = bench.send(staged)
    row = bench.publisher.commit(staged, token, receipts)
    before = bench.seen()
    assert bench.publisher.commit(staged, token, receipts) == row
    assert bench.seen() == before


def test_what_the_source_set_aside_is_counted_in_the_ledger(bench: Bench) -> None:
    row = bench.publish(bench.stage(MONDAY, ["a"], 1, rejected=3))
    assert (row.rows, row.counts["rows_read"], row.counts["rejected"]) == (1, 4, 3)
    assert bench.ledger.row(MONDAY).counts["rejected"] == 3
    assert bench.readable() in (None, [(MONDAY, "a")])


def test_a_clock_that_is_set_back_decides_nothing(bench: Bench) -> None:
    bench.publish(bench.stage(MONDAY, ["old"], 1, polled_at=NOON + 400 * ONE_DAY))
    row = bench.publish(bench.stage(MONDAY, ["new"], 2, polled_at=NOON - 400 * ONE_DAY))
    assert row.generation == 2
    assert bench.readable() in (None, [(MONDAY, "new")])


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
    token = bench.publisher.begin(staged)
    bench.publisher.abort(staged, token)
    assert bench.seen() == before
    assert files.items() <= bench.files().items()
    assert bench.publish(staged).generation == 2


def test_an_abort_after_the_commit_takes_nothing_back(bench: Bench) -> None:
    staged = bench.stage(MONDAY, ["a"], 1)
    token = bench.publisher.begin(staged)
    bench.publish(staged)
    before = bench.seen()
    bench.publisher.abort(staged, token)
    assert bench.seen() == before


def test_a_sweep_spares_what_is_published_and_what_is_alive(bench: Bench) -> None:
    bench.publish(bench.stage(MONDAY, ["a"], 1))
    alive = bench.stage(MONDAY, ["b"], 2)
    before, files = bench.seen(), bench.files()
    assert bench.publisher.sweep() == 0
    assert bench.seen() == before
    assert bench.files() == files
    assert bench.publish(alive).rows == 1


def test_problems_are_found_before_the_first_request_and_are_texts(bench: Bench) -> None:
    odd = pa.schema([pa.field("event", pa.duration("us"))])
    problems = bench.publisher.preflight(odd, DAYS, "day")
    assert problems
    assert all(isinstance(text, str) and "event" in text.lower() for text in problems)
    assert not any(LOGIN in text or PASSWORD in text for text in problems)


def test_a_changed_type_fails_with_the_columns_name_and_nothing_changes(bench: Bench) -> None:
    bench.publish(bench.stage(MONDAY, ["a"], 1))
    before = bench.seen()
    changed = SCHEMA.set(2, pa.field("amount", pa.string()))
    problems = bench.publisher.preflight(changed, DAYS, "day")
    assert any("'amount'" in text for text in problems)
    assert bench.seen() == before
