"""Application transactions of streams whose days are not independent: of increments, and of snapshots of the whole."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable

from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.stage.spans import Span

_SPAN = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)/span/(?P<number>\d+)/(?P<ends>.*)", re.DOTALL)


def span_transaction(row: LedgerRow, app: str) -> dict[str, int]:
    """Return what an increment has read, in the id itself: a version is a number. A reload writes the same id again.

    :param app: the day's own application id.
    """
    if row.span is None:
        return {}
    ends = json.dumps([row.span.after, row.span.to], separators=(",", ":"))
    return {f"{app}/span/{row.span.number}/{ends}": row.generation}


def increment_transaction(row: LedgerRow, prefix: str) -> dict[str, int]:
    """Return the application transaction of an increment that follows another day's, beside its day's own.

    All such commits write it, so Delta lets only one of two pass that follow the same one.

    :param prefix: of all application ids of the stream.
    """
    assert row.span is not None
    return {f"{prefix}increment": row.span.number}


def snapshot_transaction(row: LedgerRow, prefix: str) -> dict[str, int]:
    """Return the application transaction of a snapshot that replaces the whole table, beside its day's own.

    All such commits write it, so Delta lets only one of two pass, even if they are of different days.

    :param prefix: of all application ids of the stream.
    """
    return {f"{prefix}snapshot": int(f"{row.day:%Y%m%d}")}


def recorded_spans(recorded: Iterable[str], prefix: str) -> dict[dt.date, Span]:
    """Return what the increment of each day has read; nothing of other days.

    :param recorded: application ids of the stream.
    """
    found = {}
    for app in recorded:
        match = _SPAN.fullmatch(app.removeprefix(prefix))
        if match is not None:
            after, to = json.loads(match["ends"])
            found[dt.date.fromisoformat(match["day"])] = Span(number=int(match["number"]), after=after, to=to)
    return found
