"""Builds an Arrow column from decoded values. A value that does not fit the type becomes null and is reported."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from airflow_provider_connect.sources._rest.records import Column
from airflow_provider_connect.values.json.typed import (
    decimal_digits,
    read_dates,
    read_decimals,
    read_instants,
    read_plain,
)

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_PER_SECOND = {"epoch_s": 1, "epoch_ms": 1000}
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Seconds of the years 1 to 9999."""

JsonTextOf = Callable[[int], str | None]
"""Returns the JSON text of the value in this row."""


def build_column(column: Column, values: list[Any], json_text_of: JsonTextOf) -> tuple[pa.Array, list[int]]:
    """Return a column, and the rows with a value that does not fit. Missing and null values fit.

    :param values: decoded values. For a column that needs JSON text: that text, ``b""`` if missing.
    """
    kind = column.type
    if kind == "json":
        return _documents(values)
    if (digits := decimal_digits(kind)) is not None:
        return _decimals(values, *digits)
    types = set(map(type, values))
    if kind == "string" and not types <= {str, type(None)}:
        values = [_as_text(row, value, json_text_of) for row, value in enumerate(values)]
        types = set(map(type, values))
    if kind == "timestamp":
        array = _times(column, values)
    elif kind == "date":
        array, _ = read_dates(values)
    else:
        array, _ = read_plain(values, kind, types)
    return array, _misfits(array, values)


def _misfits(array: pa.Array, values: Sequence[Any]) -> list[int]:
    # Without nulls, the usual case, no value needs a check.
    if not array.null_count or array.null_count == values.count(None):
        return []
    return [
        row for row in array.is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist() if values[row] is not None
    ]


def _documents(values: list[Any]) -> tuple[pa.Array, list[int]]:
    import pyarrow as pa

    texts = [None if value in (None, b"", b"null") else value for value in values]
    with suppress(pa.ArrowInvalid):
        return pa.array(texts, pa.binary()).cast(pa.string()), []
    valid_texts = [text if text is None or _is_utf8(text) else None for text in texts]
    array = pa.array(valid_texts, pa.binary()).cast(pa.string())
    return array, _misfits(array, texts)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decimals(values: list[Any], precision: int, scale: int) -> tuple[pa.Array, list[int]]:
    """Parse numbers, and strings that hold a number, without loss of digits."""
    marks: list[Any] = []
    texts: dict[int, str] = {}
    for row, value in enumerate(values):
        if value in (None, b"", b"null"):
            marks.append(None)
            continue
        inner = value[1:-1] if value[:1] == b'"' else value
        is_number = _NUMBER.fullmatch(inner) is not None
        marks.append(0.0 if is_number else "")
        if is_number:
            texts[row] = inner.decode()
    array, _ = read_decimals(marks, texts, precision, scale)
    return array, _misfits(array, marks)


def _as_text(row: int, value: Any, source: JsonTextOf) -> Any:
    if value is None or isinstance(value, str):
        return value
    # A whole number has only one form. Other values need their JSON text for the digits.
    return str(value) if type(value) is int else source(row)


def _times(column: Column, values: list[Any]) -> pa.Array:
    import pyarrow as pa

    if column.format != "iso":
        return _epochs(values, _PER_SECOND[column.format])
    if column.zone == "UTC":
        array, _ = read_instants(values)
        return array
    tz = ZoneInfo(column.zone)
    return pa.array([_instant(value, tz) for value in values], pa.timestamp("us", tz="UTC"))


def _instant(value: Any, tz: ZoneInfo) -> dt.datetime | None:
    if not isinstance(value, str):
        return None
    with suppress(ValueError, OverflowError):
        instant = dt.datetime.fromisoformat(value)
        return (instant if instant.tzinfo is not None else instant.replace(tzinfo=tz)).astimezone(dt.UTC)
    return None


def _epochs(values: list[Any], per_second: int) -> pa.Array:
    import pyarrow as pa

    micros = 1_000_000 // per_second
    low, high = _FIRST_SECOND * per_second, _LAST_SECOND * per_second
    micros_or_none = [
        None
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high
        else round(value * micros)
        for value in values
    ]
    return pa.array(micros_or_none, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
