# ruff: noqa: DTZ001, E501  # times without a zone are what some types hold; a type has a line
"""Each type of MySQL and MariaDB with its extreme values: read exactly, or refused by name."""

from __future__ import annotations

import datetime as dt
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
MOST = 2**64 - 1
DIGITS = "12345678901234567890123456789012345"
KEPT: dict[str, tuple[str, list[tuple[str, Any]]]] = {
    "tinyint": ("int8", [("-128", -128), ("127", 127)]),
    "tinyint(1)": ("int8", [("5", 5), ("true", 1)]),
    "tinyint unsigned": ("int16", [("255", 255)]),
    "smallint": ("int16", [("-32768", -32768)]),
    "smallint unsigned": ("int32", [("65535", 65535)]),
    "mediumint": ("int32", [("-8388608", -8388608)]),
    "mediumint unsigned": ("int32", [("16777215", 16777215)]),
    "int": ("int32", [("-2147483648", -(2**31))]),
    "int(8) unsigned zerofill": ("int64", [("4294967295", 2**32 - 1), ("42", 42)]),
    "bigint": ("int64", [("-9223372036854775808", -(2**63))]),
    "bigint unsigned": ("decimal128(20, 0)", [(str(MOST), Decimal(MOST)), ("0", Decimal(0))]),
    "decimal(10,2)": ("decimal128(10, 2)", [("-99999999.99", Decimal("-99999999.99"))]),
    "decimal(38,38)": ("decimal128(38, 38)", [("-0." + "9" * 38, Decimal("-0." + "9" * 38))]),
    "decimal(12,2) unsigned zerofill": ("decimal128(12, 2)", [("1.5", Decimal("1.50"))]),
    "decimal(40,2)": ("string", [("9" * 38 + ".99", "9" * 38 + ".99")]),
    "decimal(65,30)": ("string", [(f"-{DIGITS}.{'0' * 29}1", f"-{DIGITS}.{'0' * 29}1")]),
    "float": ("float", [("123456.789", 123456.7890625), ("3.4028234663852886e38", 3.4028234663852886e38), ("1e-44", 9.80908925027372e-45)]),
    "double": ("double", [("0.1e0 + 0.2e0", 0.1 + 0.2), ("1e-320", 1e-320), ("-1.7976931348623157e308", -1.7976931348623157e308)]),
    "double(10,3)": ("double", [("1234.5675e0", 1234.568)]),
    "bit(1)": ("int64", [("b'1'", 1)]),
    "bit(63)": ("int64", [("b'" + "1" * 63 + "'", 2**63 - 1)]),
    "bit(64)": ("decimal128(20, 0)", [("b'" + "1" * 64 + "'", Decimal(MOST))]),
    "char(5)": ("string", [("'ab'", "ab")]),
    "varchar(9) character set latin1": ("string", [("'é,\"'", 'é,"'), ("''", ""), ("' '", " ")]),
    "varchar(9) character set ucs2": ("string", [("'€'", "€")]),
    "longtext character set utf8mb4": ("string", [("'a\\r\\n\\\\\"\\0😀'", 'a\r\n\\"\0😀'), ("'NULL'", "NULL"), ("'\\\\N'", "\\N")]),
    "enum('a\"b','c,')": ("string", [("'a\"b'", 'a"b'), ("'c,'", "c,")]),
    "set('x','y')": ("string", [("'x,y'", "x,y"), ("''", "")]),
    "json": ("string", [("'{\"a\":1.10,  \"a\":2}'", '{"a":1.10,  "a":2}')]),
    "uuid": ("string", [("'123e4567-e89b-12d3-a456-426655440000'", "123e4567-e89b-12d3-a456-426655440000")]),
    "inet6": ("string", [("'::1'", "::1")]),
    "inet4": ("string", [("'10.0.0.1'", "10.0.0.1")]),
    "blob": ("binary", [("x'00ff0a2c22e9'", b'\x00\xff\n,"\xe9'), ("''", b"")]),
    "binary(4)": ("binary", [("'ab'", b"ab\0\0")]),
    "varbinary(4)": ("binary", [("x'ff'", b"\xff")]),
    "point": ("binary", [("point(1, 2)", bytes.fromhex("000000000101000000000000000000f03f0000000000000040"))]),
    "date": ("date32[day]", [("'0001-01-01'", dt.date.min), ("'9999-12-31'", dt.date.max)]),
    "datetime": ("timestamp[us]", [("'2024-02-29 23:59:59'", dt.datetime(2024, 2, 29, 23, 59, 59))]),
    "datetime(6)": ("timestamp[us]", [("'9999-12-31 23:59:59.999999'", dt.datetime(9999, 12, 31, 23, 59, 59, 999999))]),
    "timestamp(3) null": ("timestamp[us, tz=UTC]", [("'2024-02-29 05:30:00.001'", dt.datetime(2024, 2, 29, 0, 0, 0, 1000, tzinfo=UTC))]),
    "time(6)": ("time64[us]", [("'23:59:59.999999'", dt.time.max), ("0", dt.time.min)]),
    "year": ("int16", [("0", 0), ("2155", 2155)]),
}  # fmt: skip
ONLY_MARIADB = {"decimal(38,38)", "uuid", "inet6", "inet4"}
# MySQL keeps a document in its own order, spaces and numbers.
ONLY_MYSQL: dict[str, tuple[str, list[tuple[str, Any]]]] = {
    "json": ("string", [("'{\"bb\": 1.10, \"a\":[12345678901234567890, \"é😀\"]}'", '{"a": [12345678901234567890, "é😀"], "bb": 1.1}'), ("'null'", "null")]),
    "decimal(38,30)": ("decimal128(38, 30)", [("-12345678." + "9" * 30, Decimal("-12345678." + "9" * 30))]),
    "vector(2)": ("binary", [("to_vector('[1,-2]')", bytes.fromhex("0000803f000000c0"))]),
    "point srid 4326": ("binary", [("st_geomfromtext('POINT(1 2)', 4326)", bytes.fromhex("e6100000010100000000000000000000400" + "00000000000f03f"))]),
    "geomcollection": ("binary", [("st_geomfromtext('GEOMETRYCOLLECTION EMPTY')", bytes.fromhex("00000000010700000000000000"))]),
    "varchar(9) character set gb18030": ("string", [("'é€'", "é€")]),
    "varchar(9) character set utf16le": ("string", [("'€😀'", "€😀")]),
    "varchar(9) collate utf8mb4_0900_bin": ("string", [("'a '", "a ")]),
}  # fmt: skip
TYPES = {
    "mariadb_server": KEPT,
    "mysql_server": {name: kept for name, kept in KEPT.items() if name not in ONLY_MARIADB} | ONLY_MYSQL,
}
REFUSED = [
    ("date", "'0000-00-00'", "zero_dates='null'"),
    ("date", "'2026-00-00'", "zero_dates='null'"),
    ("datetime(3)", "'0000-00-00'", "zero_dates='null'"),
    ("timestamp null", "'0000-00-00'", "zero_dates='null'"),
    ("time", "'-838:59:59'", "cast(column as char)"),
    ("time", "'24:00:00'", "cast(column as char)"),
]


