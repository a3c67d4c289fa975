"""Columns on their way through a transform: from the stage's types to Spark's, and back with what they have told."""

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
    """Return the Spark type of staged rows, a ``StructType``. Each column may be NULL, as in whatever Spark reads.

    :raises ConfigError: naming every column that Spark cannot read, or cannot tell from another.
    """
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415  # slow, and only a transform needs it
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415

    ddl.ddl_columns(schema)
    if twice := _alike(schema.names):
        raise ConfigError(
            f"columns {', '.join(twice)}: Spark SQL does not tell upper from lower case, so a transform cannot tell "
            "them apart: rename one in the source"
        )
    return StructType([StructField(field.name, from_arrow_type(field.type)) for field in schema])


def result_schema(result: Any, source: pa.Schema) -> pa.Schema:
    """Return how a transform's result is staged.

    A column with the name and the type of one of the source's is described like that one, and may be NULL only if that
    one may. Others may be NULL. A column of JSON documents has to be checked again.

    :param result: its Spark type, a ``StructType``.
    :raises ConfigError: naming every column that cannot be staged.
    """
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415

    twice = {name: f"{name!r} comes twice: rename one with AS" for name in _alike(field.name for field in result)}
    problems = list(twice.values())
    fields = []
    for field in result:
        if (wrong := _unknown(field.dataType)) is not None:
            problems.append(f"column {field.name!r} has the type {wrong}: cast it to one that the stage has")
            continue
        fields.append(_described(pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC")), source))
    if not fields and not problems:
        problems.append("it has no columns")
    if problems:
        raise ConfigError(f"the transform's result: {'; '.join(problems)}")
    return pa.schema(fields, metadata=source.metadata)


def missing_key_hint(result: pa.Schema, source: pa.Schema) -> str:
    """Say that a result lacks the key of the rows, and what to do; "" if it does not, or rows had none."""
    if RECORD_KEY not in source.names or RECORD_KEY in result.names:
        return ""
    return (
        f" The transform's result lacks the rows' key: select {RECORD_KEY}, or make one of 32 hex digits for each row, "
        f"such as md5(concat_ws('|', a, b)) AS {RECORD_KEY}"
    )


def _alike(names: Iterable[str]) -> list[str]:
    counted = Counter(name.lower() for name in names)
    return sorted(name for name, count in counted.items() if count > 1)


def _described(field: pa.Field, source: pa.Schema) -> pa.Field:
    if source.names.count(field.name) != 1:
        return field
    known = source.field(field.name)
    if ddl.spark_type(known.type) != ddl.spark_type(field.type):
        return field
    metadata = dict(known.metadata or {})
    if metadata.get(b"json") == _CHECKED:
        metadata[b"json"] = _UNCHECKED
    return known.with_metadata(metadata or None)


def _unknown(kind: Any) -> str | None:
    """Return the name of a Spark type that the stage does not have, also inside another; None if it has it."""
    name = type(kind).__name__
    if name == "ArrayType":
        return _unknown(kind.elementType)
    if name == "MapType":
        return _unknown(kind.keyType) or _unknown(kind.valueType)
    if name == "StructType":
        return next((wrong for field in kind if (wrong := _unknown(field.dataType)) is not None), None)
    return None if name in _PLAIN else str(kind.simpleString()).upper()
