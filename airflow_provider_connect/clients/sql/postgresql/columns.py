"""Arrow types for PostgreSQL's types.

Types without an entry are read as text: uuid, interval, inet, bit, xml, arrays, ranges, composites, enums and types of
extensions.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.sql.database import (
    ReadColumn,
    SqlColumn,
    ValueChoices,
    decimal_type,
    digits_advice,
)

if TYPE_CHECKING:
    import pyarrow as pa

_IN_PARENTHESES = re.compile(r"\([^()]*\)")
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_TEXT_ADVICE = "read it with a query that selects it as text"
_DATE_ADVICE = f"infinity, or a year before 1 or after 9999? {_TEXT_ADVICE}, or as nullif(column, 'infinity')"
_ADVICE = {
    "date": _DATE_ADVICE,
    "timestamp without time zone": _DATE_ADVICE,
    "timestamp with time zone": _DATE_ADVICE,
    "time without time zone": f"24:00:00? {_TEXT_ADVICE}",
    "numeric": "NaN or an infinity? decimals='string' and 'double' keep them",
}
_BYTES_ADVICE = (
    "bytes that are not UTF-8, which a database in SQL_ASCII accepts? Read them as bytes with a query that selects "
    "convert_to(column, 'SQL_ASCII')"
)
_JSON = ("json", "jsonb")


@lru_cache(maxsize=1)
def _arrow_types() -> dict[str, pa.DataType]:
    import pyarrow as pa

    return {
        "smallint": pa.int16(),
        "integer": pa.int32(),
        "bigint": pa.int64(),
        "oid": pa.int64(),
        "real": pa.float32(),
        "double precision": pa.float64(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "time without time zone": pa.time64("us"),
        "timestamp without time zone": pa.timestamp("us"),
        "timestamp with time zone": pa.timestamp("us", "UTC"),
    }


def read_column(column: SqlColumn, quoted: str, choices: ValueChoices) -> ReadColumn:
    """Decide how a column is read."""
    import pyarrow as pa

    name = _IN_PARENTHESES.sub("", column.base)
    text_column = ReadColumn(
        column.name,
        column.type,
        quoted,
        read_type=pa.string(),
        type=pa.string(),
        is_nullable=column.is_nullable,
        is_json=name in _JSON,
        advice=_ADVICE.get(name, ""),
    )
    if name == "bytea":
        # Only digits, independent of bytea_output.
        return text_column._replace(expression=f"encode({quoted}, 'hex')", form="hex", type=pa.binary())
    if name == "money":
        # As a number, since its text has the currency and separators of lc_monetary.
        text_column = text_column._replace(expression=f"{quoted}::numeric")
    if name not in ("numeric", "money"):
        kind = _arrow_types().get(name, pa.string())
        return text_column._replace(read_type=kind, type=kind)
    declared = _NUMERIC.fullmatch(column.base)
    kind = decimal_type(int(declared[1]), int(declared[2]), choices) if declared else decimal_type(0, 0, choices)
    if kind == pa.float64():
        # Cast by the server, which refuses numbers beyond a double. Arrow would make them infinite.
        text_column = text_column._replace(expression=f"{text_column.expression}::double precision")
    if not declared and pa.types.is_decimal(kind):
        text_column = text_column._replace(advice=f"NaN, an infinity, or {digits_advice(kind)}")
    return text_column._replace(read_type=kind, type=kind)


def with_bytes_advice(column: ReadColumn) -> ReadColumn:
    """Add advice about invalid UTF-8 to a text column."""
    import pyarrow as pa

    return (
        column._replace(advice=_BYTES_ADVICE) if column.read_type == pa.string() and column.form == "plain" else column
    )
