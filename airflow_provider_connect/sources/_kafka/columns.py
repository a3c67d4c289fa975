"""Arrow columns from the JSON texts of a field. A value that does not fit exactly makes its record bad."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.values.json.typed import (
    decimal_digits,
    fits_bigint,
    read_dates,
    read_decimals,
    read_instants,
    read_plain,
)

if TYPE_CHECKING:
    import pyarrow as pa

_NULL = b"null"
_MICROSECONDS = {"epoch_seconds": 1_000_000, "epoch_millis": 1_000, "epoch_micros": 1}
_LATEST = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
_MAX_MICROSECONDS = int(_LATEST.timestamp()) * 1_000_000
_MIN_MICROSECONDS = -62_135_596_800 * 1_000_000
_DAYS = range(-719_162, 2_932_897)
"""Days of the years 1 to 9999, from 1970."""


def arrow_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a type of the option ``columns``."""
    import pyarrow as pa

    if (digits := decimal_digits(kind)) is not None:
        return pa.decimal128(*digits)
    instant = pa.timestamp("us", tz="UTC")
    return {
        "string": pa.string(),
        "json": pa.string(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "epoch_days": pa.date32(),
        "timestamp": instant,
    }.get(kind, instant)


def read_column(texts: Sequence[bytes | None], kind: str) -> tuple[pa.Array, int]:
    """Return a column of JSON values, and the number of values that do not fit the type. null and None fit.

    :param texts: JSON text of each row's value. None where the record has no such field.
    """
    import msgspec
    import pyarrow as pa

    if kind == "json":
        return pa.array([None if text in (None, _NULL) else text.decode() for text in texts], pa.string()), 0
    # One call decodes the whole column.
    values: list[Any] = msgspec.json.decode(b"[" + b",".join(text or _NULL for text in texts) + b"]")
    if kind in _MICROSECONDS:
        return _epochs(values, _MICROSECONDS[kind])
    if (digits := decimal_digits(kind)) is not None:
        sources = {row: text.decode() for row, text in enumerate(texts) if text is not None}
        return read_decimals(values, sources, *digits)
    readers = {"epoch_days": _epoch_days, "timestamp": read_instants, "date": read_dates}
    return readers[kind](values) if kind in readers else read_plain(values, kind, set(map(type, values)))


def _epoch_days(values: list[Any]) -> tuple[pa.Array, int]:
    import pyarrow as pa

    days = [value if fits_bigint(value) and value in _DAYS else None for value in values]
    return pa.array(days, pa.int32()).cast(pa.date32()), days.count(None) - values.count(None)


def _epochs(values: list[Any], microseconds: int) -> tuple[pa.Array, int]:
    import pyarrow as pa

    instants = [
        value * microseconds
        if fits_bigint(value) and _MIN_MICROSECONDS <= value * microseconds <= _MAX_MICROSECONDS
        else None
        for value in values
    ]
    misfits = instants.count(None) - values.count(None)
    return pa.array(instants, pa.int64()).cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC")), misfits
