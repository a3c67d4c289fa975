"""Days of Mixpanel in several exports, and days compared with its count, by the whole driver without Spark."""

from __future__ import annotations

import datetime as dt
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.completeness import Rules
from airflow_provider_connect.job import Allowance, JobConfig, JobReport
from airflow_provider_connect.sink import Intent
from airflow_provider_connect.window import Day
from tests.equipment.clock import NoTime
from tests.equipment.mixpanel import connection
from tests.equipment.spark.here import drive
from tests.standins.mixpanel.access import Account
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.server import StandIn

DAY = Day(date=dt.date(2026, 3, 1))
EVENTS = 400
EXPORTS = str(DAY.date)
ATTEMPTS = itertools.count(1)


@pytest.fixture(scope="module")
def standin() -> Iterator[StandIn]:
    with StandIn(Project(events_per_day=EVENTS, duplicates_per_day=30, missing_ids_per_day=3)) as server:
        yield server


def move(
    standin: StandIn, tmp: Path, *faults: Fault, rules: Rules | None = None, token: str = "a", **options: Any
) -> JobReport:
    standin.faults.replace(faults)
    tmp.mkdir(exist_ok=True)
    fields = {name: options.pop(name) for name in ("allowance", "count_allowance") if name in options}
    job = JobConfig(
        source_name="mixpanel",
        source={"conn_id": "m", "retry_budget_seconds": 0.0} | options,
        sink_name="delta",
        sink={"path": str(tmp / "table")},
        days=(DAY,),
        intent=Intent(token=token * 32, run="d/r/t"),
        attempt=f"{token * 16}-{next(ATTEMPTS):06x}",
        report=str(tmp / "run" / "report.json"),
        rules=rules or Rules(),
        progress_seconds=1,
        **fields,
    )
    return drive(job, {"m": connection(standin)})


def rows(tmp: Path) -> int:
    path = str(tmp / "table")
    return DeltaTable(path).to_pyarrow_table(columns=["day"]).num_rows if DeltaTable.is_deltatable(path) else 0


def exports(standin: StandIn) -> int:
    return sum(standin.stats["requests"].get(EXPORTS, {}).values())


def test_a_split_day_is_the_day(standin: StandIn, tmp_path: Path) -> None:
    (whole,) = move(standin, tmp_path / "whole").days
    before = exports(standin)
    (split,) = move(standin, tmp_path / "split", split_rows=100).days
    assert exports(standin) - before >= 4
    assert (split.status, split.rows_written, split.duplicates) == ("published", EVENTS, 30)
    assert (split.digest, split.counts) == (whole.digest, whole.counts)
    assert rows(tmp_path / "split") == rows(tmp_path / "whole") == EVENTS


@pytest.mark.parametrize("kind", ["cut_chunked", "status", "no_trailer"])
def test_with_one_part_missing_nothing_is_published(standin: StandIn, tmp_path: Path, kind: str) -> None:
    report = move(standin, tmp_path, Fault("none"), Fault(kind, times=None), split_rows=100)
    assert report.failure is not None
    assert (report.days[0].status, report.failure.type) == ("failed", "RetriableError")
    assert rows(tmp_path) == 0
    assert move(standin, tmp_path, split_rows=100).days[0].rows_written == EVENTS == rows(tmp_path)


def test_a_part_that_lies_makes_a_sum_that_disagrees(standin: StandIn, tmp_path: Path) -> None:
    """An answer that ends well, and lacks rows, looks whole: the sum shows it, also without reconcile."""
    report = move(standin, tmp_path, Fault("none"), Fault("empty"), split_rows=100)
    assert report.failure is not None
    assert report.failure.type == "DataError"
    assert f"counts {EVENTS} itself" in report.failure.message
    assert rows(tmp_path) == 0
    before = exports(standin)
    assert move(standin, tmp_path, split_rows=100).days[0].status == "published"
    assert exports(standin) - before >= 4, "no part of that answer is used again"
    assert rows(tmp_path) == EVENTS


