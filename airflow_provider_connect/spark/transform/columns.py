"""Converts a transform's columns: from the stage's types to Spark's, and back with their metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.key_digest import RECORD_KEY
from airflow_provider_connect.values import ddl

_CHECKED, _UNCHECKED = b"checked", b"unchecked"
_PLAIN = (
    "BooleanType", "ByteType", "ShortType", "IntegerType", "LongType", "FloatType", "DoubleType", "DecimalType",
    "StringType", "BinaryType", "DateType", "TimestampType", "TimestampNTZType",
)  # fmt: skip


def spark_struct(schema: pa.Schema) -> Any:
    """Return the Spark type of staged rows, a ``StructType`` of nullable columns.

    :raises ConfigError: with all columns that Spark cannot read, or whose names differ by case alone.
    """
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415  # slow, and only a transform needs it
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415

    ddl.ddl_columns(schema)
    if duplicates := _case_duplicates(schema.names):
        raise ConfigError(
            f"columns {', '.join(duplicates)}: Spark SQL ignores case, so a transform cannot distinguish "
            "them. Rename one in the source"
        )
    return StructType([StructField(field.name, from_arrow_type(field.type)) for field in schema])


def result_schema(result: Any, source: pa.Schema) -> pa.Schema:
    """Return the schema in which a transform's result is staged.

    A column with the name and type of a source column keeps its metadata and nullability. Other columns are nullable.
    JSON documents are no longer marked as checked.

    :raises ConfigError: with all columns that cannot be staged.
    """
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415

    duplicates = {
        name: f"{name!r} occurs twice: rename one with AS" for name in _case_duplicates(field.name for field in result)
    }
    problems = list(duplicates.values())
    fields = []
    for field in result:
        if (unsupported := _unsupported_type(field.dataType)) is not None:
            problems.append(f"column {field.name!r} has the type {unsupported}: cast it to one that the stage supports")
            continue
        fields.append(_with_metadata(pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC")), source))
    if not fields and not problems:
        problems.append("it has no columns")
    if problems:
        raise ConfigError(f"the transform's result: {'; '.join(problems)}")
    return pa.schema(fields, metadata=source.metadata)


def missing_key_hint(result: pa.Schema, source: pa.Schema) -> str:
    """Return a hint if the result lacks the source's column of row keys, else ""."""
    if RECORD_KEY not in source.names or RECORD_KEY in result.names:
        return ""
    return (
        f" The transform's result lacks the rows' key. Select {RECORD_KEY}, or create one of 32 hex digits for each "
        f"row, such as md5(concat_ws('|', a, b)) AS {RECORD_KEY}"
    )


def _case_duplicates(names: Iterable[str]) -> list[str]:
    counts = Counter(name.lower() for name in names)
    return sorted(name for name, count in counts.items() if count > 1)


def _with_metadata(field: pa.Field, source: pa.Schema) -> pa.Field:
    if source.names.count(field.name) != 1:
        return field
    source_field = source.field(field.name)
    if ddl.spark_type(source_field.type) != ddl.spark_type(field.type):
        return field
    metadata = dict(source_field.metadata or {})
    if metadata.get(b"json") == _CHECKED:
        metadata[b"json"] = _UNCHECKED
    return source_field.with_metadata(metadata or None)


def _unsupported_type(kind: Any) -> str | None:
    name = type(kind).__name__
    if name == "ArrayType":
        return _unsupported_type(kind.elementType)
    if name == "MapType":
        return _unsupported_type(kind.keyType) or _unsupported_type(kind.valueType)
    if name == "StructType":
        return next((wrong for field in kind if (wrong := _unsupported_type(field.dataType)) is not None), None)
    return None if name in _PLAIN else str(kind.simpleString()).upper()
