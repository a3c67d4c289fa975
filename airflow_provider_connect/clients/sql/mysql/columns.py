"""Arrow types for MySQL's and MariaDB's types, and the SQL that writes their values."""

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
from airflow_provider_connect.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

_CHARSET = re.compile(r" character set (\w+)$")
UNKNOWN_CHARSET = "unknown"
"""Character set that the server does not report."""
_UNICODE_CHARSETS = {"utf16", "utf16le", "utf32", "utf8", "utf8mb3", "utf8mb4", "latin1"}
"""Character sets with only Unicode characters. ucs2 allows halves of surrogate pairs."""
_TYPE = re.compile(r"(?P<name>[a-z]+\d?)\b(?:\s*\((?P<size>\d+)(?:,(?P<scale>\d+))?\))?")

_PLAIN = "ifnull({column}, '')"
# One item of bytes would make the whole line bytes and prevent conversion, so every text is converted explicitly.
_TEXT = """ifnull(concat('"', replace(convert({column} using utf8mb4), '"', '""'), '"'), '')"""
# The server replaces a character without a counterpart in Unicode by a question mark or U+FFFD. Then 0xFF replaces the
# text. It is not UTF-8, so the reader refuses it and names column and row.
_CONVERTED = "convert({column} using utf8mb4)"
_MARKS = "char_length({text}) - char_length(replace({text}, '?', ''))"
_CHECKED_TEXT = (
    f"if(locate('?', cast({_CONVERTED} as binary)) > 0"
    f" and {_MARKS.replace('{text}', _CONVERTED)} <> {_MARKS.replace('{text}', '{column}')}"
    f" or locate(x'EFBFBD', cast({_CONVERTED} as binary)) > 0, x'FF', cast({_TEXT} as binary))"
)
_HEX_DIGITS = """ifnull(concat('"', hex({column}), '"'), '')"""
# The server prints only six digits of a FLOAT but all of a DOUBLE. Multiplied by one, it is a DOUBLE.
_FLOAT = "ifnull({column} * 1e0, '')"
_BITS = "ifnull({column} + 0, '')"
_UNLESS_ZERO = "if(month({column}) = 0 or dayofmonth({column}) = 0, null, {column})"

_INTEGER_TYPES = {
    "tinyint": ("int8", "int16"),
    "smallint": ("int16", "int32"),
    "mediumint": ("int32", "int32"),
    "int": ("int32", "int64"),
    "bigint": ("int64", "decimal128(20, 0)"),
}
_TEXT_TYPES = {
    "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json", "uuid", "inet4", "inet6",
    "null",
}  # fmt: skip
_BYTE_TYPES = {
    "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector", "geometry", "point", "linestring",
    "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection",
}  # fmt: skip
"""Types read as bytes. Geometries are four bytes of the reference system, then well-known binary."""
_DATE_TYPES = {"date": "date32", "datetime": "timestamp", "timestamp": "instant"}
_ZERO_DATE_ADVICE = "a date with month or day zero? zero_dates='null' makes them NULL"
_ADVICE = {
    "date": _ZERO_DATE_ADVICE,
    "datetime": _ZERO_DATE_ADVICE,
    "timestamp": _ZERO_DATE_ADVICE,
    "time": "below zero, or 24 hours and more? read it with a query that selects cast(column as char)",
}


_CHARACTER_ADVICE = (
    "a character of {charset} that Unicode does not have? Read its bytes with a query that selects "
    "cast(column as binary)"
)


def base_type(kind: str, charset: str | None) -> str:
    """Return a column's type, with a character set that has more than Unicode.

    :param charset: None for no text.
    """
    return kind if charset is None or charset in _UNICODE_CHARSETS else f"{kind} character set {charset}"


def read_column(column: SqlColumn, quoted: str, choices: ValueChoices) -> ReadColumn:
    """Decide how a column is read.

    :raises ConfigError: an unsupported type.
    """
    import pyarrow as pa

    type_match = _TYPE.match(column.base)
    name = type_match["name"] if type_match else ""
    nullable = column.is_nullable
    form, read_type, kind, advice = _TEXT, pa.string(), pa.string(), _ADVICE.get(name, "")
    if name in _BYTE_TYPES:
        form, kind = _HEX_DIGITS, pa.binary()
    elif name in _DATE_TYPES:
        form, kind = _PLAIN, _arrow_types()[_DATE_TYPES[name]]
        read_type = _arrow_types()["timestamp"] if name == "timestamp" else kind
        if choices.zero_dates == "null":
            form, nullable = _PLAIN.format(column=_UNLESS_ZERO), True
    elif name not in _TEXT_TYPES:
        form, kind = _read_number(column, type_match, choices)
        read_type = kind
        advice = digits_advice(kind) if name == "decimal" and pa.types.is_decimal(kind) else advice
    elif charset := _CHARSET.search(column.base):
        form, advice = _CHECKED_TEXT, _CHARACTER_ADVICE.format(charset=charset[1])
    return ReadColumn(
        column.name,
        column.type,
        form.format(column=quoted),
        read_type=read_type,
        type=kind,
        form="hex" if name in _BYTE_TYPES else "plain",
        is_nullable=nullable,
        is_json=name == "json",
        advice=advice,
    )


def _read_number(column: SqlColumn, type_match: re.Match[str] | None, choices: ValueChoices) -> tuple[str, pa.DataType]:
    import pyarrow as pa

    name, size, scale = (
        (type_match["name"], int(type_match["size"] or 0), int(type_match["scale"] or 0)) if type_match else ("", 0, 0)
    )
    if name in _INTEGER_TYPES:
        return _PLAIN, _arrow_types()[_INTEGER_TYPES[name][" unsigned" in column.base]]
    if name == "decimal":
        return _PLAIN, decimal_type(size, scale, choices)
    if name == "bit":
        return _BITS, pa.int64() if size < 64 else pa.decimal128(20, 0)
    if name in _OTHER_TYPES:
        form, kind = _OTHER_TYPES[name]
        return form, _arrow_types()[kind]
    raise ConfigError(
        f"column {column.name!r} has type {column.type}, which is not supported: leave it out, or cast it in a query"
    )


_OTHER_TYPES = {
    "float": (_FLOAT, "float32"),
    "double": (_PLAIN, "float64"),
    "year": (_PLAIN, "int16"),
    "time": (_PLAIN, "time64"),
}


@lru_cache(maxsize=1)
def _arrow_types() -> dict[str, pa.DataType]:
    import pyarrow as pa

    return {
        **{name: getattr(pa, name)() for name in ("int8", "int16", "int32", "int64", "float32", "float64", "date32")},
        "decimal128(20, 0)": pa.decimal128(20, 0),
        "time64": pa.time64("us"),
        "timestamp": pa.timestamp("us"),
        "instant": pa.timestamp("us", "UTC"),
    }
