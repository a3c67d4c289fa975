"""Application transactions that record a publish in a Delta table's log, and the metadata of its commit.

A transaction is an id (text) and a version (number). Transactions outlive the log's clean-up and cannot be deleted, so
values that no longer apply are set to 0.

``…/<day>/late`` is 1 if the newest publish's source knew when its rows arrived. Counts are ``…/<day>/late_3_days``,
``…/<day>/erased``, ``…/<day>/shape_filtered`` and ``…/<day>/deleted``.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

from airflow_provider_connect import __version__
from airflow_provider_connect.sink import LedgerRow, Publish, StreamKey
from airflow_provider_connect.sinks._delta.slots import FILE_SUFFIX
from airflow_provider_connect.stage.counts import FILTERED, LATE_COUNTS
from airflow_provider_connect.stage.soft_deletes import SOFT_DELETED_TOTAL
from airflow_provider_connect.stage.transform import ROWS_POLLED

UNIX_EPOCH, MICROSECOND = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.timedelta(microseconds=1)
CONFIRMED_FIELDS = ("checks", "token", "run", "clear_number", "polled_at")
"""Fields of a ledger row that a confirmation changes."""
HALF_BITS = 64
"""Bits of a transaction's version, a signed number."""
_CHECKS_BITS = 32
"""Low bits of :func:`check_version`."""
SWEPT = 0
"""An attempt's recorded generation once a sweep may delete its files. Generations start at 1."""
DELETED_SUFFIX = "/deleted"
_LATE, _POLLED = "/late", f"/{ROWS_POLLED}"
_KEPT_OUT = ("erased", FILTERED)

FindTransaction = Callable[[dt.date, str], int | None]
"""Takes a day and an application id's end. Returns the transaction's version, or None."""


def app_prefix(key: StreamKey) -> str:
    """Return the prefix of a stream's application ids."""
    return f"connect/{key}/"


def app_id(key: StreamKey, day: dt.date, suffix: str = "") -> str:
    """Return the Delta application id whose version is a day's generation number.

    :param suffix: of the day's slot (:mod:`.slots`), whose generation it is.
    """
    return f"{app_prefix(key)}{day}{suffix}"


def attempt_id(key: StreamKey, attempt: str) -> str:
    """Return the application id of the generation that an attempt published, or :data:`SWEPT`."""
    return f"{app_prefix(key)}attempt/{attempt}"


def deleted_file_id(key: StreamKey, attempt: str) -> str:
    """Return the application id of the number of an attempt's file of soft-deleted rows."""
    return f"{attempt_id(key, attempt)}/deleted"


def publish_transactions(
    row: LedgerRow, key: StreamKey, find_transaction: FindTransaction, slot_suffix: str = ""
) -> dict[str, int]:
    """Return the application transactions that record a ledger row and its counts: id to version.

    :param find_transaction: reads the table version that the commit builds on.
    :param slot_suffix: of the day's slot (:mod:`.slots`).
    """
    app = app_id(key, row.day, slot_suffix)
    return {
        **_intent_transactions(row, app),
        f"{app}/rows": row.rows,
        f"{app}/run/{row.run}": row.generation,
        attempt_id(key, row.attempt or ""): row.generation,
        **_answer_transactions(row, app),
        **_span_transactions(row, app),
        **{
            app + suffix: count
            for suffix, count in _count_suffixes(row).items()
            if count or find_transaction(row.day, slot_suffix + suffix)
        },
    }


def confirmation_transactions(row: LedgerRow, key: StreamKey, attempt: str) -> dict[str, int]:
    """Return the transactions that confirm an unchanged day: id to version.

    They contain the day's generation, so that Delta refuses the commit if another one has published or confirmed the
    day.

    :param attempt: the confirming attempt, recorded as swept because its files are never published.
    """
    app = app_id(key, row.day)
    check = check_version(row.generation, row.checks)
    return {
        **_intent_transactions(row, app),
        f"{app}/checks": check,
        f"{app}/check/{row.run}": check,
        attempt_id(key, attempt): SWEPT,
    }


