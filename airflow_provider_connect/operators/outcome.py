"""What a Spark job did: its report, checked against the sink's ledger before it is believed."""

from __future__ import annotations

from pydantic import ValidationError

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.job import SETTLED, DayReport, JobConfig, JobReport
from airflow_provider_connect.sink import Ledger
from airflow_provider_connect.stage.storage import Folder

_COLUMNS = (
    "day",
    "status",
    "rows",
    "duplicates",
    "rejected",
    "MB read",
    "retries",
    "poll s",
    "publish s",
    "generation",
)


def read_report(config: JobConfig) -> JobReport | None:
    """Return the report of a job that has ended; None if there is none, or only another attempt's."""
    text = _read(config.report)
    if text is None:
        return None
    try:
        report = JobReport.model_validate_json(text)
    except ValidationError:
        return None
    return report if report.attempt == config.attempt else None


def verify(report: JobReport, config: JobConfig, ledger: Ledger) -> None:
    """Check a report of success against the days that were asked for, and against the sink's ledger.

    A superseded day that was never published has no row in the ledger; a later day must have one instead.

    :raises RetriableError: if a day is missing from either.
    """
    outcomes = {day.day: day for day in report.days}
    lost = [str(day) for day in config.all_days if not _is_settled(outcomes.get(day.date))]
    if lost:
        raise RetriableError(f"the Spark job ended without an error, but did not report these days as done: {lost}")
    published = [outcome for outcome in report.days if outcome.status != "superseded"]
    absent = [str(outcome.day) for outcome in published if not _is_in(ledger, outcome)]
    if absent:
        raise RetriableError(f"the Spark job reported days as published that the sink's ledger does not have: {absent}")
    superseded = [outcome.day for outcome in report.days if outcome.status == "superseded"]
    newest = max(ledger.days(), default=None) if superseded else None
    stranded = [str(day) for day in superseded if newest is None or newest <= day]
    if stranded:
        raise RetriableError(
            f"the Spark job reported days as superseded, and the sink's ledger has no later day: {stranded}"
        )


def table(report: JobReport) -> str:
    """Return the days of a report as a table in text."""
    rows = [_COLUMNS, *(_cells(day) for day in report.days)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(lines)


def _cells(day: DayReport) -> tuple[str, ...]:
    return (
        str(day.day),
        f"{day.status} (lookback)" if day.lookback else day.status,
        f"{day.rows_written:,}",
        f"{day.duplicates:,}",
        f"{day.rejected:,}",
        f"{day.raw_bytes / 1e6:,.1f}",
        str(day.retries),
        f"{day.poll_seconds:.1f}",
        f"{day.publish_seconds:.1f}",
        "-" if day.generation is None else str(day.generation),
    )


def _is_settled(outcome: DayReport | None) -> bool:
    return outcome is not None and outcome.status in SETTLED


def _is_in(ledger: Ledger, outcome: DayReport) -> bool:
    # Asked for "day", as for a snapshot the ledger may answer with another day's row. Only the generation counts.
    newest = ledger.newest(outcome.day, "day")
    return newest is not None and newest.generation >= (outcome.generation or 1)


def _read(location: str) -> str | None:
    """Return a report's text, and delete it: in a shared place nobody else would."""
    place, _, name = location.rpartition("/")
    folder = Folder(place)
    try:
        text = folder.read(name).decode("utf-8")
    except FileNotFoundError:
        return None
    folder.delete(name)
    return text
