"""Several days of one export, from the ledger's first word to their rows in it: each day is a day like any other."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.job import Allowance, DayReport
from airflow_provider_connect.polling.quota.limits import Quota
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.registry import requests_for
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._mixpanel import request_planning as span_module
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.spark import poll
from airflow_provider_connect.spark.capabilities.allowance import RequestBudget
from airflow_provider_connect.spark.capabilities.grouping import DayGrouping
from airflow_provider_connect.spark.context import Intake
from airflow_provider_connect.spark.days.parallel import run_all_days
from airflow_provider_connect.spark.days.runner import DayRunner
from airflow_provider_connect.spark.poll import share_bytes
from airflow_provider_connect.window import Day, days_between
from tests.equipment.mixpanel import connection
from tests.equipment.spark.lab import Lab, poll_parts_of, polling, rewired
from tests.standins.mixpanel.access import Limits
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.server import StandIn

WEEK = tuple(days_between(dt.date(2026, 3, 2), dt.date(2026, 3, 8), "UTC"))
MONDAY, TUESDAY, WEDNESDAY = WEEK[:3]
PROJECT = Project(events_per_day=30, duplicates_per_day=4, empty_dates=frozenset({WEEK[4].date}))


@pytest.fixture
def standin() -> Iterator[StandIn]:
    with StandIn(PROJECT) as server:
        yield server


def days_of(
    lab: Lab, server: StandIn, dealer: RequestBudget | None = None, together: Any = 3, **options: Any
) -> DayRunner:
    """Return a job that reads the stand-in, in place of the tiny source."""
    days = lab.days(**options)
    source = MixpanelSource(conn_id="m", retry_budget_seconds=0, days_per_request=together)
    job_ = days.job.model_copy(update={"source_name": "mixpanel", "source": source.serialize()})
    poller = source.open(connection(server), PollContext())
    run = functools.partial(poll.run_poll_tasks, schema=poller.schema(), connection=connection(server))
    intake = Intake(source, connection(server), poller, poller.schema())
    outlet = dataclasses.replace(days.context.outlet, published_schema=intake.staged_schema)
    context = dataclasses.replace(days.context, job=job_, intake=intake, outlet=outlet)
    return rewired(
        days, context=context, dealer=dealer or RequestBudget(), poll_partitions=lambda tasks: list(run(tasks))
    )


def move(days: DayRunner, width: int = 1) -> list[DayReport]:
    return run_all_days(
        days, DayGrouping(days.context.intake.poller, days.job.all_days, days.context.outlet.publisher.ledger), width
    )


def asked(server: StandIn) -> dict[str, int]:
    return {dates: sum(by_status.values()) for dates, by_status in server.stats["requests"].items()}


def statuses(reports: Sequence[DayReport]) -> list[str]:
    return [report.status for report in reports]


def test_each_day_of_a_request_has_rows_digest_counts_and_a_generation_of_its_own(lab: Lab, standin: StandIn) -> None:
    together = move(days_of(lab, standin, window=WEEK))
    assert asked(standin) == {"2026-03-02..2026-03-04": 1, "2026-03-05..2026-03-07": 1, "2026-03-08": 1}
    assert statuses(together) == ["published"] * 7
    assert {report.generation for report in together} == {1}
    for report in together:
        truth = PROJECT.truth(report.day)
        assert (report.rows_read, report.rows_written, report.duplicates) == (truth.lines, truth.rows, truth.duplicates)
        assert lab.manifest(day=Day(date=report.day)).exists()
    assert (together[4].raw_bytes, together[4].digest) == (0, f"{0:032x}")
    apart = move(days_of(lab, standin, together=1, window=WEEK, token="bbbb"))
    assert [report.digest for report in together] == [report.digest for report in apart]
    raw = [sum(report.raw_bytes for report in reports) for reports in (together, apart)]
    assert raw[0] == raw[1] > 0


def test_a_cut_answer_publishes_nothing_of_any_of_its_days(lab: Lab, standin: StandIn) -> None:
    standin.faults.replace([Fault("terminated_early", at=0.95, date=WEDNESDAY.date)])
    reports = move(days_of(lab, standin, window=WEEK))
    assert statuses(reports) == [*["failed"] * 3, *["published"] * 4]
    assert {report.failure and report.failure.type for report in reports[:3]} == {"RetriableError"}
    for day in WEEK[:3]:
        assert not list(lab.stage.glob(f"day={day}/*"))
        assert lab.ledger.row(day.date) is None
    again = move(days_of(lab, standin, window=WEEK, attempt="2"))
    assert statuses(again) == [*["published"] * 3, *["already_published"] * 4]
    assert asked(standin)["2026-03-02..2026-03-04"] == 2


def test_a_day_that_loses_is_asked_for_alone(lab: Lab, standin: StandIn) -> None:
    days = days_of(lab, standin, window=WEEK[:3])
    others = ["bbbb"]

    def poll_parts(tasks: list[str]) -> list[str]:
        answers = poll_parts_of(days)(tasks)
        for token in others:
            row = LedgerRow(day=TUESDAY.date, generation=1, token=token, run="d/other/t", rows=7)
            lab.ledger.path.write_text(row.model_dump_json() + "\n")
        others.clear()
        return answers

    reports = move(polling(days, poll_parts))
    assert [(report.status, report.generation) for report in reports] == [
        ("published", 1),
        ("published", 2),
        ("published", 1),
    ]
    assert asked(standin) == {"2026-03-02..2026-03-04": 1, "2026-03-03": 1}
    assert reports[1].rows_written == 30


def test_the_seen_generations_of_all_days_are_read_before_the_request(lab: Lab, standin: StandIn) -> None:
    days = days_of(lab, standin, window=WEEK[:3])
    order: list[str] = []
    ledger = days.context.outlet.publisher.ledger

    class Told:
        def __getattr__(self, name: str) -> Any:
            return getattr(ledger, name)

        def newest(self, day: dt.date, kind: Any) -> Any:
            order.append(f"newest {day}")
            return ledger.newest(day, kind)

    def poll_parts(tasks: list[str]) -> list[str]:
        order.append("poll")
        return poll_parts_of(days)(tasks)

    publisher: Any = SimpleNamespace(ledger=Told(), **_methods(days.context.outlet.publisher))
    outlet = dataclasses.replace(days.context.outlet, publisher=publisher)
    move(rewired(days, context=dataclasses.replace(days.context, outlet=outlet), poll_partitions=poll_parts))
    assert order == [*(f"newest {day}" for day in WEEK[:3]), "poll"]


def _methods(publisher: Any) -> dict[str, Any]:
    return {name: getattr(publisher, name) for name in ("begin", "shares", "commit", "abort")}


def test_days_that_are_published_already_are_not_asked_for_again(lab: Lab, standin: StandIn) -> None:
    move(days_of(lab, standin, window=(TUESDAY,)))
    reports = move(days_of(lab, standin, window=WEEK[:4], together=4, attempt="2"))
    assert statuses(reports) == ["published", "already_published", "published", "published"]
    assert asked(standin) == {"2026-03-03": 1, "2026-03-02": 1, "2026-03-04..2026-03-05": 1}


def test_days_of_the_lookback_are_requests_of_their_own(lab: Lab, standin: StandIn) -> None:
    window, lookback = WEEK[3:5], WEEK[1:3]
    reports = move(days_of(lab, standin, window=window, lookback=lookback, together=4))
    assert asked(standin) == {"2026-03-05..2026-03-06": 1, "2026-03-03..2026-03-04": 1}
    assert [report.lookback for report in reports] == [False, False, True, True]


def test_a_request_of_several_days_is_one_of_the_jobs_requests(lab: Lab, standin: StandIn) -> None:
    dealer = RequestBudget(Allowance(requests=2, until=time.time() + 60))
    days = days_of(lab, standin, dealer, window=WEEK)
    dealer.expect(requests_for(days.context.intake.source, WEEK), max_requests_each=1)
    reports = move(days)
    assert statuses(reports) == [*["published"] * 6, "not_started"]
    assert len(dealer.report_fields()["sent"]) == 2
    assert dealer.report_fields()["lost"] == 0


@pytest.fixture
def three_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a week be more than an hour has room for."""
    monkeypatch.setattr(span_module, "VENDOR_LIMITS", {"export": Quota("export", requests=3)})


