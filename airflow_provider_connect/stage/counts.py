"""Names of counts in report, ledger and asset event, and the vendor's own count of a day.

``late_3_days`` counts the rows that reached the vendor after three further days had ended, and so includes the rows of
``late_4_days``. A source that knows these times always gives ``late_1_days``, even as 0, and the others if they are not
0. Without ``late_1_days``, the source did not know.
"""

from __future__ import annotations

from dataclasses import dataclass

FILTERED = "shape_filtered"
"""Name of the count of rows that shapes removed."""

ABSENT_COLUMN = "column_absent."
"""Begins the count of records read while no record had a column's field. The column's name follows."""

REFUSED_COLUMN = "column_refused."
"""Like :data:`ABSENT_COLUMN`, for a column whose field at least one record of a day must have."""

MAX_LATE_DAYS = 10
"""The longest delay with its own count, in days."""

LATE_COUNTS = tuple(f"late_{days}_days" for days in range(1, MAX_LATE_DAYS + 1))
"""Names of the late counts, ``late_1_days`` first."""

LATE_COUNT = "late"
"""Name of the count of rows that reached the vendor after the poll of the preceding publish."""


@dataclass(frozen=True)
class VendorCount:
    """Number of rows of a day by the vendor's own count.

    :param rows: without the duplicates that the vendor drops.
    :param is_least: the day may have more rows, since the vendor does not count every row that it sends.
    :param is_most: the day may have fewer rows, since the vendor does not send every row that it counts. Fewer rows are
        reported only if ``reconcile`` is on.
    """

    rows: int
    is_least: bool = False
    is_most: bool = False
