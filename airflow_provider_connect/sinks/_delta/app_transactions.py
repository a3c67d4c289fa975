"""The application transactions that record a publish in a Delta table's log, and the metadata beside them.

They outlive the clean-up of the log, and are read without its history. A transaction has an id, which is a text, and a
version, which is a number. None can be deleted: what an earlier publish of a day has written is set to 0.

``…/<day>/late`` is 1 where the source of the newest publish could tell how late its rows came. Counts are
``…/<day>/late_3_days``, ``…/<day>/erased``, ``…/<day>/shape_filtered`` and ``…/<day>/deleted``.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from airflow_provider_connect import __version__
from airflow_provider_connect.sink import LedgerRow, Publish, StreamKey
from airflow_provider_connect.stage.counts import FILTERED, LATE_COUNTS
from airflow_provider_connect.stage.soft_deletes import SOFT_DELETED_TOTAL
from airflow_provider_connect.stage.spans import Span
from airflow_provider_connect.stage.transform import ROWS_POLLED

UNIX_EPOCH, MICROSECOND = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.timedelta(microseconds=1)
CONFIRMED_FIELDS = ("checks", "token", "run", "clear_number", "polled_at")
"""What a confirmation changes in a row."""
HALF_BITS = 64
"""Versions of transactions are signed numbers of so many bits."""
_CHECKS_BITS = 32
"""The low bits of :func:`check_version`."""
SWEPT = 0
"""Recorded as an attempt's generation before a sweep deletes its files: real generations start at 1."""
DELETED_SUFFIX = "/deleted"
_LATE, _POLLED = "/late", f"/{ROWS_POLLED}"
_KEPT_OUT = ("erased", FILTERED)
_SPAN = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)/span/(?P<number>\d+)/(?P<ends>.*)", re.DOTALL)

FindTransaction = Callable[[dt.date, str], int | None]
"""Returns the version of a day's application transaction, None if there is none."""


def app_prefix(key: StreamKey) -> str:
    """Return the prefix of all application ids of a stream."""
    return f"connect/{key}/"


def app_id(key: StreamKey, day: dt.date) -> str:
    """Return the application id that records a day's generation."""
    return f"{app_prefix(key)}{day}"


def attempt_id(key: StreamKey, attempt: str) -> str:
    """Return the application id that records an attempt's fate: its generation, or :data:`SWEPT`."""
    return f"{app_prefix(key)}attempt/{attempt}"


def deleted_file_id(key: StreamKey, attempt: str) -> str:
    """Return the application id that records which file of deleted rows an attempt published."""
    return f"{attempt_id(key, attempt)}/deleted"


def publish_transactions(row: LedgerRow, key: StreamKey, find_transaction: FindTransaction) -> dict[str, int]:
    """Return the application transactions that record ``row`` and its counts: id to version.

    :param transaction: of the version that the commit builds on.
    """
    app = app_id(key, row.day)
    return {
        **_of_intent(row, app),
        f"{app}/rows": row.rows,
        f"{app}/run/{row.run}": row.generation,
        attempt_id(key, row.attempt or ""): row.generation,
        **_of_answer(row, app),
        **_of_span(row, app),
        **{app + what: count for what, count in _counted(row).items() if count or find_transaction(row.day, what)},
    }


def confirmation_transactions(row: LedgerRow, key: StreamKey, attempt: str) -> dict[str, int]:
    """Return the application transactions that record ``row`` as confirmed: id to version.

    The day's own is written again, as it is. So Delta refuses the commit if another has published or confirmed the day
    since.

    :param attempt: whose answer confirmed it. Its files are never published: it counts as swept.
    """
    app = app_id(key, row.day)
    check = check_version(row.generation, row.checks)
    return {
        **_of_intent(row, app),
        f"{app}/checks": check,
        f"{app}/check/{row.run}": check,
        attempt_id(key, attempt): SWEPT,
    }


def _of_intent(row: LedgerRow, app: str) -> dict[str, int]:
    """Return what the newest intent of a day writes, whether it publishes or confirms."""
    return {
        app: row.generation,
        f"{app}/clear": row.clear_number,
        f"{app}/polled": 0 if row.polled_at is None else (row.polled_at - UNIX_EPOCH) // MICROSECOND,
        f"{app}/token/{row.token}": row.generation,
    }


