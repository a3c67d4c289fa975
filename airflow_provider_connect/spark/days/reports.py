"""Reports of single days: of a day that is published already, and as a line for the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.job import DayReport
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.window import Day

_REPORTED = ("rows_read", "duplicates", "rejected", "wire_bytes", "raw_bytes")
"""Counts that a report has fields for."""


def already_published(day: Day, row: LedgerRow) -> DayReport:
    """Return the report of a day that an earlier try published, made from its ledger row."""
    fields: dict[str, Any] = {name: row.counts.get(name, 0) for name in _REPORTED}
    return DayReport.of(
        day,
        "already_published",
        generation=row.generation,
        rows_written=row.rows,
        digest=row.digest,
        reference=row.reference,
        link=row.link,
        counts=other_counts(row.counts),
        **fields,
    )


def other_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return what has no field of its own in a report, the sink's own counts among it."""
    return {name: count for name, count in counts.items() if name not in _REPORTED}


def describe(report: DayReport, *, with_reason: bool) -> str:
    """Return a day's report as a line for the log.

    :param with_reason: whether a failure's message is part of it.
    """
    if report.failure is not None:
        return f"{report.status}: {report.failure.message}" if with_reason else report.status
    text = f"{report.status} as generation {report.generation}, {report.rows_written:,} rows"
    if report.status == "unchanged":
        text += f", {report.raw_bytes / 1e6:,.1f} MB, {report.poll_seconds:.1f} s to poll"
    if report.status == "published":
        text += (
            f" ({report.duplicates:,} duplicates dropped, {report.rejected:,} rejected), "
            f"{report.raw_bytes / 1e6:,.1f} MB, {report.poll_seconds:.1f} s to poll, "
            f"{report.publish_seconds:.2f} s to publish"
        )
    if report.link is not None:
        text += f"; {report.reference}: {report.link}"
    return text
