"""Values in options, as values of a column's type."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.values.arrow import plain_type, shape_of

if TYPE_CHECKING:
    import pyarrow as pa

Scalar = bool | int | float | str
"""A value as JSON has it. Dates and times are text, such as ``2026-03-01T12:00:00Z``; decimals may be."""

_OF_PYTHON: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "float": (int, float),
    "decimal": (int, float, str),
    "date": (str,),
    "timestamp": (str,),
}


def literal(value: Scalar, kind: pa.DataType) -> Any:
    """Return a value of a column's type, exactly; None if it has none such."""
    import pyarrow as pa

    kind = plain_type(kind)
    shape = shape_of(kind)
    if type(value) not in _OF_PYTHON.get(shape or "", ()):
        return None
    with suppress(pa.ArrowException, OverflowError, ValueError, InvalidOperation):
        made = pa.scalar(_python_value(value, shape, kind), kind)
        return made if made.is_valid else None
    return None


def _python_value(value: Any, shape: str | None, kind: pa.DataType) -> Any:
    if shape == "decimal":
        return Decimal(str(value))
    if shape == "date":
        return dt.date.fromisoformat(value)
    if shape == "timestamp":
        moment = dt.datetime.fromisoformat(value)
        if kind.tz is None:
            # What a clock shows has no offset, and a guess would be wrong in some zone.
            return moment if moment.tzinfo is None else None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
    return value
