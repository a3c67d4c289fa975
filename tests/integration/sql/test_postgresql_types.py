# ruff: noqa: DTZ001, E501  # times without a zone are what some types hold; a type has a line
"""Each type of PostgreSQL with its extreme values: read exactly, or refused by name."""

from __future__ import annotations

import datetime as dt
import math
import traceback
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from airflow_provider_connect.clients.sql.database import Query, ValueChoices
from airflow_provider_connect.errors import DataError
from tests.equipment.sql.fixtures import OwnDatabase, own_database
from tests.equipment.sql.servers import DatabaseServer

pytestmark = pytest.mark.slow

UTC = ZoneInfo("UTC")
LONG = "12345678901234567890123456789012345678"
KEPT: dict[str, tuple[str, list[tuple[str, Any]]]] = {
    "smallint": ("int16", [("-32768", -32768), ("32767", 32767)]),
    "integer": ("int32", [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)]),
    "bigint": ("int64", [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)]),
    "oid": ("int64", [("4294967295", 2**32 - 1)]),
    "real": ("float", [("123456.789", 123456.7890625), ("3.4028235e38", 3.4028234663852886e38), ("'-0'", -0.0)]),
    "double precision": (
        "double",
        [("0.1::float8 + 0.2", 0.1 + 0.2), ("'1e-320'", 1e-320), ("'-0'", -0.0), ("'-Infinity'", -math.inf)],
    ),
    "boolean": ("bool", [("true", True), ("false", False)]),
    "numeric(10,2)": ("decimal128(10, 2)", [("-99999999.99", Decimal("-99999999.99")), ("0.1", Decimal("0.10"))]),
    "numeric(38,0)": ("decimal128(38, 0)", [("9" * 38, Decimal("9" * 38))]),
    "numeric(38,38)": ("decimal128(38, 38)", [("-0." + "9" * 38, Decimal("-0." + "9" * 38))]),
    "numeric(40,2)": ("string", [(f"{LONG}.99", f"{LONG}.99"), ("'NaN'", "NaN")]),
    "numeric(3,5)": ("string", [("0.00123", "0.00123")]),
    "numeric(3,-2)": ("string", [("12345", "12300")]),
    "numeric": ("string", [("1.10", "1.10"), ("1e-30", "0." + "0" * 29 + "1"), ("'-Infinity'", "-Infinity")]),
    "money": ("string", [("'-1234.56'", "-1234.56"), ("'92233720368547758.07'", "92233720368547758.07")]),
    "text": ("string", [("'NULL'", "NULL"), ("'😀'", "😀"), ("'a,\"b\"'", 'a,"b"'), ("E'\\r\\n\\\\.\\n'", "\r\n\\.\n"), ("''", "")]),
    "character varying(3)": ("string", [("'\\.'", "\\."), ("' '", " ")]),
    "character(5)": ("string", [("'ab'", "ab   ")]),
    '"char"': ("string", [("'x'", "x")]),
    "name": ("string", [("'n'", "n")]),
    "bytea": ("binary", [("'\\x00ff0a2c22'", b'\x00\xff\n,"'), ("''", b"")]),
    "date": ("date32[day]", [("'0001-01-01'", dt.date.min), ("'9999-12-31'", dt.date.max)]),
    "time": ("time64[us]", [("'23:59:59.999999'", dt.time.max), ("'00:00'", dt.time.min)]),
    "time(0)": ("time64[us]", [("'12:34:56'", dt.time(12, 34, 56))]),
    "timetz": ("string", [("'12:34:56.5-03:30'", "12:34:56.5-03:30")]),
    "timestamp": ("timestamp[us]", [("'9999-12-31 23:59:59.999999'", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)), ("'0001-01-01'", dt.datetime(1, 1, 1))]),
    "timestamp(3)": ("timestamp[us]", [("'2024-02-29 12:00:00.001'", dt.datetime(2024, 2, 29, 12, 0, 0, 1000))]),
    "timestamptz": (
        "timestamp[us, tz=UTC]",
        [("'2024-02-29 23:30:00.000001-11:30'", dt.datetime(2024, 3, 1, 11, 0, 0, 1, tzinfo=UTC))],
    ),
    "interval": ("string", [("'1 mon -2 days 03:04:05.6'", "P1M-2DT3H4M5.6S")]),
    "uuid": ("string", [("'A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")]),
    "jsonb": ("string", [("'{\"b\": 1.10, \"a\": 12345678901234567890}'", '{"a": 12345678901234567890, "b": 1.10}')]),
    "json": ("string", [("'{\"a\":1,  \"a\":2}'", '{"a":1,  "a":2}'), ("'null'", "null")]),
    "inet": ("string", [("'::1'", "::1"), ("'10.0.0.1/8'", "10.0.0.1/8")]),
    "bit(64)": ("string", [("B'" + "1" * 64 + "'", "1" * 64)]),
    "bit varying(5)": ("string", [("B'010'", "010"), ("B''", "")]),
    "integer[]": ("string", [("'[0:1]={1,2}'", "[0:1]={1,2}"), ("'{{1,2},{3,NULL}}'", "{{1,2},{3,NULL}}"), ("'{}'", "{}")]),
    "text[]": ("string", [("array['a,b', '\"', NULL, 'NULL', '']", '{"a,b","\\"",NULL,"NULL",""}')]),
    "mood": ("string", [("'so so'", "so so")]),
    "price": ("decimal128(12, 3)", [("1.5", Decimal("1.500"))]),
    "dear": ("decimal128(12, 3)", [("2.5", Decimal("2.500"))]),
    "pair": ("string", [("row(1, 'a,b')", '(1,"a,b")')]),
    "int4range": ("string", [("'[1,5)'", "[1,5)"), ("'empty'", "empty")]),
    "xml": ("string", [("'<a>\"</a>'", '<a>"</a>')]),
    "point": ("string", [("'(1,2.5)'", "(1,2.5)")]),
    "tsvector": ("string", [("'a:1 b:2'", "'a':1 'b':2")]),
    "macaddr": ("string", [("'08:00:2b:01:02:03'", "08:00:2b:01:02:03")]),
    "pg_lsn": ("string", [("'16/B374D848'", "16/B374D848")]),
}  # fmt: skip
REFUSED = [
    ("numeric(10,2)", "'NaN'", "decimals="),
    ("date", "'infinity'", "nullif"),
    ("date", "'0044-03-15 BC'", "text"),
    ("date", "'10000-01-01'", "text"),
    ("timestamp", "'-infinity'", "nullif"),
    ("timestamp", "'294276-12-31'", "text"),
    ("timestamptz", "'infinity'", "nullif"),
    ("timestamptz", "'0044-03-15 12:00+00 BC'", "text"),
    ("time", "'24:00:00'", "text"),
]


