"""A day whose export ran into its deadline comes in several, by the whole driver without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.completeness import Rules
from airflow_provider_connect.job import JobReport
from airflow_provider_connect.spark.days.check import DayChecker
from tests.standins.mixpanel.access import Account
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.server import StandIn
from tests.unit.spark.counts.test_large_days import DAY, EVENTS, allowance, exports, move, rows

LATE = Fault("silent", seconds=30)


@pytest.fixture(scope="module")
def standin() -> Iterator[StandIn]:
    with StandIn(Project(events_per_day=EVENTS, duplicates_per_day=30, missing_ids_per_day=3)) as server:
        yield server


def job(standin: StandIn, tmp: Path, *faults: Fault, deadline: float = 0.2, **options: Any) -> JobReport:
    """Run a job; one that is to be late has a deadline that takes no time to pass, under the same options."""

    def hurried(**limits: float) -> HttpTimeouts:
        return HttpTimeouts(**limits | ({"deadline_seconds": deadline} if LATE in faults else {}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_provider_connect.sources._mixpanel.options.HttpTimeouts", hurried)
        return move(standin, tmp, *faults, **options)


def asked(standin: StandIn, tmp: Path, *faults: Fault, **options: Any) -> tuple[JobReport, int]:
    before = exports(standin)
    report = job(standin, tmp, *faults, **options)
    return report, exports(standin) - before


def test_the_next_try_fetches_the_day_in_several_exports(standin: StandIn, tmp_path: Path) -> None:
    (whole,) = move(standin, tmp_path / "whole").days
    late, once = asked(standin, tmp_path, LATE)
    assert late.failure is not None
    assert (late.days[0].status, late.failure.type, once) == ("failed", "DeadlineError", 1)
    assert "request_deadline_seconds=0.2" in late.failure.message
    assert "The next try splits the day into more requests" in late.failure.message
    assert rows(tmp_path) == 0
    report, twice = asked(standin, tmp_path)
    (day,) = report.days
    assert (day.status, day.rows_written, twice) == ("published", EVENTS, 2)
    assert (day.digest, day.counts) == (whole.digest, whole.counts)
    assert rows(tmp_path) == EVENTS


def test_an_export_that_is_silent_before_its_first_byte_comes_in_several(
    standin: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large exports are prepared for minutes before their first byte."""
    with monkeypatch.context() as patch:
        patch.setattr(
            "airflow_provider_connect.sources._mixpanel.options.HttpTimeouts",
            lambda **limits: HttpTimeouts(**limits | {"read_timeout_seconds": 0.2}),
        )
        before = exports(standin)
        late = move(standin, tmp_path, LATE)
        once = exports(standin) - before
    assert late.failure is not None
    assert (late.days[0].status, late.failure.type, once) == ("failed", "DeadlineError", 1)
    assert "The next try splits the day into more requests" in late.failure.message
    report, twice = asked(standin, tmp_path)
    assert (report.days[0].status, report.days[0].rows_written, twice) == ("published", EVENTS, 2)


def test_a_part_that_is_late_again_makes_more_parts(standin: StandIn, tmp_path: Path) -> None:
    sent = [asked(standin, tmp_path, *faults)[1] for faults in ([LATE], [LATE], [Fault("none"), LATE], [])]
    assert sent == [1, 2, 4, 8]
    assert rows(tmp_path) == EVENTS


def test_where_the_budget_allows_it_the_same_job_goes_on(standin: StandIn, tmp_path: Path) -> None:
    report, sent = asked(standin, tmp_path, LATE, deadline=1.0, retry_budget_seconds=60.0)
    assert (report.days[0].status, sent) == ("published", 3)
    once = {"retry_budget_seconds": 60.0, "retry_budget_requests": 1, "token": "b"}
    report, sent = asked(standin, tmp_path, LATE, deadline=1.0, **once)
    assert (report.days[0].status, sent) == ("failed", 1)


