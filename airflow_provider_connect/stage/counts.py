"""Names of counts in report, ledger and asset event, and the vendor's own count of a day.

``late_3_days`` counts the rows that reached the vendor after three further days had ended, including those of
``late_4_days``.
"""

from __future__ import annotations

from dataclasses import dataclass

FILTERED = "shape_filtered"

ABSENT_COLUMN = "column_absent."
"""Prefix of a column's count: a poll's number of records, if none of them has the column's field."""

REFUSED_COLUMN = "column_refused."
"""Like :data:`ABSENT_COLUMN`, for a column whose field at least one record of a day must have."""

MAX_LATE_DAYS = 10
"""The longest delay with its own count, in days."""

LATE_COUNTS = tuple(f"late_{days}_days" for days in range(1, MAX_LATE_DAYS + 1))

LATE_COUNT = "late"
"""Count of rows that reached the vendor after the poll of the preceding publish."""


@dataclass(frozen=True)
class VendorCount:
    """A day's number of rows by the vendor's own count.

    :param rows: without duplicates.
    :param is_least: ``rows`` is a lower bound.
    :param is_most: ``rows`` is an upper bound.
    """

    rows: int
    is_least: bool = False
    is_most: bool = False