def _intent_transactions(row: LedgerRow, app: str) -> dict[str, int]:
    return {
        app: row.generation,
        f"{app}/clear": row.clear_number,
        f"{app}/polled": 0 if row.polled_at is None else (row.polled_at - UNIX_EPOCH) // MICROSECOND,
        f"{app}/token/{row.token}": row.generation,
    }


def _answer_transactions(row: LedgerRow, app: str) -> dict[str, int]:
    """Return the answer's generation and digest, in two 64-bit halves. Older packages leave the halves unchanged."""
    if row.answer is None:
        return {}
    halves = int(row.answer, 16).to_bytes(2 * HALF_BITS // 8, "big")
    return {
        f"{app}/answer": row.generation,
        f"{app}/answer/high": int.from_bytes(halves[: HALF_BITS // 8], "big", signed=True),
        f"{app}/answer/low": int.from_bytes(halves[HALF_BITS // 8 :], "big", signed=True),
    }


def _span_transactions(row: LedgerRow, app: str) -> dict[str, int]:
    """Return the transactions of an increment's span and attempt. The first id holds the span, and is written again."""
    if row.span is None:
        return {}
    ends = json.dumps([row.span.after, row.span.to], separators=(",", ":"))
    return {
        f"{app}/span/{row.span.number}/{ends}": row.generation,
        f"{app}{FILE_SUFFIX}{row.attempt}": row.generation,
    }


def _count_suffixes(row: LedgerRow) -> dict[str, int]:
    """Return the counts to record: end of the application id to version."""
    has_late_counts = LATE_COUNTS[0] in row.counts
    return {
        _LATE: int(has_late_counts),
        **{f"/{name}": row.counts.get(name, 0) for name in (*_KEPT_OUT, *(LATE_COUNTS if has_late_counts else ()))},
        # One more than the count: a transform may get no rows, and 0 means no transform.
        _POLLED: row.counts.get(ROWS_POLLED, -1) + 1,
        DELETED_SUFFIX: row.counts.get(SOFT_DELETED_TOTAL, 0),
    }


def check_version(generation: int, checks: int) -> int:
    """Combine a generation and its number of confirmations, so that a new generation has 0 without a write."""
    return generation << _CHECKS_BITS | checks


def kept_out_counts(find_transaction: FindTransaction, day: dt.date) -> dict[str, int]:
    """Return the numbers of rows that erases and shapes removed from a day, and of a transform's input, by name.

    Leaves out counts of 0.
    """
    counts = {name: find_transaction(day, f"/{name}") for name in _KEPT_OUT}
    recorded_input = find_transaction(day, _POLLED)
    input_count = {ROWS_POLLED: recorded_input - 1} if recorded_input else {}
    return {name: rows for name, rows in counts.items() if rows} | input_count


def late_counts(find_transaction: FindTransaction, day: dt.date) -> dict[str, int]:
    """Return a day's counts of late rows by name, or {} if unknown."""
    if not find_transaction(day, _LATE):
        return {}
    counts = {name: find_transaction(day, f"/{name}") or 0 for name in LATE_COUNTS}
    return {name: rows for name, rows in counts.items() if rows or name == LATE_COUNTS[0]}


def commit_metadata(row: LedgerRow, publish: Publish) -> dict[str, str]:
    """Return the ledger row as a commit's metadata."""
    texts = {"counts": json.dumps(row.counts), "span": None if row.span is None else row.span.model_dump_json()}
    return _metadata(row.model_dump(mode="json") | texts, publish)


def confirmation_metadata(row: LedgerRow, publish: Publish) -> dict[str, str]:
    """Return a confirmation's fields of the ledger row as metadata."""
    return _metadata(row.model_dump(mode="json", include={"day", "generation", *CONFIRMED_FIELDS}), publish)


def _metadata(values: dict[str, Any], publish: Publish) -> dict[str, str]:
    values |= {"connector": publish.key.connector, "stream": publish.key.stream, "package": __version__}
    flat = {f"connect.{name}": str(value) for name, value in values.items()}
    return flat | {f"connect.label.{name}": value for name, value in publish.labels.items()}
