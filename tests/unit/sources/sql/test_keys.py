"""Keys: the same bytes for the same row in every run, mode and version, by value and whatever the column's type."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_128_hexdigest

from airflow_provider_connect.clients.sql.database import Index, SqlColumn
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.polling.keys import keys_as_hex
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._sql.keys import KeyClass, columns_before_prefix, key_bytes, key_class
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day

GOLDEN = json.loads((Path(__file__).parent / "golden" / "keys.json").read_text(encoding="utf-8"))
DAY = Day(date=dt.date(2026, 10, 5))
NOON = dt.datetime.fromisoformat("2026-10-05 12:30:15.123456")

Part = tuple[str, pa.DataType, Any]
"""One column of a key: its type in the database, how it is read, and a value."""

CASES: dict[str, list[Part]] = {
    "integer 1": [("integer", pa.int32(), 1)],
    "bigint 1": [("bigint", pa.int64(), 1)],
    "bigint lowest": [("bigint", pa.int64(), -(2**63))],
    "bigint unsigned highest": [("bigint unsigned", pa.decimal128(20, 0), Decimal(2**64 - 1))],
    "numeric 1.00": [("numeric(10,2)", pa.decimal128(10, 2), Decimal("1.00"))],
    "numeric 1.00 as text": [("numeric(10,2)", pa.string(), "1.00")],
    "numeric 100": [("numeric(10,2)", pa.decimal128(10, 2), Decimal("100.00"))],
    "numeric -0.0000000001": [("numeric(38,10)", pa.decimal128(38, 10), Decimal("-0.0000000001"))],
    "numeric of 40 digits": [("numeric(40,2)", pa.string(), "99999999999999999999999999999999999999.90")],
    "text 1": [("text", pa.string(), "1")],
    "text 1.00": [("text", pa.string(), "1.00")],
    "empty text": [("text", pa.string(), "")],
    "text of many planes": [("character varying(20)", pa.string(), "aÄ\n\"'%\0😀")],
    "uuid": [("uuid", pa.string(), "0D5A8B1E-6C2F-4E0B-9C44-2B6F3A7D9E10")],
    "uuid as text": [("text", pa.string(), "0D5A8B1E-6C2F-4E0B-9C44-2B6F3A7D9E10")],
    "boolean": [("boolean", pa.bool_(), True)],
    "date": [("date", pa.date32(), NOON.date())],
    "date before 1970": [("date", pa.date32(), dt.date(1, 1, 1))],
    "instant": [("timestamp with time zone", pa.timestamp("us", "UTC"), NOON.replace(tzinfo=dt.UTC))],
    "clock on the wall": [("timestamp without time zone", pa.timestamp("us"), NOON)],
    "time": [("time without time zone", pa.time64("us"), NOON.time())],
    "bytes": [("bytea", pa.binary(), b"\xff\xfe\0")],
    "composite": [("bigint", pa.int64(), 7), ("text", pa.string(), "seven")],
    "composite, the other way": [("text", pa.string(), "seven"), ("bigint", pa.int64(), 7)],
    "composite of two texts": [("text", pa.string(), "7"), ("text", pa.string(), "t7")],
}


def key_of(parts: list[Part]) -> str:
    columns = [SqlColumn(f"c{at}", base, base) for at, (base, _, _) in enumerate(parts)]
    classes = [key_class(column, kind) for column, (_, kind, _) in zip(columns, parts, strict=True)]
    arrays = [pa.array([value], kind) for _, kind, value in parts]
    (key,) = keys_as_hex(key_bytes([column.name for column in columns], classes, arrays)).to_pylist()
    return str(key)


@pytest.mark.parametrize("name", CASES)
def test_a_key_never_changes(name: str) -> None:
    assert key_of(CASES[name]) == GOLDEN[name]["key"]


@pytest.mark.parametrize("name", GOLDEN)
def test_the_golden_keys_follow_the_docstring(name: str) -> None:
    written = [text.encode() for text in GOLDEN[name]["written"]]
    assert xxh3_128_hexdigest(b"\xff".join(written)) == GOLDEN[name]["key"]


def test_every_class_has_a_golden_key() -> None:
    assert {text[0] for case in GOLDEN.values() for text in case["written"]} == set(get_args(KeyClass))
    assert set(GOLDEN) == set(CASES)


@pytest.mark.parametrize(
    ("made", "options", "key"),
    [
        ("a text NOT NULL, b integer NOT NULL, d date, PRIMARY KEY (b, a)", {}, [["b", "n"], ["a", "t"]]),
        ("a text NOT NULL, b integer NOT NULL, d date, PRIMARY KEY (b, a)", {"key": ["d"]}, [["d", "d"]]),
        ("a text, b text NOT NULL PRIMARY KEY", {}, [["b", "t"]]),
        ("a text, b integer", {}, []),
    ],
)
def test_the_schema_names_the_columns_of_the_key_and_their_classes(
    tmp_path: Path, made: str, options: dict[str, Any], key: list[list[str]]
) -> None:
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(f"CREATE TABLE t ({made})")
        database.execute("INSERT INTO t (a, b) VALUES ('one', 1)")
        if "d date" in made:
            database.execute("UPDATE t SET d = '2026-10-05'")
    source = SqlSource(conn_id="shop_db", table="t", snapshot="replace", **options)
    with source.open(Connection(conn_id="shop_db", conn_type="sqlite", host=str(file)), PollContext()) as poller:
        schema = poller.schema()
        (part,) = poller.plan([DAY])
        ((_, batch),) = poller.poll(part, Tally(part.days))
    assert json.loads(schema.metadata[b"key"]) == key
    # As the stage writes it, and as executors get it.
    pq.write_table(pa.Table.from_batches([batch], schema), tmp_path / "rows.parquet")
    assert pq.read_schema(tmp_path / "rows.parquet").equals(schema)
    assert pickle.loads(pickle.dumps(schema)).equals(schema, check_metadata=True)
    assert batch.schema.equals(schema, check_metadata=True)


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("integer", "5"),
        ("varchar(9)", "'five'"),
        ("uuid", "'0D5A8B1E-6C2F-4E0B-9C44-2B6F3A7D9E10'"),
        ("decimal(10,2)", "2"),
        ("boolean", "1"),
        ("date", "'2026-10-05'"),
        ("datetime", "'2026-10-05 12:00:00'"),
        ("timestamptz", "'2026-10-05 12:00:00+02:00'"),
        ("blob", "x'00ff'"),
        ("", "'x'"),
    ],
)
def test_a_table_a_view_and_a_query_make_the_same_key(tmp_path: Path, declared: str, value: str) -> None:
    """As tests/integration/sql/test_keys_by_way.py shows on servers."""
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(f"CREATE TABLE t (a {declared} NOT NULL)")
        database.execute(f"INSERT INTO t VALUES ({value})")
        database.execute("CREATE VIEW v AS SELECT * FROM t")
    query = "WITH w AS (SELECT DISTINCT a FROM t) SELECT a FROM w"
    keys = set()
    for way in ({"table": "t"}, {"table": "v"}, {"query": "SELECT * FROM t"}, {"query": query}):
        source = SqlSource(conn_id="shop_db", stream="s", snapshot="replace", key=["a"], **way)
        with source.open(Connection(conn_id="shop_db", conn_type="sqlite", host=str(file)), PollContext()) as poller:
            (part,) = poller.plan([DAY])
            ((_, batch),) = poller.poll(part, Tally(part.days))
            keys.add((poller.schema().metadata[b"key"], *batch.column("record_key").to_pylist()))
    assert len(keys) == 1


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**20), max_value=10**20))
def test_the_same_number_has_the_same_key_however_it_is_read(number: Decimal) -> None:
    wide = key_of([("numeric(38,10)", pa.decimal128(38, 10), number)])
    assert wide == key_of([("numeric(30,6)", pa.decimal128(30, 6), number)])
    assert wide == key_of([("numeric(30,6)", pa.string(), format(number, "f"))])
    if number == number.to_integral_value():
        assert wide == key_of([("decimal(21)", pa.decimal128(21, 0), number)])


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=2, max_size=2), st.data())
def test_texts_that_differ_have_keys_that_differ(texts: list[str], data: st.DataObject) -> None:
    second = data.draw(st.permutations(texts))
    same = key_of([("text", pa.string(), text) for text in texts]) == key_of(
        [("text", pa.string(), text) for text in second]
    )
    assert same == (texts == list(second))


def test_a_null_is_no_key_and_its_column_is_named() -> None:
    with pytest.raises(DataError, match="2 rows have no value in 'id'"):
        key_bytes(["id"], ["n"], [pa.array([1, None, None], pa.int64())])


@pytest.mark.parametrize(("base", "kind"), [("double precision", pa.float64()), ("numeric(10,2)", pa.float64())])
def test_floating_numbers_are_refused_as_a_key(base: str, kind: pa.DataType) -> None:
    with pytest.raises(ConfigError, match=r"'c' of type .* cannot identify a row"):
        key_class(SqlColumn("c", base, base), kind)


@pytest.mark.parametrize(
    ("indexes", "earlier"),
    [
        ([Index("PRIMARY", ("cust", "doc"), is_unique=True)], ("cust", "doc")),
        ([Index("PRIMARY", ("cust",), is_unique=False)], ("cust",)),
        ([Index("by_doc", ("doc",), is_unique=False)], ("cust", "doc")),
        ([Index("PRIMARY", ("cust", "doc"), is_unique=False)], ("cust", "doc")),
    ],
    ids=["whole", "the beginning of a text", "another index", "an engine that keeps no keys"],
)
def test_the_schema_names_the_key_of_earlier_versions(indexes: list[Index], earlier: tuple[str, ...]) -> None:
    assert columns_before_prefix(("cust", "doc"), indexes) == earlier
