"""Arrow types for SQLite's columns, by declared type.

Names: https://www.sqlite.org/datatype3.html, section 3.1, and common use.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.sql.database import ReadColumn, SqlColumn, ValueChoices, decimal_type

if TYPE_CHECKING:
    import pyarrow as pa

_DECIMAL = re.compile(r"(?:decimal|numeric) *(?:\( *(\d+) *(?:, *(\d+) *)?\))?")
_NUMBER_TEXT = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
_FLOAT_ADVICE = "SQLite may have stored a floating number that is no such decimal: decimals='double' reads it"
_FLOAT_DIGITS = 15
"""Decimal digits that every double keeps: https://www.sqlite.org/floatingpoint.html (2026-11)."""
_QUERY_ADVICE = "leave it out, or convert it in a query"


def is_decimal(column: SqlColumn) -> bool:
    """Return whether a column is declared decimal or numeric."""
    return _DECIMAL.fullmatch(column.base) is not None


def read_column(column: SqlColumn, choices: ValueChoices, quoted: str) -> ReadColumn:
    """Decide how a column is read, by its declared type."""
    from pyarrow import types

    kind, advice = _type_of(column.base, choices)
    expression = quoted
    if is_decimal(column) and types.is_string(kind):
        # SQLite stores whole numbers exactly. Floating-point numbers may have lost digits and are refused.
        expression = f"CASE typeof({quoted}) WHEN 'integer' THEN CAST({quoted} AS TEXT) ELSE {quoted} END"
    return ReadColumn(
        column.name,
        column.type or "no type",
        expression,
        read_type=kind,
        type=kind,
        is_nullable=column.is_nullable,
        advice=advice,
    )


def exact_decimal(value: float | str, scale: int) -> Decimal:
    """Return the decimal that SQLite stores as ``value``, for a floating number that of its shortest text.

    :param scale: digits after the point.
    :raises ValueError: too many digits, or no number.
    """
    if isinstance(value, str) and not _NUMBER_TEXT.fullmatch(value):
        raise ValueError
    number = Decimal(repr(value) if isinstance(value, float) else value)
    if isinstance(value, float):
        _, digits, exponent = number.normalize().as_tuple()
        if not isinstance(exponent, int) or -exponent > scale or len(digits) + max(exponent, 0) > _FLOAT_DIGITS:
            raise ValueError
    return number


def is_decimal_of(column: ReadColumn, value: object) -> bool:
    """Return False for a floating number that a decimal column cannot be read as."""
    from pyarrow import types

    if not isinstance(value, float):
        return True
    if not types.is_decimal(column.type):
        return False
    try:
        exact_decimal(value, column.type.scale)
    except ValueError:
        return False
    return True


def python_classes(column: ReadColumn) -> set[type]:
    """Return the allowed Python classes of a column's values."""
    from pyarrow import types

    kind = column.type
    if types.is_integer(kind) or types.is_boolean(kind):
        return {int}
    if types.is_floating(kind):
        return {int, float}
    if types.is_decimal(kind):
        return {int, float, str}
    return {bytes} if types.is_binary(kind) else {str}


def _type_of(declared: str, choices: ValueChoices) -> tuple[pa.DataType, str]:
    import pyarrow as pa

    if (decimal := _DECIMAL.fullmatch(declared)) is not None:
        kind = decimal_type(int(decimal[1] or 0), int(decimal[2] or 0), choices)
        return kind, _QUERY_ADVICE if choices.decimals == "double" else _FLOAT_ADVICE
    named_types: dict[str, Any] = {
        "date": pa.date32(),
        "datetime": pa.timestamp("us"),
        "timestamp": pa.timestamp("us"),
        "timestamptz": pa.timestamp("us", "UTC"),
        "timestamp with time zone": pa.timestamp("us", "UTC"),
    }
    if declared in named_types:
        form = "with its offset" if named_types[declared] == pa.timestamp("us", "UTC") else "without an offset"
        return named_types[
            declared
        ], f"only texts in ISO 8601, {form if declared != 'date' else 'dates alone'}, are read"
    if not declared:
        return pa.string(), "a column without a declared type is read as text: use CAST(… AS TEXT) in a query"
    # The order is SQLite's own.
    affinities: tuple[tuple[tuple[str, ...], Any], ...] = (
        (("int",), pa.int64()),
        (("char", "clob", "text"), pa.string()),
        (("blob",), pa.binary()),
        (("real", "floa", "doub"), pa.float64()),
        (("bool",), pa.bool_()),
    )
    for parts, kind in affinities:
        if any(part in declared for part in parts):
            return kind, _QUERY_ADVICE
    return pa.string(), _QUERY_ADVICE