def test_another_failure_beside_the_deadline_ends_the_job(standin: StandIn, tmp_path: Path) -> None:
    refused = Fault("status", status=401)
    report, sent = asked(standin, tmp_path, LATE, LATE, refused, deadline=1.0, retry_budget_seconds=60.0)
    assert report.failure is not None
    assert (report.failure.type, sent) == ("ConfigError", 3)


def test_another_run_begins_with_one_export(standin: StandIn, tmp_path: Path) -> None:
    job(standin, tmp_path, LATE)
    assert asked(standin, tmp_path, token="b")[1] == 1


def test_options_that_changed_begin_with_one_export(standin: StandIn, tmp_path: Path) -> None:
    job(standin, tmp_path, LATE)
    assert asked(standin, tmp_path, max_rejects=7)[1] == 1


def test_a_part_that_lies_is_found_though_nobody_asked_for_counts(standin: StandIn, tmp_path: Path) -> None:
    job(standin, tmp_path, LATE)
    report = job(standin, tmp_path, Fault("none"), Fault("empty"))
    assert report.failure is not None
    assert report.failure.type == "DataError"
    assert f"counts {EVENTS} itself" in report.failure.message
    assert rows(tmp_path) == 0


def test_a_part_that_lies_is_found_by_the_next_try_after_a_kill(
    standin: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job(standin, tmp_path, LATE)

    def killed(*_: object, **__: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(DayChecker, "check", killed)
        job(standin, tmp_path, Fault("none"), Fault("empty"))
    report, sent = asked(standin, tmp_path)
    assert report.failure is not None
    assert (report.failure.type, sent) == ("DataError", 0)


def test_a_plan_without_counts_asks_once_more_for_the_whole_day(tmp_path: Path) -> None:
    with StandIn(Project(events_per_day=EVENTS), account=Account(access="no_query_plan")) as server:
        job(server, tmp_path, LATE)
        report, sent = asked(server, tmp_path)
        assert (report.days[0].status, sent) == ("published", 1)


@pytest.mark.parametrize("options", [{"days_per_request": 2}, {"where": 'properties["$os"] == "iOS"'}])
def test_a_day_that_cannot_be_split_is_requested_as_before(
    standin: StandIn, tmp_path: Path, options: dict[str, Any]
) -> None:
    report, sent = asked(standin, tmp_path, LATE, deadline=1.0, retry_budget_seconds=60.0, **options)
    assert (report.days[0].status, sent) == ("published", 2)


def test_nothing_is_counted_that_the_task_has_not_reserved(standin: StandIn, tmp_path: Path) -> None:
    job(standin, tmp_path, LATE, allowance=allowance(5))
    before = standin.stats["requests"]
    report = job(standin, tmp_path, allowance=allowance(5))
    assert report.failure is not None
    assert (report.failure.type, report.days[0].status) == ("QuotaError", "not_started")
    assert report.to_count == (DAY.date,)
    assert standin.stats["requests"] == before
    report = job(standin, tmp_path, allowance=allowance(5), count_allowance=allowance(8))
    assert (report.days[0].status, len(report.sent), len(report.counted)) == ("published", 2, 2)


def test_parts_that_the_job_may_not_send_are_asked_for_by_the_next_one(standin: StandIn, tmp_path: Path) -> None:
    job(standin, tmp_path, LATE, allowance=allowance(1))
    report = job(standin, tmp_path, allowance=allowance(1), count_allowance=allowance(8))
    assert (report.days[0].status, report.needs, report.sent) == ("not_started", {DAY.date: 2}, ())
    report = job(standin, tmp_path, allowance=allowance(2), count_allowance=allowance(8))
    assert report.days[0].status == "published"


def test_with_a_warning_asked_for_a_split_day_is_published_with_one(standin: StandIn, tmp_path: Path) -> None:
    job(standin, tmp_path, LATE, rules=Rules(reconcile="warn"))
    (day,) = job(standin, tmp_path, Fault("none"), Fault("empty"), rules=Rules(reconcile="warn")).days
    assert (day.status, len(day.warnings)) == ("published", 1)
