"""Makes promoted columns from decoded properties: exact, or null and counted."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.sources._mixpanel.promote import MAX_DIGITS, Promoted, decimal_digits
from airflow_provider_connect.sources._mixpanel.records import NotARecordError, Records, members

if TYPE_CHECKING:
    import pyarrow as pa

_USUAL_TIME = r"^([1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])-\d\d-\d\dT\d\d:\d\d:\d\d$"  # no sink has a year 0
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EXACT = Context(prec=MAX_DIGITS, traps=[Inexact, InvalidOperation])
_BEYOND = 10**MAX_DIGITS

_NONE = type(None)
_NESTED = {dict, list}
_PLAIN: dict[str, type] = {"string": str, "double": float, "bigint": int, "boolean": bool}
"""If a column has only these types and None, all its values fit; otherwise each is checked."""


class PromotedColumns:
    """Makes the promoted columns of any records of one poll.

    :param null_texts: texts that mean null.
    :param count: adds a number to a count of the report.
    """

    def __init__(
        self, promoted: Sequence[Promoted], null_texts: Collection[str], count: Callable[[str, int], None]
    ) -> None:
        self._promoted = promoted
        self._null_texts = frozenset(null_texts)
        self._count = count
        self._sources = {one.property: Sources(one.property) for one in promoted}

    def of(self, values: Mapping[str, list[Any]], records: Records) -> dict[str, pa.Array]:
        """Return the columns by name.

        :param values: the decoded values by property.
        """
        columns = {}
        for name, column, kind in self._promoted:
            found = values[name]
            if self._null_texts:
                missing = found.count(None)
                found = [None if isinstance(one, str) and one in self._null_texts else one for one in found]
                self._count(f"promote_null_text.{name}", found.count(None) - missing)
            columns[column], misfits = self._typed(name, kind, found, records)
            self._count(f"promote_null.{name}", misfits)
        return columns

    def _typed(self, name: str, kind: str, values: list[Any], records: Records) -> tuple[pa.Array, int]:
        if kind == "timestamp":
            return instants(values)
        if kind == "date":
            return dates(values)
        if (digits := decimal_digits(kind)) is not None:
            sources = self._sources[name].of(records, [row for row, one in enumerate(values) if type(one) is float])
            return decimals(values, sources, *digits)
        types = set(map(type, values))
        if kind == "string" and not types.isdisjoint(_NESTED):
            nested = [row for row, one in enumerate(values) if type(one) in _NESTED]
            sources = self._sources[name].of(records, nested)
            values = [sources.get(row, one) for row, one in enumerate(values)]
            types = set(map(type, values))
        return plain(values, kind, types)


class Sources:
    """Finds the JSON text of one property: what decoding changes, such as the digits of a number, is still there."""

    def __init__(self, name: str) -> None:
        import msgspec

        wanted = msgspec.defstruct(
            "Wanted", [("value", msgspec.Raw, msgspec.Raw())], rename={"value": name}.get, gc=False
        )
        self._name = name
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(wanted).decode
        self._malformed = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

    def of(self, records: Records, rows: list[int]) -> dict[int, str]:
        """Return the text of each of these rows; a row whose text cannot be found has none."""
        import numpy as np
        import pyarrow as pa

        if not rows:
            return {}
        texts = records.properties(np.array(rows, np.int64)).cast(pa.binary()).to_pylist()
        found = {row: self._of(text) for row, text in zip(rows, texts, strict=True)}
        return {row: text for row, text in found.items() if text is not None}

    def _of(self, properties: bytes) -> str | None:
        try:
            return bytes(self._decode(properties).value).decode()
        except self._malformed:  # what msgspec does not read, such as lone surrogates
            with suppress(NotARecordError):
                return dict(members(properties.decode())).get(self._name)
        return None


def plain(values: list[Any], kind: str, types: set[type]) -> tuple[pa.Array, int]:
    """Return a column of a type that JSON has, and how many values do not fit it; missing and null ones do.

    :param types: of the values.
    """
    import pyarrow as pa

    fits, type_ = {
        "string": (_fits_string, pa.string()),
        "double": (_fits_double, pa.float64()),
        "bigint": (_fits_bigint, pa.int64()),
        "boolean": (_fits_boolean, pa.bool_()),
    }[kind]
    if types <= {_PLAIN[kind], _NONE}:
        with suppress(pa.ArrowException, OverflowError):  # an integer out of range
            return pa.array(values, type_), 0
    fitting = [value if fits(value) else None for value in values]
    return pa.array(fitting, type_), fitting.count(None) - values.count(None)


def instants(values: list[Any]) -> tuple[pa.Array, int]:
    """Read times such as ``2026-03-01T12:00:00``; return them, and how many values are none. Missing and null ones are.

    A time without an offset is one in UTC, and a date is its midnight in UTC: so Mixpanel defines its dates. A number
    is none: Mixpanel does not say whether it counts seconds or milliseconds
    (https://docs.mixpanel.com/docs/data-structure/property-reference/data-type, 2026-11).
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.timestamp("us", tz="UTC")
    texts = pa.array([value if isinstance(value, str) else None for value in values], pa.string())
    usual = pc.fill_null(pc.match_substring_regex(texts, _USUAL_TIME), fill_value=False)
    with suppress(pa.ArrowException):  # the thirtieth of February
        found = pc.if_else(usual, texts, None).cast(pa.timestamp("us")).cast(kind)
        odd = pc.indices_nonzero(pc.invert(usual)).to_pylist()
        others = [_instant(values[at]) for at in odd]
        if any(others):
            found = pc.replace_with_mask(found, pc.invert(usual), pa.array(others, kind))
        return found, others.count(None) - values.count(None)
    read = [_instant(value) for value in values]
    return pa.array(read, kind), read.count(None) - values.count(None)


def dates(values: list[Any]) -> tuple[pa.Array, int]:
    """Read dates such as ``2026-03-01``; return them, and how many values are none. Missing and null ones are.

    A time is none: which day it is on would depend on a zone.
    """
    import pyarrow as pa

    read = [_date(value) for value in values]
    return pa.array(read, pa.date32()), read.count(None) - values.count(None)


def decimals(values: list[Any], sources: Mapping[int, str], precision: int, scale: int) -> tuple[pa.Array, int]:
    """Read numbers digit for digit; return them, and how many values do not fit. Missing and null ones do.

    Nothing is rounded: a number with more digits than the type does not fit, except for zeros at its end.

    :param sources: JSON text of those rows whose number is a float, which may have lost digits.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.decimal128(precision, scale)
    texts = [sources.get(row) if type(one) is float else _whole_text(one) for row, one in enumerate(values)]
    written = pa.array(texts, pa.string())
    longest = pc.max(pc.binary_length(written)).as_py() or 0
    has_exponents = pc.any(pc.match_substring(written, "e", ignore_case=True)).as_py()
    # Past 38 digits, or with large exponents, pyarrow's cast returns other numbers without an error.
    if longest + scale <= MAX_DIGITS and not has_exponents:
        with suppress(pa.ArrowException):
            return written.cast(kind), texts.count(None) - values.count(None)
    read = [None if text is None else _decimal(text, precision, scale) for text in texts]
    return pa.array(read, kind), read.count(None) - values.count(None)


def _fits_string(value: Any) -> bool:
    return isinstance(value, str)


def _fits_boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _fits_bigint(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _fits_double(value: Any) -> bool:
    """Tell whether a value is a number that a double holds, a whole number even exactly."""
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
    """Return a JSON number if it fits; its exponent may be of any size."""
    with suppress(Inexact, InvalidOperation):
        number = Decimal(text)
        if not number:
            return Decimal(0)
        if number.adjusted() < precision - scale:
            return number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    return None
