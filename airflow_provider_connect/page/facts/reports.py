"""Reads the reports that tasks leave in asset events and XCom. Skips invalid parts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from airflow_provider_connect.job import SETTLED


@dataclass(frozen=True, slots=True)
class RunDayReport:
    """One run's report of one day.

    :param is_own_day: False for a lookback day of the run.
    :param rows: published rows. None if unknown or not published.
    :param size_bytes: decoded size of the source's answer.
    :param target: the stream's target, if its task has many streams.
    """

    day: dt.date
    status: str
    run_id: str
    map_index: int
    reported_at: dt.datetime
    is_own_day: bool = True
    generation: int | None = None
    rows: int | None = None
    size_bytes: int | None = None
    rejected: int | None = None
    link: str | None = None
    warnings: tuple[str, ...] = ()
    rejects: tuple[str, ...] = ()
    message: str | None = None
    target: str | None = None

    @property
    def is_settled(self) -> bool:
        """True if the day is settled after this run."""
        return self.status in SETTLED

    @property
    def precedence(self) -> tuple[int, bool, dt.datetime]:
        """Sort key: a newer generation, then the run that published it, then a later time."""
        return self.generation or 0, self.status == "published", self.reported_at


def reports_of_event(event: Mapping[str, Any]) -> list[RunDayReport]:
    """Return the reports of the days in an asset event."""
    run_id, extra = event.get("source_run_id"), event.get("extra")
    at = parse_instant(event.get("timestamp"))
    if run_id is None or at is None or not isinstance(extra, Mapping):
        return []
    index = int(event.get("source_map_index", -1))
    if isinstance(extra.get("days"), list):
        return reports_of_summary(extra, run_id, index, at)
    day = parse_date(event.get("partition_key"))
    # With an event for each day, each event has the sums over all days of its run, not the day's own figures.
    return [] if day is None else [RunDayReport(day, "published", run_id, index, at)]


def reports_of_summary(summary: Mapping[str, Any], run_id: str, map_index: int, at: dt.datetime) -> list[RunDayReport]:
    """Return the reports of the days in a task's short report, from XCom or an event."""
    if isinstance(streams := summary.get("streams"), Mapping):
        return [
            report
            for stream in streams.values()
            if isinstance(stream, Mapping)
            for report in reports_of_summary(stream, run_id, map_index, at)
        ]
    days = summary.get("days")
    reports = (_report_of_day(day, run_id, map_index, at) for day in days) if isinstance(days, list) else ()
    run_warnings, target = _texts(summary.get("warnings")), summary.get("target")
    target = target if isinstance(target, str) else None
    return [
        replace(report, warnings=(*run_warnings, *report.warnings), target=target)
        for report in reports
        if report is not None
    ]


def newest_by_day(
    reports: Iterable[RunDayReport], precedence: Callable[[RunDayReport], Any] = attrgetter("precedence")
) -> dict[dt.date, RunDayReport]:
    """Return the report of each settled day's newest publish."""
    newest: dict[dt.date, RunDayReport] = {}
    for report in reports:
        if report.is_settled and (report.day not in newest or precedence(report) > precedence(newest[report.day])):
            newest[report.day] = report
    return newest


def parse_instant(value: Any) -> dt.datetime | None:
    """Parse an instant in an answer of Airflow's API. None if invalid."""
    try:
        parsed = dt.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=dt.UTC)


def parse_date(value: Any) -> dt.date | None:
    """Parse the date at the start of a text. None if invalid."""
    try:
        return dt.date.fromisoformat(value[:10])
    except (TypeError, ValueError):
        return None


def _report_of_day(day: Any, run_id: str, map_index: int, at: dt.datetime) -> RunDayReport | None:
    date = parse_date(day.get("day")) if isinstance(day, Mapping) else None
    if date is None:
        return None
    failure = day.get("failure")
    return RunDayReport(
        day=date,
        status=str(day.get("status", "")),
        run_id=run_id,
        map_index=map_index,
        reported_at=at,
        is_own_day=not day.get("lookback", False),
        generation=_number(day.get("generation")),
        rows=None if day.get("status") == "superseded" else _number(day.get("rows_written")),
        size_bytes=_number(day.get("raw_bytes")),
        rejected=_number(day.get("rejected")),
        link=_link(day.get("link")),
        warnings=_texts(day.get("warnings")),
        rejects=_texts(day.get("rejects")),
        message=str(failure.get("message")) if isinstance(failure, Mapping) else None,
    )


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(text) for text in value) if isinstance(value, list) else ()


def _link(value: Any) -> str | None:
    return value if isinstance(value, str) and value.startswith(("https://", "http://")) else None
