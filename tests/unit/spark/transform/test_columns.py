"""Columns keep what they have told, and what cannot be staged is named with what to do."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.spark.transform.columns import missing_key_hint, result_schema, spark_struct

SOURCE = pa.schema(
    [
        pa.field("record_key", pa.string(), nullable=False, metadata={"comment": "Its key."}),
        pa.field("time", pa.timestamp("us", "US/Pacific")),
        pa.field("properties", pa.large_string(), metadata={"json": "checked", "few_values": "yes"}),
        pa.field("n", pa.int32(), metadata={"comment": "A number."}),
        pa.field("tags", pa.list_(pa.string())),
    ],
    metadata={"record_name": "connect.a.B"},
)


def test_a_column_of_the_same_name_and_type_is_described_as_before() -> None:
    struct = spark_struct(SOURCE)
    assert [(field.name, field.dataType.simpleString(), field.nullable) for field in struct] == [
        ("record_key", "string", True),
        ("time", "timestamp", True),
        ("properties", "string", True),
        ("n", "int", True),
        ("tags", "array<string>", True),
    ]
    made = result_schema(t.StructType([*struct, t.StructField("more", t.DecimalType(9, 2), nullable=False)]), SOURCE)
    assert made.names == [*SOURCE.names, "more"]
    for name in ("record_key", "time", "n", "tags"):
        assert made.field(name).equals(SOURCE.field(name), check_metadata=True)
    assert made.field("properties").metadata == {b"json": b"unchecked", b"few_values": b"yes"}, "it may be any text now"
    assert (made.field("more").type, made.field("more").nullable) == (pa.decimal128(9, 2), True)
    assert made.metadata == SOURCE.metadata


def test_a_column_of_another_type_is_a_new_one() -> None:
    made = result_schema(t.StructType([t.StructField("n", t.LongType())]), SOURCE)
    assert made.field("n").equals(pa.field("n", pa.int64()), check_metadata=True)
    assert "Select record_key, or create one of 32 hex digits" in missing_key_hint(made, SOURCE)
    assert missing_key_hint(SOURCE, SOURCE) == missing_key_hint(made, made) == ""


def test_all_that_cannot_be_staged_is_named_at_once() -> None:
    struct = t.StructType(
        [
            t.StructField("a", t.NullType()),
            t.StructField("b", t.ArrayType(t.StructType([t.StructField("c", t.VariantType())]))),
            t.StructField("N", t.IntegerType()),
            t.StructField("n", t.IntegerType()),
            t.StructField("i", t.MapType(t.StringType(), t.DayTimeIntervalType())),
        ]
    )
    with pytest.raises(ConfigError) as refused:
        result_schema(struct, SOURCE)
    assert str(refused.value) == (
        "the transform's result: 'n' occurs twice: rename one with AS; "
        "column 'a' has the type VOID: cast it to one that the stage supports; "
        "column 'b' has the type VARIANT: cast it to one that the stage supports; "
        "column 'i' has the type INTERVAL DAY TO SECOND: cast it to one that the stage supports"
    )
    with pytest.raises(ConfigError, match="it has no columns"):
        result_schema(t.StructType([]), SOURCE)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (pa.field("x", pa.uint64()), "column 'x': Spark has no type for Arrow's uint64"),
        (pa.field("TIME", pa.int64()), "columns time: Spark SQL ignores case"),
    ],
)
def test_what_spark_cannot_read_is_told_before_the_source_is_asked(field: pa.Field, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        spark_struct(SOURCE.append(field))
