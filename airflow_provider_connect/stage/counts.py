"""Counts that more than one room reads: their names in report, ledger and asset event, and the vendor's own.

``late_3_days`` counts the rows that reached the vendor after the third day behind their own was over, and so includes
those of ``late_4_days``. A source that can tell always gives ``late_1_days``, also as 0; the others only where they
count something. So a day that lacks ``late_1_days`` was polled by somebody who could not tell.
"""

from __future__ import annotations

from dataclasses import dataclass

FILTERED = "shape_filtered"
"""Rows that shapes have left out."""

MAX_LATE_DAYS = 10
"""The latest that is told apart."""

LATE_COUNTS = tuple(f"late_{days}_days" for days in range(1, MAX_LATE_DAYS + 1))
"""The names, the one for one day first."""

LATE_COUNT = "late"
"""Name of the count of rows that reached the vendor after the poll of the publish that theirs follows."""


@dataclass(frozen=True)
class VendorCount:
    """How many rows of a day the vendor counts.

    :param rows: without the duplicates that the vendor drops.
    :param is_least: the day may rightly have more: the vendor does not count all that it sends.
    :param is_most: the day may rightly have fewer: the vendor does not send all that it counts. It is compared only
        where ``reconcile`` asks for it.
    """

    rows: int
    is_least: bool = False
    is_most: bool = False
