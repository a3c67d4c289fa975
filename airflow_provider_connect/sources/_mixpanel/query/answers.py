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
from airflow_provider_connect.polling.keys import hex_record_keys
from airflow_provider_connect.sources._mixpanel.columns import schema
from airflow_provider_connect.sources._mixpanel.stream_definition import BatchReader, MixpanelStream
from airflow_provider_connect.values.json.typed import fits_bigint

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sources._mixpanel.client import MixpanelClient


def bigint_or_none(value: Any) -> int | None:
    """Return a whole number that a BIGINT holds."""
    return value if fits_bigint(value) else None


def float_or_none(value: Any) -> float | None:
    """Return a finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        read = float(value)
    except OverflowError:
        return None
    return read if math.isfinite(read) else None


def text_or_none(value: Any) -> str | None:
    """Return a text; a lone surrogate, which no column holds, is U+FFFD."""
    if not isinstance(value, str):
        return None
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def to_json_text(value: Any) -> str:
    """Return a document's part as JSON."""
    return text_or_none(json.dumps(value, ensure_ascii=False)) or ""


def flag_or_none(value: Any) -> bool | None:
    """Return true or false, which Mixpanel writes as 1 or 0 too."""
    return bool(value) if value in (0, 1) else None


def wall_time_or_none(value: Any) -> dt.datetime | None:
    """Return what a clock showed, written as ``2019-03-19 23:49:51``."""
    try:
        return dt.datetime.fromisoformat(value).replace(tzinfo=None)
    except (TypeError, ValueError):
        return None


def instant_or_none(value: Any) -> dt.datetime | None:
    """Return the instant of a time with an offset, such as ``2026-03-01T00:00:00-08:00``."""
    try:
        read = dt.datetime.fromisoformat(value)
        return read.astimezone(dt.UTC) if read.tzinfo is not None else None
    except (TypeError, ValueError, OverflowError):
        return None


_READERS: dict[str, Callable[[Any], Any]] = {
    "string": text_or_none,
    "bigint": bigint_or_none,
    "double": float_or_none,
    "boolean": flag_or_none,
    "wall": wall_time_or_none,
}


def same_named_columns(stream: MixpanelStream, sent_object: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that are named like fields of an object, each as its type reads it."""
    columns = stream.columns.items()
    return {name: _READERS[column.kind](sent_object.get(name)) for name, column in columns if column.kind in _READERS}


def fetch_member(client: MixpanelClient, call: Call, *path: str, kind: type) -> Any:
    """Return what lies in an answer under the names of ``path``.

    :param kind: ``dict`` or ``list``: what it must be.
    :raises RetriableError: the answer is of another shape; and the errors of :meth:`.MixpanelClient.fetch`.
    """
    data = client.fetch(call)
    found = client.parse_json(data)
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, kind):
        raise client.incomplete_answer_error(len(data))
    return found


def fetch_entries(
    client: MixpanelClient, call: Call, *path: str, entry_name: str, id_field: str = "id"
) -> list[dict[str, Any]]:
    """Return the entries of a list in an answer, each with a whole number ``key``.

    :param what: their name, for messages.
    :raises DataError: an entry has none.
    """
    entries: list[Any] = fetch_member(client, call, *path, kind=list)
    if not all(isinstance(entry, dict) and bigint_or_none(entry.get(id_field)) is not None for entry in entries):
        raise DataError(f"the list of {entry_name} has one without an id: report it to Mixpanel")
    return entries


def value_of_day(client: MixpanelClient, by_date: Any, report_name: str) -> Any:
    """Return what a report has for the day that was asked for; None if it has nothing.

    Entries of other days are counted as ``other_day``. Dates are written as ``2026-03-01`` or with a time after it.

    :param what: the report's name, for messages.
    :raises RetriableError: it is for other days alone.
    """
    if not isinstance(by_date, dict):
        raise RetriableError(f"{report_name}: in the answer of Mixpanel the days are missing")
    date = str(client.day)
    found = [value for name, value in by_date.items() if name[:10] == date]
    others = len(by_date) - min(len(found), 1)
    if others and not found:
        raise RetriableError(f"{report_name}: Mixpanel answered for other days than {date}, which was asked for")
    if others:
        client.tally.counts["other_day"] += others
    return found[0] if found else None


def require_count(value: Any, report_name: str) -> int:
    """Return a count.

    :raises DataError: it is none.
    """
    count = bigint_or_none(value)
    if count is None:
        raise DataError(f"{report_name}: a count is not a whole number: report it to Mixpanel")
    return count


RowValues = Mapping[str, Any]
"""Column to value, without ``record_key``; what is missing is null."""

_ROWS_AT_ONCE = 10_000


def batch_reader(fetch_rows: Callable[[MixpanelClient], Iterable[RowValues]]) -> BatchReader:
    """Return how a stream is read whose rows ``rows_of`` makes, from as many questions as it likes."""

    def read(stream: MixpanelStream, there: MixpanelClient) -> Iterator[pa.RecordBatch]:
        rows = iter(fetch_rows(there))
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            there.tally.rows += len(some)
            yield _batch(stream, there, some)

    return read


def _batch(stream: MixpanelStream, there: MixpanelClient, rows: list[RowValues]) -> pa.RecordBatch:
    import pyarrow as pa

    fields = schema((), stream.columns)
    names = [name for name in fields.names if name != "record_key"]
    try:
        columns = {name: pa.array([row.get(name) for row in rows], fields.field(name).type) for name in names}
    except (pa.ArrowException, OverflowError):  # its text would be a value
        raise DataError(f"stream {stream.name!r}: a row has a value of another type than its column") from None
    columns["record_key"] = hex_record_keys(stream.variant(there.options), [columns[name] for name in stream.key])
    return pa.RecordBatch.from_arrays([columns[name] for name in fields.names], schema=fields)
