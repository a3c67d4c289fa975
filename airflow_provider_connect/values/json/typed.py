"""Creates Arrow columns from decoded JSON values. A value that does not fit exactly becomes NULL."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

MAX_DIGITS = 38
"""Most digits of a decimal in Spark, Delta and Arrow's decimal128."""
_DECIMAL = re.compile(r"decimal\( *([0-9]{1,2}) *, *([0-9]{1,2}) *\)")

_USUAL_TIME = r"^([1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z?$"
"""Excludes the year 0, which no sink has."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EXACT = Context(prec=MAX_DIGITS, traps=[Inexact, InvalidOperation])
_BEYOND = 10**MAX_DIGITS

_NONE = type(None)
_PLAIN: dict[str, type] = {"string": str, "double": float, "bigint": int, "boolean": bool}


def decimal_digits(kind: str) -> tuple[int, int] | None:
    """Return precision and scale of a decimal type, or None."""
    match = _DECIMAL.fullmatch(kind)
    if match is None:
        return None
    precision, scale = int(match[1]), int(match[2])
    return (precision, scale) if 0 < precision <= MAX_DIGITS and scale <= precision else None


def read_plain(values: list[Any], kind: str, types: set[type]) -> tuple[pa.Array, int]:
    """Return a column of a JSON type, and the number of values that do not fit. Missing and null values fit."""
    import pyarrow as pa

    checks: dict[str, tuple[Callable[[Any], bool], pa.DataType]] = {
        "string": (lambda value: isinstance(value, str), pa.string()),
        "double": (_fits_double, pa.float64()),
        "bigint": (fits_bigint, pa.int64()),
        "boolean": (lambda value: isinstance(value, bool), pa.bool_()),
    }
    fits, type_ = checks[kind]
    if types <= {_PLAIN[kind], _NONE}:
        with suppress(pa.ArrowException, OverflowError):  # an integer out of range
            return pa.array(values, type_), 0
    fitting = [value if fits(value) else None for value in values]
    return pa.array(fitting, type_), fitting.count(None) - values.count(None)


def read_instants(values: list[Any]) -> tuple[pa.Array, int]:
    """Read times such as ``2026-03-01T12:00:00``. Returns the column and the number of misfits.

    Missing and null values fit. A time without an offset is in UTC, a date is its midnight in UTC. A number does not
    fit (https://docs.mixpanel.com/docs/data-structure/property-reference/data-type, 2026-11).
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.timestamp("us", tz="UTC")
    is_plain = set(map(type, values)) <= {str, _NONE}
    texts = pa.array(
        values if is_plain else [value if isinstance(value, str) else None for value in values], pa.string()
    )
    usual = pc.match_substring_regex(texts, _USUAL_TIME)
    with suppress(pa.ArrowException):  # the thirtieth of February
        if is_plain and texts.null_count == 0 and usual.true_count == len(values):  # nearly always
            return pc.ascii_rtrim(texts, characters="Z").cast(pa.timestamp("us")).cast(kind), 0
        usual = pc.fill_null(usual, fill_value=False)
        plain_times = pc.ascii_rtrim(pc.if_else(usual, texts, None), characters="Z")
        result = plain_times.cast(pa.timestamp("us")).cast(kind)
        odd_rows = pc.indices_nonzero(pc.invert(usual)).to_pylist()
        odd_values = [_instant(values[at]) for at in odd_rows]
        if any(odd_values):
            result = pc.replace_with_mask(result, pc.invert(usual), pa.array(odd_values, kind))
        return result, odd_values.count(None) - values.count(None)
    times = [_instant(value) for value in values]
    return pa.array(times, kind), times.count(None) - values.count(None)


def read_dates(values: list[Any]) -> tuple[pa.Array, int]:
    """Read dates such as ``2026-03-01``. Returns the column and the number of misfits.

    Missing and null values fit. A time does not fit.
    """
    import pyarrow as pa

    result = [_date(value) for value in values]
    return pa.array(result, pa.date32()), result.count(None) - values.count(None)


def read_decimals(values: list[Any], sources: Mapping[int, str], precision: int, scale: int) -> tuple[pa.Array, int]:
    """Read numbers digit by digit. Returns the column and the number of misfits. Missing and null values fit.

    A number with more digits than the type does not fit, except for trailing zeros.

    :param sources: by row, the JSON text of a number that was decoded as a float.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.decimal128(precision, scale)
    texts = [sources.get(row) if type(value) is float else _whole_text(value) for row, value in enumerate(values)]
    text_array = pa.array(texts, pa.string())
    longest = pc.max(pc.binary_length(text_array)).as_py() or 0
    has_exponents = pc.any(pc.match_substring(text_array, "e", ignore_case=True)).as_py()
    # Past 38 digits, or with large exponents, pyarrow's cast returns other numbers without an error.
    if longest + scale <= MAX_DIGITS and not has_exponents:
        with suppress(pa.ArrowException):
            return text_array.cast(kind), texts.count(None) - values.count(None)
    result = [None if text is None else _decimal(text, precision, scale) for text in texts]
    return pa.array(result, kind), result.count(None) - values.count(None)


def fits_bigint(value: Any) -> bool:
    """Return True for an integer in the range of BIGINT."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _fits_double(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= 2**53 if isinstance(value, int) else math.isfinite(value)


def _instant(value: Any) -> dt.datetime | None:
    if not isinstance(value, str):
        return None
    with suppress(ValueError, OverflowError):
        instant = dt.datetime.fromisoformat(value)
        return instant.replace(tzinfo=dt.UTC) if instant.tzinfo is None else instant.astimezone(dt.UTC)
    return None


def _date(value: Any) -> dt.date | None:
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        return None
    with suppress(ValueError):  # the thirtieth of February
        return dt.date.fromisoformat(value)
    return None


def _whole_text(value: Any) -> str | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_whole and -_BEYOND < value < _BEYOND else None


def _decimal(text: str, precision: int, scale: int) -> Decimal | None:
    with suppress(Inexact, InvalidOperation):
        number = Decimal(text)
        if not number:
            return Decimal(0)
        if number.adjusted() < precision - scale:
            return number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    return None