@pytest.mark.usefixtures("three_an_hour")
def test_what_auto_groups_costs_one_request_each(lab: Lab, standin: StandIn) -> None:
    dealer = RequestBudget(Allowance(requests=3, until=time.time() + 60))
    days = days_of(lab, standin, dealer, together="auto", window=WEEK)
    dealer.expect(requests_for(days.context.intake.source, WEEK), max_requests_each=1)
    assert statuses(move(days)) == ["published"] * 7
    assert asked(standin) == {"2026-03-02": 1, "2026-03-03..2026-03-05": 1, "2026-03-06..2026-03-08": 1}


@pytest.mark.usefixtures("three_an_hour")
def test_a_retry_may_group_days_otherwise(lab: Lab, standin: StandIn) -> None:
    standin.faults.replace([Fault("cut_gzip", date=TUESDAY.date)])
    first = move(days_of(lab, standin, together="auto", window=WEEK))
    assert statuses(first) == ["published", *["failed"] * 3, *["published"] * 3]
    again = move(days_of(lab, standin, together="auto", window=WEEK, attempt="2"))
    assert statuses(again) == ["already_published", *["published"] * 3, *["already_published"] * 3]
    assert [report.rows_written for report in again] == [30, 30, 30, 30, 0, 30, 30]
    assert asked(standin) == {
        "2026-03-02": 1,
        "2026-03-03..2026-03-05": 1,  # cut
        "2026-03-06..2026-03-08": 1,
        "2026-03-03..2026-03-04": 1,  # the ledger knows the first day's size now, so groups begin with it
        "2026-03-05": 1,
    }


