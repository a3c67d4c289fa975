"""How late a day's rows came, and how many erases and shapes keep out, as application transactions.

They outlive the clean-up of the log, and are read without its history. ``…/<day>/late`` is 1 where the source of the
newest publish could tell, ``…/<day>/late_3_days`` ``…/<day>/erased`` and
``…/<day>/shape_filtered`` are counts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.stage.counts import FILTERED, LATE_COUNTS
from airflow_provider_connect.stage.transform import ROWS_POLLED

_KNOWN = "/late"
_POLLED = f"/{ROWS_POLLED}"
_KEPT_OUT = ("erased", FILTERED)

Transaction = Callable[[dt.date, str], int | None]
"""Returns the version of a day's application transaction, None if there is none."""


def late_transactions(row: LedgerRow, transaction: Transaction) -> dict[str, int]:
    """Return what records the late rows of a publish: how the application id goes on after the day, and the version.

    None can be deleted, so those of an earlier publish are set to 0.
    """
    is_known = LATE_COUNTS[0] in row.counts
    found = {_KNOWN: int(is_known)} | {f"/{name}": row.counts.get(name, 0) for name in LATE_COUNTS if is_known}
    return {what: version for what, version in found.items() if version or transaction(row.day, what)}


def kept_out_transactions(row: LedgerRow, transaction: Transaction) -> dict[str, int]:
    """Return what records how many of a day's rows erases and shapes keep out, and how many a transform was given."""
    found = {f"/{name}": row.counts.get(name, 0) for name in _KEPT_OUT}
    # A day may be made of no rows at all, and 0 says that there was no transform.
    found[_POLLED] = row.counts.get(ROWS_POLLED, -1) + 1
    return {what: rows for what, rows in found.items() if rows or transaction(row.day, what)}


def kept_out_counts(transaction: Transaction, day: dt.date) -> dict[str, int]:
    """Return the same of a day's newest publish, by the counts' names; {} if it says nothing."""
    found = {name: transaction(day, f"/{name}") for name in _KEPT_OUT}
    polled = transaction(day, _POLLED)
    made_of = {ROWS_POLLED: polled - 1} if polled else {}
    return {name: rows for name, rows in found.items() if rows} | made_of


def late_counts(transaction: Transaction, day: dt.date) -> dict[str, int]:
    """Return how many rows of a day's newest publish came late; {} if that is not known."""
    if not transaction(day, _KNOWN):
        return {}
    found = {name: transaction(day, f"/{name}") or 0 for name in LATE_COUNTS}
    return {name: rows for name, rows in found.items() if rows or name == LATE_COUNTS[0]}
