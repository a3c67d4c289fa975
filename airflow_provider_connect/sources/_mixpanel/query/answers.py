"""Parses answers of the Query API into rows."""

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
    """Return a whole number that fits a BIGINT, else None."""
    return value if fits_bigint(value) else None


def float_or_none(value: Any) -> float | None:
    """Return a finite number as a float, else None."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        parsed = float(value)
    except OverflowError:
        return None
    return parsed if math.isfinite(parsed) else None


def text_or_none(value: Any) -> str | None:
    """Return a text, with U+FFFD for lone surrogates, else None."""
    if not isinstance(value, str):
        return None
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def to_json_text(value: Any) -> str:
    return text_or_none(json.dumps(value, ensure_ascii=False)) or ""


def flag_or_none(value: Any) -> bool | None:
    """Return true, false, 1 or 0 as a boolean, else None."""
    return bool(value) if value in (0, 1) else None


def wall_time_or_none(value: Any) -> dt.datetime | None:
    """Parse a clock time such as ``2019-03-19 23:49:51``, else return None."""
    try:
        return dt.datetime.fromisoformat(value).replace(tzinfo=None)
    except (TypeError, ValueError):
        return None


def instant_or_none(value: Any) -> dt.datetime | None:
    """Convert a time such as ``2026-03-01T00:00:00-08:00`` to UTC, else return None."""
    try:
        parsed = dt.datetime.fromisoformat(value)
        return parsed.astimezone(dt.UTC) if parsed.tzinfo is not None else None
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
    """Return the columns named like fields of the object."""
    columns = stream.columns.items()
    return {name: _READERS[column.kind](sent_object.get(name)) for name, column in columns if column.kind in _READERS}


def fetch_member(client: MixpanelClient, call: Call, *path: str, kind: type) -> Any:
    """Send a request and return the value at ``path``, a sequence of nested names.

    :raises ConnectError: as :meth:`.MixpanelClient.fetch`, or another shape.
    """
    data = client.fetch(call)
    value = client.parse_json(data)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, kind):
        raise client.incomplete_answer_error(len(data))
    return value


def fetch_entries(
    client: MixpanelClient, call: Call, *path: str, entry_name: str, id_field: str = "id"
) -> list[dict[str, Any]]:
    """Send a request and return the list at ``path``.

    :raises DataError: an entry without number in ``id_field``.
    """
    entries: list[Any] = fetch_member(client, call, *path, kind=list)
    if not all(isinstance(entry, dict) and bigint_or_none(entry.get(id_field)) is not None for entry in entries):
        raise DataError(f"the list of {entry_name} has an entry without an id. Report it to Mixpanel")
    return entries


def value_of_day(client: MixpanelClient, by_date: Any, report_name: str) -> Any:
    """Return a report's value for the requested day, or None. Counts other days as ``other_day``.

    :raises RetriableError: there are only other days.
    """
    if not isinstance(by_date, dict):
        raise RetriableError(f"{report_name}: Mixpanel's answer has no days")
    date = str(client.day)
    day_values = [value for name, value in by_date.items() if name[:10] == date]
    other_days = len(by_date) - min(len(day_values), 1)
    if other_days and not day_values:
        raise RetriableError(f"{report_name}: Mixpanel answered for other days than the requested {date}")
    if other_days:
        client.tally.counts["other_day"] += other_days
    return day_values[0] if day_values else None


def require_count(value: Any, report_name: str) -> int:
    """Return a whole number. Raises DataError for any other value."""
    count = bigint_or_none(value)
    if count is None:
        raise DataError(f"{report_name}: a count is not a whole number. Report it to Mixpanel")
    return count


RowValues = Mapping[str, Any]
"""Values by column, without ``record_key``. Missing values are null."""

_ROWS_AT_ONCE = 10_000


def batch_reader(fetch_rows: Callable[[MixpanelClient], Iterable[RowValues]]) -> BatchReader:
    """Return a ``read_batches`` that uses a function to fetch rows."""

    def read(stream: MixpanelStream, client: MixpanelClient) -> Iterator[pa.RecordBatch]:
        rows = iter(fetch_rows(client))
        while row_group := list(islice(rows, _ROWS_AT_ONCE)):
            client.tally.rows += len(row_group)
            yield _batch(stream, client, row_group)

    return read


def _batch(stream: MixpanelStream, client: MixpanelClient, rows: list[RowValues]) -> pa.RecordBatch:
    import pyarrow as pa

    fields = schema((), stream.columns)
    names = [name for name in fields.names if name != "record_key"]
    try:
        columns = {name: pa.array([row.get(name) for row in rows], fields.field(name).type) for name in names}
    except (pa.ArrowException, OverflowError):  # its text would be a value
        raise DataError(f"stream {stream.name!r}: a value does not fit the type of its column") from None
    columns["record_key"] = hex_record_keys(stream.variant(client.options), [columns[name] for name in stream.key])
    return pa.RecordBatch.from_arrays([columns[name] for name in fields.names], schema=fields)
