"""Types of columns read over JDBC, by the driver's type codes."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.sql.database import MAX_DECIMAL_DIGITS, ReadColumn, SqlColumn, ValueChoices
from airflow_provider_connect.errors import ConfigError, DataError

if TYPE_CHECKING:
    import pyarrow as pa

BASE_TYPES = {
    -7: "bit",
    -6: "tinyint",
    5: "smallint",
    4: "integer",
    -5: "bigint",
    7: "real",
    6: "float",
    8: "double",
    2: "numeric",
    3: "decimal",
    16: "boolean",
    1: "char",
    12: "varchar",
    -1: "varchar",
    -15: "char",
    -9: "varchar",
    -16: "varchar",
    2005: "clob",
    2011: "clob",
    -2: "binary",
    -3: "binary",
    -4: "binary",
    2004: "blob",
    91: "date",
    92: "time",
    93: "timestamp",
    2013: "time with time zone",
    2014: "timestamp with time zone",
}
"""Names for the type codes of ``java.sql.Types``."""
GREGORIAN_START = dt.date(1582, 10, 15)
"""Day since which Java's dates have the Gregorian calendar."""
_DECIMAL = re.compile(r"(?:decimal|numeric)\((-?\d+),(-?\d+)\)")
_TEXT_ADVICE = "select it as text in a query, such as CAST(c AS VARCHAR(100)), or leave it out with columns="
_LOSSES = {
    "time": "Spark's reader cuts fractions of a second",
    "time with time zone": "Spark's reader drops the zone",
    "bit": "Spark's reader reads bits as bytes",
}


def base_type(code: int, precision: int, scale: int, *, is_signed: bool) -> str:
    """Return the base type of a driver's type code, or ""."""
    name = BASE_TYPES.get(code, "")
    if name in ("decimal", "numeric"):
        return f"{name}({precision},{scale})"
    if name == "bit":
        return "boolean" if precision <= 1 else name
    if name in ("tinyint", "smallint", "integer", "bigint") and not is_signed:
        return f"{name} unsigned"
    return name


def read_column(column: SqlColumn, choices: ValueChoices, quoted: str) -> ReadColumn:
    """Decide how a column is read.

    :raises ConfigError: Spark would change its values.
    """
    import pyarrow as pa

    if (decimal := _DECIMAL.fullmatch(column.base)) is not None:
        return _read_decimal(column, choices, quoted, int(decimal[1]), int(decimal[2]))
    arrow_types = {
        "tinyint": pa.int16(),
        "tinyint unsigned": pa.int16(),
        "smallint": pa.int16(),
        "smallint unsigned": pa.int32(),
        "integer": pa.int32(),
        "integer unsigned": pa.int64(),
        "bigint": pa.int64(),
        "bigint unsigned": pa.decimal128(20, 0),
        "real": pa.float32(),
        "float": pa.float64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "char": pa.string(),
        "varchar": pa.string(),
        "clob": pa.string(),
        "binary": pa.binary(),
        "blob": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
        "timestamp with time zone": pa.timestamp("us", "UTC"),
    }
    if column.base not in arrow_types:
        reason = _LOSSES.get(column.base, "Spark's reader has no exact type for it")
        raise ConfigError(f"column {column.name!r} of type {column.type}: {reason}: {_TEXT_ADVICE}")
    return _make_column(column, quoted, arrow_types[column.base])


def _read_decimal(column: SqlColumn, choices: ValueChoices, quoted: str, precision: int, scale: int) -> ReadColumn:
    import pyarrow as pa

    fits = 0 < precision <= MAX_DECIMAL_DIGITS and 0 <= scale <= precision
    if choices.decimals == "double":
        return _make_column(column, f"CAST({quoted} AS DOUBLE PRECISION)", pa.float64())
    if not fits and choices.decimals == "exact":
        raise ConfigError(
            f"column {column.name!r} of type {column.type}: it declares no precision or more than 38 digits, so "
            "Spark's reader would cut or lose numbers. Set decimals='string' or 'double', or cast it in a query"
        )
    if not fits:
        return _make_column(column, f"CAST({quoted} AS VARCHAR(100))", pa.string())
    decimal_type = pa.decimal128(precision, scale)
    return _make_column(column, quoted, decimal_type, pa.string() if choices.decimals == "string" else decimal_type)


def _make_column(
    column: SqlColumn, expression: str, read_type: pa.DataType, batch_type: pa.DataType | None = None
) -> ReadColumn:
    return ReadColumn(
        column.name,
        column.type,
        expression,
        read_type=read_type,
        type=batch_type or read_type,
        is_nullable=column.is_nullable,
        advice=_TEXT_ADVICE,
    )


def require_same_types(columns: Sequence[ReadColumn], spark_types: Sequence[str]) -> None:
    """Raise ConfigError unless Spark would read the columns as their planned types."""
    for column, name in zip(columns, spark_types, strict=True):
        kind = _arrow_type_of_spark(name)
        if kind is None or not _converts_exactly(kind, column.read_type):
            raise ConfigError(
                f"column {column.name!r} of type {column.database_type}: Spark's reader makes {name} of it "
                f"instead of {column.read_type}: {_TEXT_ADVICE}"
            )


def _arrow_type_of_spark(name: str) -> pa.DataType | None:
    import pyarrow as pa

    if (decimal := re.fullmatch(r"decimal\((\d+),(\d+)\)", name)) is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    arrow_types = {
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }
    return arrow_types.get(name)


def _converts_exactly(spark_type: pa.DataType, read_type: pa.DataType) -> bool:
    """Return whether a cast keeps or refuses each value."""
    from pyarrow import types

    both_types = (spark_type, read_type)
    if all(types.is_integer(kind) for kind in both_types) or all(types.is_floating(kind) for kind in both_types):
        return True
    if all(types.is_decimal(kind) for kind in both_types):
        return bool(spark_type.scale == read_type.scale and spark_type.precision >= read_type.precision)
    return bool(spark_type == read_type)


def convert_batch(batch: pa.RecordBatch, columns: Sequence[ReadColumn]) -> list[pa.Array]:
    """Convert Spark's batch to the columns' read types. Decimals to be read as text stay decimals.

    :raises DataError: a value does not fit.
    """
    return [_convert_column(array, column) for array, column in zip(batch.columns, columns, strict=True)]


def _convert_column(array: pa.Array, column: ReadColumn) -> pa.Array:
    import pyarrow as pa

    if not column.is_nullable and array.null_count:
        # Spark writes NULL for a decimal that is too long, drivers for a value that they cannot read.
        raise DataError(
            f"{column.title} is declared NOT NULL, but {array.null_count} values arrived as NULL: {column.advice}"
        )
    try:
        return array.cast(column.read_type)
    except pa.ArrowException:
        raise DataError(
            f"{column.title} holds a value that is not a valid {column.read_type}: {column.advice}"
        ) from None


def require_recent_times(array: pa.Array, column: ReadColumn) -> None:
    """Refuse dates and times before :data:`GREGORIAN_START`, which some drivers shift by days.

    :raises DataError: the column has one.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_date(array.type) or pa.types.is_timestamp(array.type)):
        return
    if pc.any(pc.less(array, pa.scalar(GREGORIAN_START).cast(array.type))).as_py():
        raise DataError(
            f"{column.title} has a date before {GREGORIAN_START}, of which this database's driver makes another day: "
            f"{column.advice}"
        )
