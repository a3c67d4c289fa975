"""Spark SQL's names of Arrow types (https://spark.apache.org/docs/4.0.0/sql-ref-datatypes.html, 2026-11)."""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError, refuse_any

if TYPE_CHECKING:
    import pyarrow as pa


def ddl_columns(schema: pa.Schema) -> list[str]:
    """Return a schema's columns as Spark's DDL, such as ``event STRING NOT NULL``.

    :raises ConfigError: with all unsupported columns.
    """
    lines, problems = [], []
    for field in schema:
        try:
            lines.append(f"{field.name} {spark_type(field.type)}{'' if field.nullable else ' NOT NULL'}")
        except ConfigError as error:
            problems.append(f"column {field.name!r}: {error}")
    refuse_any(problems)
    return lines


def types_by_column(schema: pa.Schema, max_columns: int = 1000) -> dict[str, str]:
    """Return each column's Spark type, or Arrow's if Spark has none. {} for more than ``max_columns``."""
    return {field.name: _type_for_people(field.type) for field in schema} if len(schema) <= max_columns else {}


def _type_for_people(kind: pa.DataType) -> str:
    try:
        return spark_type(kind)
    except ConfigError:
        return str(kind)


def spark_type(kind: pa.DataType) -> str:
    """Return the Spark SQL name of an Arrow type.

    :raises ConfigError: no type, or none without loss: unsigned integers, nanoseconds.
    """
    from pyarrow import types

    if types.is_decimal128(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if types.is_list(kind) or types.is_large_list(kind):
        return f"ARRAY<{spark_type(kind.value_type)}>"
    if types.is_map(kind):
        return f"MAP<{spark_type(kind.key_type)}, {spark_type(kind.item_type)}>"
    if types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{field.name}: {spark_type(field.type)}' for field in kind)}>"
    name = _plain_names().get(kind)
    if name is not None:
        return name
    if types.is_timestamp(kind) and kind.unit == "us":  # in any zone: Spark keeps the instant
        return "TIMESTAMP"
    raise ConfigError(f"Spark has no type for Arrow's {kind}: cast it in the source")


@lru_cache(maxsize=1)
def _plain_names() -> dict[pa.DataType, str]:
    import pyarrow as pa

    return {
        pa.bool_(): "BOOLEAN",
        pa.int8(): "TINYINT",
        pa.int16(): "SMALLINT",
        pa.int32(): "INT",
        pa.int64(): "BIGINT",
        pa.float32(): "FLOAT",
        pa.float64(): "DOUBLE",
        pa.string(): "STRING",
        pa.large_string(): "STRING",
        pa.binary(): "BINARY",
        pa.large_binary(): "BINARY",
        pa.date32(): "DATE",
        pa.timestamp("us"): "TIMESTAMP_NTZ",
    }


_DECIMAL = re.compile(r"DECIMAL *\( *([0-9]{1,2}) *, *([0-9]{1,2}) *\)")
_MAX_DIGITS = 38
PLAIN_TYPES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY", "DATE", "TIMESTAMP",
    "TIMESTAMP_NTZ",
)  # fmt: skip
"""Names of Spark's types without parts, except DECIMAL(p,s)."""


def plain_type_name(text: str) -> str:
    """Return the normalized name of a type without parts, such as ``BIGINT`` or ``DECIMAL(10,2)``. Ignores case.

    :raises ValueError: no such type.
    """
    name = text.strip().upper()
    if (match := _DECIMAL.fullmatch(name)) is not None:
        precision, scale = int(match[1]), int(match[2])
        if 0 < precision <= _MAX_DIGITS and scale <= precision:
            return f"DECIMAL({precision},{scale})"
        raise ValueError(f"a DECIMAL has up to {_MAX_DIGITS} digits, and no more of them after the point")
    if name not in PLAIN_TYPES:
        close = difflib.get_close_matches(name, (*PLAIN_TYPES, "DECIMAL(38,9)"), n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(PLAIN_TYPES)}, DECIMAL(p,s)"
        raise ValueError(f"unknown type; {hint}")
    return name


def arrow_type(name: str) -> pa.DataType:
    """Return the Arrow type for a result of :func:`plain_type_name`."""
    import pyarrow as pa

    if (match := _DECIMAL.fullmatch(name)) is not None:
        return pa.decimal128(int(match[1]), int(match[2]))
    if name == "TIMESTAMP":
        return pa.timestamp("us", tz="UTC")
    large = (pa.large_string(), pa.large_binary())
    return next(kind for kind, type_name in _plain_names().items() if type_name == name and kind not in large)