def test_a_whole_day_that_lies_is_refused_by_reconcile_alone(standin: StandIn, tmp_path: Path) -> None:
    lies = Fault("empty")
    report = move(standin, tmp_path / "a", lies, rules=Rules(reconcile="fail"))
    assert report.failure is not None
    assert f"answered with 0 rows, and counts {EVENTS} itself: 100 % fewer" in report.failure.message
    (day,) = move(standin, tmp_path / "b", lies, rules=Rules(reconcile="warn")).days
    assert day.status == "published"
    assert sum(f"counts {EVENTS} itself" in warning for warning in day.warnings) == 1
    assert sum("no published day of this stream has a row" in warning for warning in day.warnings) == 1
    (day,) = move(standin, tmp_path / "c", lies).days
    assert day.status == "published"
    assert not any("itself" in warning for warning in day.warnings)
    assert any("no published day of this stream has a row" in warning for warning in day.warnings)


@pytest.mark.parametrize("access", ["no_query_plan"])
def test_a_plan_without_the_query_api_warns_or_fails_and_names_the_gate(access: Any, tmp_path: Path) -> None:
    with StandIn(Project(events_per_day=10), account=Account(access=access)) as server:
        (day,) = move(server, tmp_path, rules=Rules(reconcile="warn")).days
        assert day.status == "published"
        assert "the project's plan does not include the Query API" in day.warnings[0]
        for options in ({"rules": Rules(reconcile="fail")}, {"split_rows": 5}):
            report = move(server, tmp_path, token="b", **options)
            assert report.failure is not None
            assert report.failure.type == "ConfigError"
            assert "402" in report.failure.message


def allowance(requests: int, **more: Any) -> Allowance:
    return Allowance(requests=requests, until=time.time() + 600, **more)


def test_parts_keep_to_what_the_job_may_send(standin: StandIn, tmp_path: Path) -> None:
    report = move(standin, tmp_path, split_rows=100, allowance=allowance(3), count_allowance=allowance(8))
    assert report.failure is not None
    assert (report.days[0].status, report.failure.type) == ("not_started", "QuotaError")
    needs = report.needs[DAY.date]
    assert needs >= 4
    assert (report.sent, len(report.counted)) == ((), 2)
    before = exports(standin)
    report = move(standin, tmp_path, split_rows=100, allowance=allowance(needs), count_allowance=allowance(8))
    assert report.days[0].status == "published"
    assert len(report.sent) == exports(standin) - before == needs


def test_without_requests_for_counts_a_day_that_needs_one_is_not_begun(standin: StandIn, tmp_path: Path) -> None:
    before = standin.stats["requests"]
    report = move(standin, tmp_path, split_rows=100, allowance=allowance(9), count_allowance=allowance(1))
    assert report.failure is not None
    assert report.failure.type == "QuotaError"
    assert (report.sent, report.counted, report.lost) == ((), (), 0)
    assert standin.stats["requests"] == before


def test_parts_are_sent_at_the_vendors_pace(standin: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = NoTime()
    monkeypatch.setattr("airflow_provider_connect.spark.poll.CLOCK", clock)
    allowed = {"allowance": allowance(9, per_second=1, width=4), "count_allowance": allowance(8)}
    report = move(standin, tmp_path, split_rows=100, **allowed)
    later = len(report.sent) - 1
    assert later >= 3
    # Nothing was slept, so each pause is what is left until the second that is the part's own.
    assert [round(pause + 0.3) for pause in clock.pauses] == list(range(1, later + 1))


def test_no_part_begins_after_another_one_has_failed(standin: StandIn, tmp_path: Path) -> None:
    fails = Fault("status", times=None)
    for width, sent in ((1, 1), (4, 4)):
        allowed = {"allowance": allowance(9, width=width), "count_allowance": allowance(8)}
        report = move(standin, tmp_path, fails, split_rows=100, retry_budget_requests=1, **allowed)
        assert report.days[0].status == "failed"
        assert len(report.sent) == sent, f"{width} at once"


@pytest.mark.parametrize(("most", "status"), [(2, "published"), (1, "failed")])
def test_what_may_be_set_aside_is_the_days_and_not_each_parts(
    standin: StandIn, tmp_path: Path, most: int, status: str
) -> None:
    bad = Fault("bad_line", times=2)
    report = move(standin, tmp_path, bad, split_rows=100, errors_tolerance="all", max_rejects=most)
    assert report.days[0].status == status
    if report.failure is not None:
        assert report.failure.type == "DataError"
        assert "2 rejects, more than max_rejects=1" in report.failure.message


def test_a_blank_where_narrows_nothing(standin: StandIn, tmp_path: Path) -> None:
    (split,) = move(standin, tmp_path, split_rows=100, where=" ").days
    assert (split.status, split.rows_written) == ("published", EVENTS)
