"""Streams whose answers are documents of moderate size: their rows are made one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.polling.keys import hex_keys
from airflow_provider_connect.sources._mixpanel.asking import Asking
from airflow_provider_connect.sources._mixpanel.columns import schema
from airflow_provider_connect.sources._mixpanel.stream import Read, Stream

if TYPE_CHECKING:
    import pyarrow as pa

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
