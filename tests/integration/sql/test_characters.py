"""Texts in every character set: every character is read exactly, or the error names the column."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from airflow_provider_connect.clients.sql.database import Database, Query, Table, ValueChoices
from airflow_provider_connect.errors import DataError
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day
from tests.equipment.sql.fixtures import OwnDatabase, own_database
from tests.equipment.sql.reads import polled_day
from tests.equipment.sql.servers import DatabaseServer

pytestmark = pytest.mark.slow

DAY = Day(date=dt.date(2026, 10, 5))
UNICODE = {"utf16": 2, "utf16le": 2, "ucs2": 2, "utf32": 4, "utf8mb3": 0, "utf8mb4": 0}
"""Sets of Unicode's own characters, and how many bytes one has at least where it is more than one."""


def codes(charset: str, longest: int) -> list[str]:
    """Return bytes that may be a character: all single ones, and every 53rd pair."""
    if width := UNICODE.get(charset):
        return [f"{code:0{width * 2}x}" for code in range(1, 0x10000, 53)]
    pairs = range(0x8140, 0x10000, 53) if longest > 1 and charset not in UNICODE else ()
    return [f"{code:02x}" for code in range(1, 256)] + [f"{code:04x}" for code in pairs]


class Texts(NamedTuple):
    """Numbers of a table's rows.

    :param whole: with their texts as hexadecimal digits of UTF-8.
    :param replaced: rows whose character has no counterpart.
    """

    whole: dict[int, str | None]
    replaced: list[int]


def filled(own: OwnDatabase, name: str, charset: str, longest: int) -> Texts:
    """Fill a table with the characters of a set."""
    written = codes(charset, longest)
    values = ", ".join(f"(x'{code}')" for code in written)
    rows = own.run(
        "SET sql_mode = ''",
        f"CREATE TABLE {name} (id int AUTO_INCREMENT PRIMARY KEY, v varchar(4) CHARACTER SET {charset})",
        f"INSERT IGNORE INTO {name} (v) VALUES (''), (NULL), ('?'), {values}",
        f"SELECT id, hex(cast(v as binary)), hex(convert(v using utf8mb4)) FROM {name}",
    )
    texts = Texts({}, [])
    for number, stored, converted in rows[:3]:
        texts.whole[number] = converted if stored is not None else None
    for number, stored, converted in rows[3:]:
        if stored.lower() not in written:
            continue  # it is not well formed, so the server has stored another text
        if UNICODE.get(charset) and 0xD800 <= int(stored, 16) < 0xE000:
            continue  # half of a pair, which is refused
        if converted in ("3F", "EFBFBD") and stored != "3F" and charset not in UNICODE:
            texts.replaced.append(number)
        else:
            texts.whole[number] = converted
    return texts


def read(database: Database, what: Table | Query, where: str = "") -> dict[int, str | None]:
    """Return the texts by their number, as hexadecimal digits of UTF-8."""
    columns = database.read_columns(database.describe(what), ValueChoices())
    rows = [row for batch in database.read(columns, database.relation(what), where=where) for row in batch.to_pylist()]
    return {row["id"]: None if row["v"] is None else row["v"].encode().hex().upper() for row in rows}


def test_every_character_set_is_read_whole_or_refused(mysql_like: OwnDatabase) -> None:
    sets = mysql_like.run(
        "SELECT character_set_name, maxlen FROM information_schema.character_sets WHERE character_set_name <> 'binary'"
    )
    lossy = set()
    for charset, longest in sets:
        texts = filled(mysql_like, f"t_{charset}", charset, longest)
        database = mysql_like.open()
        for what in (Table(f"t_{charset}"), Query(f"SELECT id, v FROM t_{charset}")):
            assert read(database, what, f"id IN ({', '.join(map(str, texts.whole))})") == texts.whole, charset
        for number in {*texts.replaced[:1], *texts.replaced[-1:]}:
            for kind, what in (
                ("varchar(4)", Table(f"t_{charset}")),
                ("longtext", Query(f"SELECT id, v FROM t_{charset}")),
            ):
                lossy.add(charset)
                with pytest.raises(DataError) as refused:
                    read(mysql_like.open(), what, f"id = {number}")
                assert f"column 'v' ({kind}): row 1 of" in str(refused.value)
                assert f"a character of {charset} that Unicode does not have? Read its bytes" in str(refused.value)
    assert lossy >= {"big5", "cp1250", "cp932", "dec8", "greek", "hebrew", "swe7", "tis620"}