@pytest.fixture(scope="module", params=["mariadb_server", "mysql_server"])
def database(request: pytest.FixtureRequest) -> Iterator[OwnDatabase]:
    server: DatabaseServer = request.getfixturevalue(request.param)
    with own_database(server) as own:
        yield own


def _fill(database: OwnDatabase, sql_type: str, *literals: str) -> None:
    database.run(
        "DROP TABLE IF EXISTS t",
        f"CREATE TABLE t (id int auto_increment primary key, c {sql_type}, after_c int default 7)",
        *(f"INSERT INTO t (c) VALUES ({literal})" for literal in literals),
    )


@pytest.mark.parametrize(
    ("database", "sql_type"),
    [(server, name) for server, types in TYPES.items() for name in types],
    indirect=["database"],
)
def test_every_value_of_a_type_is_read_exactly(sql_type: str, database: OwnDatabase) -> None:
    kind, values = TYPES[f"{database.server.kind.lower()}_server"][sql_type]
    _fill(database, sql_type, *(literal for literal, _ in values), "NULL")
    expected = [repr(value) for value in [*(value for _, value in values), None]]
    for what in ("t", Query("SELECT * FROM t -- as the protocol describes it")):
        table = database.table(what, order_by="id")
        assert str(table.schema.field("c").type) == kind
        assert [repr(value) for value in table["c"].to_pylist()] == expected
        assert set(table["after_c"].to_pylist()) == {7}  # nothing moved


@pytest.mark.parametrize(("sql_type", "literal", "advice"), REFUSED)
def test_a_value_that_does_not_fit_is_refused_and_not_shown(
    sql_type: str, literal: str, advice: str, database: OwnDatabase
) -> None:
    _fill(database, sql_type, "NULL", literal)
    with pytest.raises(DataError) as raised:
        database.rows("t", order_by="id")
    message = str(raised.value)
    assert "'c'" in message
    assert "row 2 " in message
    assert advice in message
    assert "Arrow" not in "".join(traceback.format_exception(raised.value))  # whose text quotes the value


def test_zero_dates_are_null_with_the_option(database: OwnDatabase) -> None:
    database.run(
        "DROP TABLE IF EXISTS z",
        "CREATE TABLE z (id int primary key, d date not null, m datetime(6) not null, s timestamp(6) not null)",
        "INSERT INTO z VALUES (1, '0000-00-00', '2026-00-00 01:02:03', '0000-00-00')",
        "INSERT INTO z VALUES (2, '2026-01-31', '2026-01-31 01:02:03.000004', '2026-01-31 05:30:00.000005')",
    )
    table = database.table("z", ValueChoices(zero_dates="null"), order_by="id")
    assert table.to_pylist() == [
        {"id": 1, "d": None, "m": None, "s": None},
        {
            "id": 2,
            "d": dt.date(2026, 1, 31),
            "m": dt.datetime(2026, 1, 31, 1, 2, 3, 4),
            "s": dt.datetime(2026, 1, 31, 0, 0, 0, 5, tzinfo=UTC),
        },
    ]
    assert [field.nullable for field in table.schema] == [False, True, True, True]


def test_decimals_follow_the_option(database: OwnDatabase) -> None:
    _fill(database, "decimal(65,30)", "0.5")
    assert database.rows("t", ValueChoices(decimals="string"))[0]["c"] == "0.5" + "0" * 29
    assert database.rows("t", ValueChoices(decimals="double"))[0]["c"] == 0.5


def test_a_row_that_the_server_cannot_send_is_refused(database: OwnDatabase) -> None:
    """MariaDB sends NULL and a warning for a line above max_allowed_packet (16 MiB)."""
    database.run(
        "DROP TABLE IF EXISTS wide",
        "CREATE TABLE wide (id int primary key, a longtext, b longtext)",
        "INSERT INTO wide VALUES (1, 'short', ''), (2, repeat('a', 9000000), repeat('b', 9000000))",
    )
    assert database.rows("wide", where="id = 1") == [{"id": 1, "a": "short", "b": ""}]
    with pytest.raises(DataError, match="max_allowed_packet"):
        database.rows("wide")


def test_a_text_with_a_check_is_json(database: OwnDatabase) -> None:
    _fill(database, "json", "'{}'")
    assert database.table("t").schema.field("c").metadata == {b"json": b"checked"}
