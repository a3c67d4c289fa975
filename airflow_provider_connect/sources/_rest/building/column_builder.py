"""Builds an Arrow column from decoded values. A value that does not fit becomes null and is reported."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from airflow_provider_connect.sources._rest.building.record_decoder import needs_json_text
from airflow_provider_connect.sources._rest.records import Column
from airflow_provider_connect.sources._rest.time_forms import PER_SECOND, is_iso_form, read_time
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
_WHOLE_NUMBER = re.compile("-?[0-9]{1,19}")
_EPOCH_TEXT = re.compile(r"-?[0-9]{1,17}(?:\.[0-9]{1,9})?")
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Seconds of the years 1 to 9999."""

JsonTextOf = Callable[[int], str | None]
"""Returns the JSON text of the value in a row."""


def build_column(column: Column, values: list[Any], json_text_of: JsonTextOf) -> tuple[pa.Array, list[int]]:
    """Return a column, and the rows with a value that does not fit. Missing and null values fit.

    :param values: for a column that needs JSON text: that text, ``b""`` if missing.
    """
    kind = column.type
    if column.null_if:
        values = _without_nothing(values, column)
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
        array = _dates(column, values)
    else:
        if str in types and kind in ("bigint", "double"):
            values = [_number(value, kind) if type(value) is str else value for value in values]
            types = set(map(type, values))
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
    """Parse numbers, and texts that hold a number, without loss of digits."""
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


def _without_nothing(values: list[Any], column: Column) -> list[Any]:
    """Replace the values of ``null_if``. A boolean equals a number in Python, but not here."""
    if needs_json_text(column.type):
        texts = {
            json.dumps(value, ensure_ascii=is_escaped).encode()
            for value in column.null_if
            for is_escaped in (True, False)
        }
        return [b"" if value in texts else value for value in values]
    nothing = {(type(value), value) for value in column.null_if}
    return [None if isinstance(value, str | int) and (type(value), value) in nothing else value for value in values]


def _number(text: str, kind: str) -> Any:
    if kind == "bigint":
        return int(text) if _WHOLE_NUMBER.fullmatch(text) else text
    is_number = _NUMBER.fullmatch(text.encode("utf-8", "replace")) and math.isfinite(float(text))
    return float(text) if is_number else text


def _times(column: Column, values: list[Any]) -> pa.Array:
    import pyarrow as pa

    if column.format in PER_SECOND:
        return _epochs(values, PER_SECOND[column.format])
    kind, tz = pa.timestamp("us", tz="UTC"), ZoneInfo(column.zone)
    if column.zone != "UTC" or not is_iso_form(column.format):
        return pa.array([_instant(value, column.format, tz) for value in values], kind)
    array, misfit_count = read_instants(values)
    if misfit_count:
        found = array.to_pylist()
        for row in _misfits(array, values):
            found[row] = _instant(values[row], column.format, tz)
        array = pa.array(found, kind)
    return array


def _dates(column: Column, values: list[Any]) -> pa.Array:
    import pyarrow as pa

    if is_iso_form(column.format):
        array, _ = read_dates(values)
        return array
    instants = [_instant(value, column.format, ZoneInfo("UTC")) for value in values]
    return pa.array([None if instant is None else instant.date() for instant in instants], pa.date32())


def _instant(value: Any, form: str, tz: ZoneInfo) -> dt.datetime | None:
    if type(value) is int and "%" in form:  # 20260301 may come as a number
        value = str(value)
    return read_time(value, form, tz) if isinstance(value, str) else None


def _epoch_number(value: Any) -> Any:
    """Return a number that can be multiplied exactly, so that no time is rounded into the next day."""
    if isinstance(value, float) and math.isfinite(value):
        return Decimal(repr(value))
    return Decimal(value) if isinstance(value, str) and _EPOCH_TEXT.fullmatch(value) else value


def _epochs(values: list[Any], per_second: int) -> pa.Array:
    import pyarrow as pa

    micros = 1_000_000 // per_second
    low, high = _FIRST_SECOND * per_second, _LAST_SECOND * per_second
    numbers = [_epoch_number(value) for value in values]
    micros_or_none = [
        None
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not low <= value <= high
        else math.floor(value * micros)
        for value in numbers
    ]
    return pa.array(micros_or_none, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
