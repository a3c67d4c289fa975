import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_type

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.values.ddl import ddl_columns, spark_type, types_by_column

KNOWN = [
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(38, 9),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("us", "Asia/Tokyo"),
    pa.list_(pa.int32()),
    pa.map_(pa.string(), pa.float64()),
    pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.list_(pa.string()))]),
]


@pytest.mark.parametrize("kind", KNOWN, ids=str)
def test_names_are_those_spark_gives_the_same_arrow_type(kind):
    theirs = from_arrow_type(kind).simpleString()
    assert spark_type(kind).lower().replace(" ", "") == theirs.replace(" ", "")


UNKNOWN = [pa.uint64(), pa.null(), pa.timestamp("ns"), pa.timestamp("ms", "UTC"), pa.time64("us"), pa.float16()]


@pytest.mark.parametrize("kind", [*UNKNOWN, pa.list_(pa.uint8())], ids=str)
def test_what_spark_would_change_or_lose_is_refused(kind):
    with pytest.raises(ConfigError, match="cast it in the source"):
        spark_type(kind)


def test_columns_are_listed_in_order_and_every_wrong_one_is_named():
    schema = pa.schema([pa.field("a", pa.string(), nullable=False), pa.field("b", pa.timestamp("us", "UTC"))])
    assert ddl_columns(schema) == ["a STRING NOT NULL", "b TIMESTAMP"]
    bad = schema.append(pa.field("c", pa.uint8())).append(pa.field("d", pa.null()))
    with pytest.raises(ConfigError) as caught:
        ddl_columns(bad)
    assert "'c'" in str(caught.value)
    assert "'d'" in str(caught.value)


def test_types_for_people_have_a_name_for_every_column_but_not_of_very_many():
    schema = pa.schema([("a", pa.string()), ("b", pa.uint64())])
    assert types_by_column(schema) == {"a": "STRING", "b": "uint64"}
    assert types_by_column(schema, max_columns=1) == {}