def test_days_that_were_staged_together_are_kept_apart(lab: Lab, standin: StandIn) -> None:
    assert set(statuses(move(days_of(lab, standin, window=WEEK[:3], sink=["commit:RetriableError"])))) == {"failed"}
    again = move(days_of(lab, standin, window=WEEK[1:3], attempt="2"))
    assert statuses(again) == ["published"] * 2
    assert sum(asked(standin).values()) == 1


# Quota


class Year:
    """Stands where ``Days`` stands: polls each group under the job's allowance, and stages nothing."""

    def __init__(self, server: StandIn, requests: int) -> None:
        self.source = MixpanelSource(days_per_request="auto")
        self.poller = self.source.open(connection(server), PollContext())
        days = tuple(days_between(dt.date(2025, 1, 1), dt.date(2025, 12, 31), "UTC"))
        self.job = SimpleNamespace(all_days=days, lookback=())
        self.dealer = RequestBudget(Allowance(requests=requests, until=time.time() + 60))
        self.dealer.expect(requests_for(self.source, days), max_requests_each=1)

    def run(self, group: Sequence[Day]) -> list[DayReport]:
        parts = self.poller.plan(group)
        with self.dealer.reserve(parts, requests_for(self.source, group[:1])) as hand:
            tallies = [Tally(part.days) for part in parts]
            for part, tally in zip(parts, tallies, strict=True):
                rows = sum(batch.num_rows for _, batch in self.poller.poll(part, tally))
                assert rows == 2 * len(part.days)
            hand.outcomes = [poll.PollOutcome(sent=tuple(tally.sent)) for tally in tallies]
        shares = share_bytes(tallies[0].raw_bytes, [tallies[0].for_day(day).rows for day in group])
        return [
            DayReport.for_day(day, "published", raw_bytes=share, rows_written=2)
            for day, share in zip(group, shares, strict=True)
        ]


def test_a_year_of_history_in_one_window_takes_less_than_an_hours_requests() -> None:
    ledger: Any = SimpleNamespace(between=lambda *_: [])
    with StandIn(Project(events_per_day=2), limits=Limits(queries_per_hour=60)) as server:
        year: Any = Year(server, requests=60)
        reports = run_all_days(year, DayGrouping(year.poller, year.job.all_days, ledger), 1)
        assert len(reports) == 365
        assert {(report.status, report.rows_written) for report in reports} == {("published", 2)}
        assert sum(asked(server).values()) == 53
        assert {status for by in server.stats["requests"].values() for status in by} == {"200"}


# What is shared out, and what is bounded


@pytest.mark.parametrize(
    ("total", "rows", "shares"),
    [
        (100, [5], [100]),
        (100, [0], [100]),
        (100, [0, 0], [100, 0]),
        (100, [1, 1, 1], [33, 33, 34]),
        (100, [0, 3, 1], [0, 75, 25]),
        (0, [2, 3], [0, 0]),
        (10**15 + 1, [1, 2], [333333333333333, 666666666666668]),
    ],
)
def test_bytes_of_a_request_are_shared_out_by_rows_and_none_is_lost(
    total: int, rows: list[int], shares: list[int]
) -> None:
    assert share_bytes(total, rows) == shares
    assert sum(shares) == total


def test_what_waits_of_many_days_is_bounded_together(
    lab: Lab, standin: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of many days may come mixed: each day's row group is then written before it is full."""
    limit, most, largest = 20_000, 0, 0
    monkeypatch.setattr(poll, "_PENDING_BYTES", limit)
    bound = poll._bound_memory

    def noted(writers: Any) -> None:
        nonlocal most
        bound(writers)
        most = max(most, sum(writer.pending_bytes for writer in writers))

    monkeypatch.setattr(poll, "_bound_memory", noted)
    schema = pa.schema([pa.field("text", pa.string())])
    batch = pa.record_batch([pa.array(["x" * 3000])], schema=schema)
    largest = batch.nbytes

    class Mixed:
        def poll(self, part: Any, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
            for number in range(70):
                day = part.days[number % 7]
                tally.for_day(day).rows += 1
                yield day, batch

    days = days_of(lab, standin, window=WEEK, together=7)
    part = days.context.intake.poller.plan(WEEK)[0]
    task = poll.PollTask(
        source_name="mixpanel",
        source={},
        part=part,
        root=days.context.outlet.root.url,
        attempts=tuple(f"a-{day.date:%Y%m%d}" for day in WEEK),
        progress_seconds=60,
    )
    made: Any = Mixed()
    found = poll.stage_partition_once(made, days.context.outlet.root, task, schema, tally=Tally(WEEK), retry_notes=[])
    assert [polled.rows_written for polled in found.values()] == [10] * 7
    assert limit - largest < most <= limit
    files = [lab.stage / polled.files[0].path for polled in found.values()]
    assert all(pq.read_metadata(file).num_row_groups > 1 for file in files)
