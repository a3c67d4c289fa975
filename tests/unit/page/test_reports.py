from __future__ import annotations

import datetime as dt
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import DataError, Failure
from airflow_provider_connect.job import DayReport, JobReport
from airflow_provider_connect.page.facts.reports import (
    RunDayReport,
    newest_by_day,
    reports_of_event,
    reports_of_summary,
)

AT = dt.datetime(2026, 11, 20, 8, tzinfo=dt.UTC)
DAY = dt.date(2026, 11, 19)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12) | st.just("2026-11-19"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["day", "days", "rows_written", "failure", "link", "warnings", "rejects"]), inner
        )
    ),
    max_leaves=12,
)


def event(extra: Any, **fields: Any) -> dict[str, Any]:
    return {"source_run_id": "r", "source_map_index": -1, "timestamp": AT.isoformat(), "extra": extra} | fields


def test_the_report_of_a_task_is_read_back() -> None:
    told = DayReport(
        day=DAY,
        status="published",
        generation=2,
        rows_written=10,
        raw_bytes=99,
        rejected=1,
        rejects=("a",),
        link="https://console/x",
        warnings=("few",),
    )
    (found,) = reports_of_event(event(JobReport.from_days("a", [told]).summary(), source_map_index=3))
    assert found == RunDayReport(
        DAY, "published", "r", 3, AT, True, 2, 10, 99, 1, "https://console/x", ("few",), ("a",)
    )


def test_a_warning_of_the_run_stands_with_each_of_its_days() -> None:
    days = [DayReport(day=DAY, status="published", warnings=("few",)), DayReport(day=AT.date(), status="published")]
    found = reports_of_summary(
        JobReport.from_days("a", days, warnings=("where was a, and is b",)).summary(), "r", -1, AT
    )
    assert [report.warnings for report in found] == [("where was a, and is b", "few"), ("where was a, and is b",)]


def test_the_report_of_a_failed_task_is_read_back() -> None:
    failure = Failure.from_error(DataError("cut"))
    report = JobReport.from_days("a", [DayReport(day=DAY, status="failed", failure=failure)])
    (found,) = reports_of_summary(report.summary_of(failure), "r", -1, AT)
    assert (found.is_settled, found.message) == (False, "cut")


def test_an_event_for_each_day_tells_that_it_is_done() -> None:
    (found,) = reports_of_event(event({"rows_written": 30, "rejected": 0}, partition_key=str(DAY)))
    assert (found.day, found.is_settled, found.rows) == (DAY, True, None)


@given(JSON)
def test_whatever_an_event_holds_is_read_without_an_error(extra: Any) -> None:
    for found in reports_of_event(event(extra)):
        assert isinstance(found.day, dt.date)
        assert found.rows is None or isinstance(found.rows, int)


def test_a_link_is_never_a_script() -> None:
    (found,) = reports_of_event(event({"days": [{"day": "2026-11-19", "link": "javascript:alert(1)"}]}))
    assert found.link is None


def report(generation: int | None, status: str = "published", minutes: int = 0) -> RunDayReport:
    return RunDayReport(DAY, status, "r", -1, AT + dt.timedelta(minutes=minutes), generation=generation)


def test_the_newest_generation_counts_whatever_came_later() -> None:
    first, second = report(1, minutes=9), report(2, minutes=1)
    assert newest_by_day([first, second]) == newest_by_day([second, first]) == {DAY: second}


def test_of_one_generation_the_run_that_published_it_counts() -> None:
    published = report(2, minutes=1)
    assert newest_by_day([report(2, "unchanged", 9), published, report(2, "already_published", 5)]) == {DAY: published}


def test_days_that_are_not_done_are_not_there() -> None:
    assert newest_by_day([report(None, "failed"), report(None, "not_started")]) == {}
