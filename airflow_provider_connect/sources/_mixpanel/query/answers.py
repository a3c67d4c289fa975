"""What answers of the Query API have in common: lists whose entries have ids, and values by date."""

from __future__ import annotations

from typing import Any

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.errors import DataError, RetriableError
from airflow_provider_connect.sources._mixpanel.asking import Asking
from airflow_provider_connect.sources._mixpanel.query.fields import whole


def member(there: Asking, asked: Call, *path: str, kind: type) -> Any:
    """Return what lies in an answer under the names of ``path``.

    :param kind: ``dict`` or ``list``: what it must be.
    :raises RetriableError: the answer is of another shape; and the errors of :meth:`.Asking.whole`.
    """
    data = there.whole(asked)
    found = there.parsed(data)
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, kind):
        raise there.no_document(len(data))
    return found


def listed(there: Asking, asked: Call, *path: str, what: str, key: str = "id") -> list[dict[str, Any]]:
    """Return the entries of a list in an answer, each with a whole number ``key``.

    :param what: their name, for messages.
    :raises DataError: an entry has none.
    """
    entries: list[Any] = member(there, asked, *path, kind=list)
    if not all(isinstance(entry, dict) and whole(entry.get(key)) is not None for entry in entries):
        raise DataError(f"the list of {what} has one without an id: report it to Mixpanel")
    return entries


def of_the_day(there: Asking, by_date: Any, what: str) -> Any:
    """Return what a report has for the day that was asked for; None if it has nothing.

    Entries of other days are counted as ``other_day``. Dates are written as ``2026-03-01`` or with a time after it.

    :param what: the report's name, for messages.
    :raises RetriableError: it is for other days alone.
    """
    if not isinstance(by_date, dict):
        raise RetriableError(f"{what}: in the answer of Mixpanel the days are missing")
    date = str(there.day)
    found = [value for name, value in by_date.items() if name[:10] == date]
    others = len(by_date) - min(len(found), 1)
    if others and not found:
        raise RetriableError(f"{what}: Mixpanel answered for other days than {date}, which was asked for")
    if others:
        there.tally.counts["other_day"] += others
    return found[0] if found else None


def require_count(value: Any, what: str) -> int:
    """Return a count.

    :raises DataError: it is none.
    """
    count = whole(value)
    if count is None:
        raise DataError(f"{what}: a count is not a whole number: report it to Mixpanel")
    return count
