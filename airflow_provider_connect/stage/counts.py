"""Names of counts that more than one room reads, in report, ledger and asset event.

``late_3_days`` counts the rows that reached the vendor after the third day behind their own was over, and so includes
those of ``late_4_days``. A source that can tell always gives ``late_1_days``, also as 0; the others only where they
count something. So a day that lacks ``late_1_days`` was polled by somebody who could not tell.
"""

from __future__ import annotations

FILTERED = "shape_filtered"
"""Rows that shapes have left out."""

LATE_DAYS = 10
"""The latest that is told apart."""

LATE_COUNTS = tuple(f"late_{days}_days" for days in range(1, LATE_DAYS + 1))
"""The names, the one for one day first."""

LATE = "late"
"""Name of the count of rows that reached the vendor after the poll of the publish that theirs follows."""
