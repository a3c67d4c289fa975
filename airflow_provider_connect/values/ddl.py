"""Arrow types as Spark SQL names them: for column lists in documentation, and for Spark's own readers.

The names are those of https://spark.apache.org/docs/4.0.0/sql-ref-datatypes.html (2026-11).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa


def columns(schema: pa.Schema) -> list[str]:
    """Return a schema's columns as Spark's DDL has them, such as ``event STRING NOT NULL``.

    :raises ConfigError: naming every column that Spark has no type for.
    """
    lines, problems = [], []
    for field in schema:
        try:
            lines.append(f"{field.name} {spark_type(field.type)}{'' if field.nullable else ' NOT NULL'}")
        except ConfigError as error:
            problems.append(f"column {field.name!r}: {error}")
    if problems:
        raise ConfigError("; ".join(problems))
    return lines


def types_by_column(schema: pa.Schema, most: int = 1000) -> dict[str, str]:
    """Return each column's type for people, Arrow's own where Spark has none; {} if there are more than ``most``."""
    return {field.name: _told_type(field.type) for field in schema} if len(schema) <= most else {}


def _told_type(kind: pa.DataType) -> str:
    try:
        return spark_type(kind)
    except ConfigError:
        return str(kind)


def spark_type(kind: pa.DataType) -> str:
    """Return the Spark SQL name of an Arrow type.

    :raises ConfigError: if Spark has none, or would lose something: unsigned integers, nanoseconds.
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
