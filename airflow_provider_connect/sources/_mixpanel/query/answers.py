"""What answers of the Query API have in common: fields, lists whose entries have ids, values by date, and rows."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.errors import DataError, RetriableError
from airflow_provider_connect.polling.keys import hex_keys
from airflow_provider_connect.sources._mixpanel.columns import schema
from airflow_provider_connect.sources._mixpanel.stream import Read, Stream
from airflow_provider_connect.values.json.typed import fits_bigint

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sources._mixpanel.asking import Asking


def whole(value: Any) -> int | None:
    """Return a whole number that a BIGINT holds."""
    return value if fits_bigint(value) else None


def number(value: Any) -> float | None:
    """Return a finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        read = float(value)
    except OverflowError:
        return None
    return read if math.isfinite(read) else None


def text(value: Any) -> str | None:
    """Return a text; a lone surrogate, which no column holds, is U+FFFD."""
    if not isinstance(value, str):
        return None
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def document(value: Any) -> str:
    """Return a document's part as JSON."""
    return text(json.dumps(value, ensure_ascii=False)) or ""


def flag(value: Any) -> bool | None:
    """Return true or false, which Mixpanel writes as 1 or 0 too."""
    return bool(value) if value in (0, 1) else None


def wall(value: Any) -> dt.datetime | None:
    """Return what a clock showed, written as ``2019-03-19 23:49:51``."""
    try:
        return dt.datetime.fromisoformat(value).replace(tzinfo=None)
    except (TypeError, ValueError):
        return None


def instant(value: Any) -> dt.datetime | None:
    """Return the instant of a time with an offset, such as ``2026-03-01T00:00:00-08:00``."""
    try:
        read = dt.datetime.fromisoformat(value)
        return read.astimezone(dt.UTC) if read.tzinfo is not None else None
    except (TypeError, ValueError, OverflowError):
        return None


_READERS: dict[str, Callable[[Any], Any]] = {
    "string": text,
    "bigint": whole,
    "double": number,
    "boolean": flag,
    "wall": wall,
}


def named(stream: Stream, sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that are named like fields of an object, each as its type reads it."""
    columns = stream.columns.items()
    return {name: _READERS[column.kind](sent.get(name)) for name, column in columns if column.kind in _READERS}


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


Row = Mapping[str, Any]
"""Column to value, without ``record_key``; what is missing is null."""

_ROWS_AT_ONCE = 10_000


def documents(rows_of: Callable[[Asking], Iterable[Row]]) -> Read:
    """Return how a stream is read whose rows ``rows_of`` makes, from as many questions as it likes."""

    def read(stream: Stream, there: Asking) -> Iterator[pa.RecordBatch]:
        rows = iter(rows_of(there))
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            there.tally.rows += len(some)
            yield _batch(stream, there, some)

    return read


def _batch(stream: Stream, there: Asking, rows: list[Row]) -> pa.RecordBatch:
    import pyarrow as pa

    fields = schema((), stream.columns)
    names = [name for name in fields.names if name != "record_key"]
    try:
        columns = {name: pa.array([row.get(name) for row in rows], fields.field(name).type) for name in names}
    except (pa.ArrowException, OverflowError):  # its text would be a value
        raise DataError(f"stream {stream.name!r}: a row has a value of another type than its column") from None
    columns["record_key"] = hex_keys(stream.variant(there.options), [columns[name] for name in stream.key])
    return pa.RecordBatch.from_arrays([columns[name] for name in fields.names], schema=fields)