def _of_answer(row: LedgerRow, app: str) -> dict[str, int]:
    """Return the answer in two halves, and its generation: a version of this package without answers leaves them."""
    if row.answer is None:
        return {}
    halves = int(row.answer, 16).to_bytes(2 * HALF_BITS // 8, "big")
    return {
        f"{app}/answer": row.generation,
        f"{app}/answer/high": int.from_bytes(halves[: HALF_BITS // 8], "big", signed=True),
        f"{app}/answer/low": int.from_bytes(halves[HALF_BITS // 8 :], "big", signed=True),
    }


def _of_span(row: LedgerRow, app: str) -> dict[str, int]:
    """Return what an increment has read, in the id itself: a version is a number. A reload writes the same id again."""
    if row.span is None:
        return {}
    ends = json.dumps([row.span.after, row.span.to], separators=(",", ":"))
    return {f"{app}/span/{row.span.number}/{ends}": row.generation}


def _counted(row: LedgerRow) -> dict[str, int]:
    """Return the counts that outlive the log: how the application id goes on after the day, and the version."""
    is_known = LATE_COUNTS[0] in row.counts
    return {
        _LATE: int(is_known),
        **{f"/{name}": row.counts.get(name, 0) for name in (*_KEPT_OUT, *(LATE_COUNTS if is_known else ()))},
        # A day may be made of no rows at all, and 0 says that there was no transform.
        _POLLED: row.counts.get(ROWS_POLLED, -1) + 1,
        DELETED_SUFFIX: row.counts.get(SOFT_DELETED_TOTAL, 0),
    }


def check_version(generation: int, checks: int) -> int:
    """Return a number of checks that says of which generation: a new one begins at none, and writes nothing for it."""
    return generation << _CHECKS_BITS | checks


def recorded_spans(app_ids: Iterable[str], prefix: str) -> dict[dt.date, Span]:
    """Return what the increment of each day has read; nothing of other days.

    :param recorded: application ids of the stream.
    """
    found = {}
    for app in app_ids:
        match = _SPAN.fullmatch(app.removeprefix(prefix))
        if match is not None:
            after, to = json.loads(match["ends"])
            found[dt.date.fromisoformat(match["day"])] = Span(number=int(match["number"]), after=after, to=to)
    return found


def kept_out_counts(find_transaction: FindTransaction, day: dt.date) -> dict[str, int]:
    """Return how many of a day's rows erases and shapes keep out, and how many a transform was given.

    By the counts' names; {} if the newest publish says nothing.
    """
    found = {name: find_transaction(day, f"/{name}") for name in _KEPT_OUT}
    polled = find_transaction(day, _POLLED)
    made_of = {ROWS_POLLED: polled - 1} if polled else {}
    return {name: rows for name, rows in found.items() if rows} | made_of


def late_counts(find_transaction: FindTransaction, day: dt.date) -> dict[str, int]:
    """Return how many rows of a day's newest publish came late; {} if that is not known."""
    if not find_transaction(day, _LATE):
        return {}
    found = {name: find_transaction(day, f"/{name}") or 0 for name in LATE_COUNTS}
    return {name: rows for name, rows in found.items() if rows or name == LATE_COUNTS[0]}


def commit_metadata(row: LedgerRow, publish: Publish) -> dict[str, str]:
    """Return the commit's metadata: the row, for people, and for :meth:`.LedgerView.row` while the log has it."""
    texts = {"counts": json.dumps(row.counts), "span": None if row.span is None else row.span.model_dump_json()}
    return _metadata(row.model_dump(mode="json") | texts, publish)


def confirmation_metadata(row: LedgerRow, publish: Publish) -> dict[str, str]:
    """Return the metadata of a commit that confirms: what it says of the row; the rest stands in the publish's."""
    return _metadata(row.model_dump(mode="json", include={"day", "generation", *CONFIRMED_FIELDS}), publish)


def _metadata(values: dict[str, Any], publish: Publish) -> dict[str, str]:
    values |= {"connector": publish.key.connector, "stream": publish.key.stream, "package": __version__}
    flat = {f"connect.{name}": str(value) for name, value in values.items()}
    return flat | {f"connect.label.{name}": value for name, value in publish.labels.items()}