@pytest.fixture(scope="module")
def database(postgresql_server: DatabaseServer) -> Iterator[OwnDatabase]:
    with own_database(postgresql_server) as own:
        own.run(
            "CREATE TYPE mood AS ENUM ('so so')",
            "CREATE TYPE pair AS (a int, b text)",
            "CREATE DOMAIN price AS numeric(12,3)",
            "CREATE DOMAIN dear AS price CHECK (value > 1)",
        )
        yield own


@pytest.mark.parametrize("sql_type", KEPT)
def test_every_value_of_a_type_is_read_exactly(sql_type: str, database: OwnDatabase) -> None:
    kind, values = KEPT[sql_type]
    database.run(
        "DROP TABLE IF EXISTS t",
        f"CREATE TABLE t (id serial, c {sql_type}, after int default 7)",
        *(f"INSERT INTO t (c) VALUES ({literal})" for literal, _ in [*values, ("NULL", None)]),
    )
    table = database.table("t", order_by="id")
    assert str(table.schema.field("c").type) == kind
    expected = [*(value for _, value in values), None]
    # By their texts, which tell -0.0 from 0.0 and find NaN again.
    assert [repr(value) for value in table["c"].to_pylist()] == [repr(value) for value in expected]
    assert set(table["after"].to_pylist()) == {7}  # nothing moved


@pytest.mark.parametrize(("sql_type", "literal", "advice"), REFUSED)
def test_a_value_that_does_not_fit_is_refused_and_not_shown(
    sql_type: str, literal: str, advice: str, database: OwnDatabase
) -> None:
    query = Query(f"SELECT 1 AS before, CAST({literal} AS {sql_type}) AS the_column")
    with pytest.raises(DataError) as raised:
        database.rows(query)
    message = str(raised.value)
    assert "'the_column'" in message
    assert "row 1 " in message
    assert advice in message
    shown = "".join(traceback.format_exception(raised.value))
    assert "Arrow" not in shown  # whose text quotes the value


def test_decimals_follow_the_option(database: OwnDatabase) -> None:
    query = Query(
        "SELECT 'NaN'::numeric(10,2) AS a, 0.1::numeric(5,2) AS b, 1e400::numeric AS c, '-Infinity'::numeric AS d, "
        "'-1.50'::money AS m"
    )
    assert database.rows(query, ValueChoices(decimals="string")) == [
        {"a": "NaN", "b": "0.10", "c": "1" + "0" * 400, "d": "-Infinity", "m": "-1.50"}
    ]
    values = database.rows(
        Query(query.sql.replace("1e400::numeric", "123456789012345678901234567890.5")), ValueChoices(decimals="double")
    )
    assert math.isnan(values[0].pop("a"))
    assert values == [{"b": 0.1, "c": 1.2345678901234568e29, "d": -math.inf, "m": -1.5}]
    with pytest.raises(DataError, match="22003"):  # beyond the largest double, which is no infinity
        database.rows(query, ValueChoices(decimals="double"))
