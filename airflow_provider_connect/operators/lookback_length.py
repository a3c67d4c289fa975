"""Computes how many days N a run must look back for late rows.

A measured lookback also loads the day :data:`.MAX_LATE_DAYS` before, as a probe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from airflow_provider_connect.completeness import rows_from_vendor
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.stage.counts import LATE_COUNTS, MAX_LATE_DAYS
from airflow_provider_connect.window import ONE_DAY, Day

MEASURED_DAYS = 14
"""Number of newest whole days that are measured."""

MIN_WHOLE_DAYS = 7
"""Smallest number of whole days that allows a measurement."""

LATE_ROWS_ONE_IN = 10_000
"""The lookback may miss one in this many rows."""


@dataclass(frozen=True)
class LookbackLength:
    """Measured length of the lookback."""

    days: int
    reason: str


def days_to_measure(days: Sequence[Day]) -> tuple[Day, ...]:
    """Return the days before a window, oldest first, that :func:`measure_lookback` needs."""
    offsets = range(MAX_LATE_DAYS + MEASURED_DAYS, 0, -1)
    return tuple(Day(date=days[0].date - ONE_DAY * offset, zone=days[0].zone) for offset in offsets)


def probe_days(days: Sequence[Day]) -> tuple[Day, ...]:
    """Return the days :data:`.MAX_LATE_DAYS` before the window's days, without the window itself."""
    shifted = (Day(date=day.date - ONE_DAY * MAX_LATE_DAYS, zone=day.zone) for day in days)
    return tuple(day for day in shifted if day.date < days[0].date and day.hours > 0)


def measure_lookback(days: Sequence[Day], rows: Iterable[LedgerRow]) -> LookbackLength:
    """Return how many days a run must look back: 1 to :data:`.MAX_LATE_DAYS`, the maximum if too few days are whole.

    :param rows: of :func:`days_to_measure`.
    """
    usable_rows = {row.day: row for row in rows if _has_late_rows_counted(row)}
    days_with_rows = [(day, usable_rows[day.date]) for day in days if day.date in usable_rows]
    whole_rows = [row for day, row in days_with_rows if _is_whole(day, row)][-MEASURED_DAYS:]
    young_rows = [row for day, row in days_with_rows if not _is_whole(day, row)]
    if len(whole_rows) < MIN_WHOLE_DAYS:
        return LookbackLength(
            MAX_LATE_DAYS,
            f"{MAX_LATE_DAYS} days, the maximum: only {len(whole_rows)} of the days from {days[0]} to {days[-1]} were "
            f"loaded at least {MAX_LATE_DAYS} days after their end with late rows counted, and the measurement needs "
            f"{MIN_WHOLE_DAYS}",
        )
    # A younger day may still get rows, so it can only make the lookback longer.
    length, decisive_rows = max(
        ((_shortest_lookback(rows_of_age), rows_of_age) for rows_of_age in (whole_rows, young_rows)),
        key=lambda candidate: candidate[0],
    )
    total_rows, late_rows = (
        sum(rows_from_vendor(row) for row in decisive_rows),
        [_count_late(decisive_rows, name) for name in LATE_COUNTS],
    )
    row_text = (
        f"of {total_rows:,} rows of {len(decisive_rows)} days from {decisive_rows[0].day} to {decisive_rows[-1].day}"
    )
    late_text = f"{late_rows[length - 1]:,} came at least {length} days after the end of their day"
    return LookbackLength(length, f"{length} days: {row_text}, {late_text}. The limit is 1 in {LATE_ROWS_ONE_IN:,}")


def _has_late_rows_counted(row: LedgerRow) -> bool:
    late = row.counts.get(LATE_COUNTS[0])
    return late is not None and rows_from_vendor(row) > 0 and late <= rows_from_vendor(row)


def _is_whole(day: Day, row: LedgerRow) -> bool:
    polled_at = row.polled_at or row.published_at
    return polled_at is not None and polled_at >= Day(date=day.date + ONE_DAY * MAX_LATE_DAYS, zone=day.zone).end


def _shortest_lookback(rows: Sequence[LedgerRow]) -> int:
    total = sum(rows_from_vendor(row) for row in rows)
    sufficient = (
        length
        for length, name in enumerate(LATE_COUNTS, start=1)
        if _count_late(rows, name) * LATE_ROWS_ONE_IN <= total
    )
    return next(sufficient, MAX_LATE_DAYS)


def _count_late(rows: Sequence[LedgerRow], name: str) -> int:
    return sum(row.counts.get(name, 0) for row in rows)