def test_a_cast_reads_the_bytes_of_texts_that_cannot_be_converted(mysql_like: OwnDatabase) -> None:
    mysql_like.run(
        "CREATE TABLE t (id int PRIMARY KEY, v varchar(9) CHARACTER SET cp1250)",
        "INSERT INTO t VALUES (1, _cp1250 x'6181'), (2, _cp1250 x'9A'), (3, NULL)",
    )
    source = SqlSource(conn_id="sql_default", table="t", snapshot="replace")
    with pytest.raises(DataError, match="a character of cp1250 that Unicode does not have"):
        polled_day(source, mysql_like.connection(), DAY)
    cast = {"table": None, "stream": "t", "key": ("id",), "query": "SELECT id, cast(v AS binary) AS v FROM t"}
    rows = polled_day(source.model_copy(update=cast), mysql_like.connection(), DAY)
    assert [row["v"] for row in sorted(rows, key=lambda row: row["id"])] == [b"a\x81", b"\x9a", None]


@pytest.fixture
def sql_ascii(postgresql_server: DatabaseServer) -> Iterator[OwnDatabase]:
    """A PostgreSQL database that accepts any bytes as text."""
    with own_database(postgresql_server) as own:
        own.server.run(f"DROP DATABASE {own.name}")
        own.server.run(f"CREATE DATABASE {own.name} ENCODING 'SQL_ASCII' TEMPLATE template0")
        yield own


def test_bytes_of_sql_ascii_that_are_not_utf8_fail_with_their_column(sql_ascii: OwnDatabase) -> None:
    sql_ascii.run(
        "CREATE TABLE t (id int PRIMARY KEY, name text, note varchar(20))",
        r"INSERT INTO t VALUES (1, 'ok', E'caf\xc3\xa9'), (2, E'\xef\xbb\xbfa', NULL), (3, E'caf\xe9', '')",
    )
    source = SqlSource(conn_id="sql_default", table="t", snapshot="replace")
    with pytest.raises(DataError) as refused:
        polled_day(source, sql_ascii.connection(), DAY)
    assert "column 'name' (text): row 3 of this read holds a value that is not a valid string" in str(refused.value)
    assert "bytes that are not UTF-8, which a database in SQL_ASCII accepts? " in str(refused.value)
    assert "convert_to(column, 'SQL_ASCII')" in str(refused.value)

    rows = polled_day(source.model_copy(update={"where": "id < 3"}), sql_ascii.connection(), DAY)
    assert [(row["name"], row["note"]) for row in rows] == [("ok", "café"), ("\ufeffa", None)]
    query = """SELECT id, convert_to(name, 'SQL_ASCII') AS bytes,
        convert_from(convert(convert_to(name, 'SQL_ASCII'), 'LATIN1', 'UTF8'), 'UTF8') AS name FROM t WHERE id = 3"""
    by_query = {"table": None, "stream": "t", "key": ("id",), "query": query}
    (row,) = polled_day(source.model_copy(update=by_query), sql_ascii.connection(), DAY)
    assert (row["bytes"], row["name"]) == (b"caf\xe9", "café")


def test_a_text_keeps_its_byte_order_mark_on_every_database(every: OwnDatabase) -> None:
    charset = "" if every.server.conn_type == "postgres" else " CHARACTER SET utf8mb4"
    every.run(
        f"CREATE TABLE t (k varchar(9){charset}, n int PRIMARY KEY)",
        "INSERT INTO t VALUES ('\ufeffa', 1), ('\ufeff', 2), ('\ufeff\ufeffa', 3), ('a', 4)",
    )
    rows = every.rows("t", block_bytes=1)
    assert {row["k"]: row["n"] for row in rows} == {"\ufeffa": 1, "\ufeff": 2, "\ufeff\ufeffa": 3, "a": 4}
