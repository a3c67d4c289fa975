"""Increments through the driver: each run reads what came behind the last one, whatever its day."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_connect import registry
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.job import DayReport, JobConfig
from airflow_provider_connect.sink import Intent, LedgerRow, StreamKey
from airflow_provider_connect.sinks._delta import app_transactions, commit
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.spark.transform import entry
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.spark.here import drive
from tests.equipment.spark.transforming import TransformationHere

MONDAY = dt.date(2026, 10, 5)
TUESDAY, WEDNESDAY = MONDAY + ONE_DAY, MONDAY + 2 * ONE_DAY


class Stream:
    """A file that grows, and the table that its lines are loaded into."""

    def __init__(self, root: Path) -> None:
        self.root, self.file, self.path = root, root / "lines", str(root / "table")
        self.file.write_text("")
        self._runs = 0

    def grow(self, *lines: str) -> None:
        with self.file.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def run(self, *dates: dt.date, number: int | None = None, clear_number: int = 0, **source: Any) -> list[DayReport]:
        """Run a job in the window of these days, of a new run, or of run ``number`` again."""
        self._runs += number is None
        number = number or self._runs
        token = f"{clear_number:08x}{number:08x}"
        job = JobConfig(
            source_name="growing",
            source={"file": str(self.file)} | source,
            sink_name="delta",
            sink={"path": self.path},
            days=tuple(Day(date=date) for date in dates),
            intent=Intent(token=token * 2, run=f"dag/run-{number}/task", clear_number=clear_number),
            attempt=f"{token}-1",
            report=str(self.root / f"run-{token}" / "report.json"),
            progress_seconds=1,
        )
        return list(drive(job, {"growing": Connection(conn_id="growing")}).days)

    def rows(self) -> list[tuple[dt.date, str]]:
        found = DeltaTable(self.path).to_pyarrow_table(columns=["day", "line"]).to_pylist()
        return sorted((row["day"], row["line"]) for row in found)

    def row(self, date: dt.date) -> LedgerRow:
        with DeltaSink(path=self.path).open(StreamKey(connector="growing", stream="lines"), {}) as publisher:
            found = publisher.ledger.row(date)
        assert found is not None
        return found


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path)


def test_each_run_reads_what_came_behind_the_last_one_whatever_its_day(stream: Stream) -> None:
    stream.grow("a", "b")
    assert [report.rows_written for report in stream.run(TUESDAY)] == [2]
    stream.grow("c")
    assert [report.rows_written for report in stream.run(MONDAY)] == [1]
    assert [report.rows_written for report in stream.run(WEDNESDAY)] == [0]
    assert stream.rows() == [(MONDAY, "c"), (TUESDAY, "a"), (TUESDAY, "b")]
    spans = [stream.row(date).span for date in (TUESDAY, MONDAY, WEDNESDAY)]
    assert [(span.number, span.after, span.to) for span in spans if span] == [
        (1, None, "2"),
        (2, "2", "3"),
        (3, "3", "3"),
    ]


def test_a_day_that_is_loaded_again_reads_what_it_has_read_before(stream: Stream) -> None:
    stream.grow("a", "b")
    stream.run(MONDAY)
    stream.grow("c")
    stream.run(TUESDAY)
    stream.grow("d")
    (report,) = stream.run(MONDAY, number=1, clear_number=1)
    assert (report.status, report.generation, report.rows_written) == ("published", 2, 2)
    assert [report.rows_written for report in stream.run(WEDNESDAY)] == [1]
    assert [line for _, line in stream.rows()] == ["a", "b", "c", "d"]


def test_each_run_of_a_day_reads_what_came_behind_the_last_one(stream: Stream) -> None:
    stream.grow("a", "b", "c")
    assert [report.rows_written for report in stream.run(MONDAY)] == [3]
    stream.grow("d", "e")
    (report,) = stream.run(MONDAY)
    assert (report.status, report.generation, report.rows_written, report.rows_before) == ("published", 1, 2, None)
    assert stream.rows() == [(MONDAY, line) for line in "abcde"]
    assert [report.rows_written for report in stream.run(MONDAY)] == [0]
    row = stream.row(MONDAY)
    assert row.span is not None
    assert (row.rows, row.span.number) == (5, 3)


def test_a_clear_after_later_runs_of_its_day_reads_its_own_span_and_keeps_theirs(stream: Stream) -> None:
    for line in "abc":
        stream.grow(line)
        stream.run(MONDAY)
    lines = stream.file.read_text()
    stream.file.write_text(lines.replace("a", "A").replace("c", "C"))
    for clear_number in (1, 2):
        (report,) = stream.run(MONDAY, number=1, clear_number=clear_number)
        assert (report.generation, report.rows_written, report.rows_before) == (1 + clear_number, 1, 1)
        assert [line for _, line in stream.rows()] == ["A", "b", "c"]
    (report,) = stream.run(MONDAY, number=3, clear_number=1)
    assert [line for _, line in stream.rows()] == ["A", "C", "b"]
    stream.grow("d")
    stream.run(MONDAY)
    stream.run(TUESDAY)
    assert [line for _, line in stream.rows()] == ["A", "C", "b", "d"]


def test_a_driver_that_died_after_its_commit_is_known_after_later_runs(stream: Stream) -> None:
    stream.grow("a")
    stream.run(MONDAY)
    stream.grow("b")
    stream.run(MONDAY)
    for number, rows in ((1, 1), (2, 1)):
        (report,) = stream.run(MONDAY, number=number)
        assert (report.status, report.rows_written) == ("already_published", rows)
    assert [line for _, line in stream.rows()] == ["a", "b"]


def test_of_two_runs_of_a_day_at_once_the_later_one_reads_on_from_the_other(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    poller = type(
        registry.source_class("growing").from_options({"file": ""}).open(Connection(conn_id="growing"), PollContext())
    )
    planned: Callable[..., Any] = poller.plan
    for line in ("a", "c"):  # the day's first span, and a later one
        stream.grow(line)
        others: list[DayReport] = []

        def plan(*args: Any, others: list[DayReport] = others, line: str = line) -> Any:
            if not others:
                others.append(DayReport.for_day(Day(date=MONDAY), "not_started"))  # its own plans go on
                others.extend(stream.run(MONDAY))
                stream.grow(chr(ord(line) + 1))
            return planned(*args)

        monkeypatch.setattr(poller, "plan", plan)
        (report,) = stream.run(MONDAY)
        assert (report.status, report.rows_written) == ("published", 1)
    assert [line for _, line in stream.rows()] == ["a", "b", "c", "d"]


def test_a_new_column_comes_with_a_later_span_of_a_day(stream: Stream) -> None:
    stream.grow("a")
    stream.run(MONDAY)
    stream.grow("b")
    stream.run(MONDAY, has_numbers=True)
    stream.grow("c")
    stream.run(MONDAY)
    table = DeltaTable(stream.path).to_pyarrow_table(columns=["line", "number"]).to_pylist()
    assert sorted((row["line"], row["number"]) for row in table if row["number"]) == [("b", 2)]
    assert [line for _, line in stream.rows()] == ["a", "b", "c"]


def test_compacted_spans_take_new_ones_and_a_clear_that_cannot_tell_its_rows_is_refused(stream: Stream) -> None:
    for line in "ab":
        stream.grow(line)
        stream.run(MONDAY)
    DeltaTable(stream.path).optimize.compact()
    stream.grow("c")
    assert [report.rows_written for report in stream.run(MONDAY)] == [1]
    (report,) = stream.run(MONDAY, number=1, clear_number=1)
    assert report.failure is not None
    assert "cannot be told from those of the day's other increments" in report.failure.message
    assert [report.rows_written for report in stream.run(MONDAY, number=3, clear_number=1)] == [1]
    assert [line for _, line in stream.rows()] == ["a", "b", "c"]


def test_the_days_of_a_window_come_one_after_the_other(stream: Stream) -> None:
    stream.grow("a", "b")
    reports = stream.run(MONDAY, TUESDAY, WEDNESDAY, parallel_days=4)
    assert [(report.status, report.rows_written) for report in reports] == [("published", rows) for rows in (2, 0, 0)]


def test_of_two_runs_at_once_the_one_that_comes_later_reads_on_from_the_other(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.grow("a")
    poller = type(
        registry.source_class("growing").from_options({"file": ""}).open(Connection(conn_id="growing"), PollContext())
    )
    planned: Callable[..., Any] = poller.plan
    others: list[DayReport] = []

    def plan(*args: Any) -> Any:
        if not others:
            others.append(DayReport.for_day(Day(date=TUESDAY), "not_started"))  # its own plans go on
            others.extend(stream.run(TUESDAY))
            stream.grow("b")
        return planned(*args)

    monkeypatch.setattr(poller, "plan", plan)
    (report,) = stream.run(MONDAY)
    assert (report.status, report.rows_written) == ("published", 1)
    assert stream.rows() == [(MONDAY, "b"), (TUESDAY, "a")]


def test_a_stream_that_was_one_of_days_has_no_position_to_go_on_from(stream: Stream) -> None:
    stream.grow("a")
    stream.run(MONDAY, has_days=True)
    (report,) = stream.run(MONDAY)
    assert report.failure is not None
    assert report.failure.type == "ConfigError"
    assert "was not an increment" in report.failure.message


def test_an_increment_s_position_is_that_of_the_poll_whatever_a_transform_leaves_of_it(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_b(table: Any) -> Any:
        return table.filter([line == "b" for line in table["line"].to_pylist()])

    def begun(job: Any, source: Any, context: Any) -> Any:
        return TransformationHere(source, only_b), 0.5

    monkeypatch.setattr(entry, "start_transformation", begun)
    stream.grow("a", "b")
    (monday,) = stream.run(MONDAY)
    assert (monday.status, monday.counts["rows_polled"], monday.rows_written) == ("published", 2, 1)
    stream.grow("c")
    (tuesday,) = stream.run(TUESDAY)
    assert (tuesday.status, tuesday.counts["rows_polled"], tuesday.rows_written) == ("published", 1, 0)
    stream.grow("b")
    stream.run(WEDNESDAY)
    assert stream.rows() == [(MONDAY, "b"), (WEDNESDAY, "b")]
    spans = [span for day in (MONDAY, TUESDAY, WEDNESDAY) if (span := stream.row(day).span) is not None]
    assert [span.after for span in spans[1:]] == [span.to for span in spans[:-1]]
    assert not [path for path in (Path(stream.path) / "_connect" / "polled").rglob("*") if path.is_file()]


def test_new_runs_of_a_day_of_an_earlier_version_follow_its_span(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version records neither attempts by span, nor the span's run."""

    def of_earlier_version(row: LedgerRow, *args: Any) -> dict[str, int]:
        transactions = app_transactions.publish_transactions(row, *args)
        return {app: version for app, version in transactions.items() if "/file/" not in app}

    stream.grow("a", "b")
    with monkeypatch.context() as patch:
        patch.setattr(commit, "publish_transactions", of_earlier_version)
        stream.run(MONDAY)
        stream.run(MONDAY, number=1, clear_number=1)
    stream.grow("c")
    (report,) = stream.run(MONDAY)
    assert (report.generation, report.rows_written) == (1, 1)
    (report,) = stream.run(MONDAY, number=1, clear_number=2)
    assert (report.generation, report.rows_written) == (3, 2)
    assert [line for _, line in stream.rows()] == ["a", "b", "c"]
