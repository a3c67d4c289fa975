"""Keys of many types split a table: each row is in one chunk, and a chunk's last key survives the stage."""

from __future__ import annotations

import datetime as dt
import logging

import pytest

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._sql import chunks
from airflow_provider_connect.sources._sql.chunks import key_from_json, key_to_json
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day
from tests.equipment.sql.fixtures import OwnDatabase
from tests.equipment.sql.reads import polled

pytestmark = pytest.mark.slow

DAY = Day(date=dt.date(2026, 10, 5))
ROWS = 40
POSTGRESQL_KEYS = {
    "timestamp": "timestamp '2026-10-05' + n * interval '1 microsecond'",
    "timestamptz": "timestamptz '2026-10-05 00:00+02' + n * interval '1.5 hours'",
    "bytea": "decode(md5(n::text), 'hex')",
    "numeric": "(n - 20) * 1e25 + 0.1",
    "bit(8)": "n::bit(8)",
    "bit varying": "n::bit(9)::bit varying",
    "uuid": "md5(n::text)::uuid",
    "enum": "('{z,a,m}'::mood[])[1 + n % 3]",
    "boolean": "n % 2 = 0",
}
MYSQL_KEYS = {
    "binary(16)": "unhex(left(sha2(n, 256), 32))",
    "varbinary(20)": "unhex(left(sha2(n, 256), 2 + 2 * (n % 18)))",
    "datetime(6)": "timestamp('2026-10-05') + interval n microsecond",
    "timestamp": "timestamp('2026-10-05') + interval n hour",
    "bit(64)": "18446744073709551615 - n * 4611686018427387",
    "tinyint(1)": "n % 2",
}


def require_whole(database: OwnDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the table in four chunks of one state each, and require that every row is in one of them."""
    monkeypatch.setattr(chunks, "MIN_CHUNK_ROWS", 5)
    source = SqlSource(conn_id="sql_default", table="t", snapshot="replace", parallel_chunks=4, consistency="chunk")
    with source.open(database.connection(), PollContext()) as poller:
        parts = poller.plan([DAY])
        rows_by_chunk = [[row["n"] for row in polled(poller, part)] for part in parts]
    assert len(parts) == 4
    assert all(rows_by_chunk), rows_by_chunk
    assert sorted(number for numbers in rows_by_chunk for number in numbers) == [*range(1, ROWS + 1)]
    keys = [part.params["upto"] for part in parts[:-1]]
    assert [key_to_json(key_from_json(key, len(key))) for key in keys] == keys


@pytest.mark.parametrize("kind", POSTGRESQL_KEYS)
def test_a_key_of_postgresql_splits_the_table(
    postgresql: OwnDatabase, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgresql.run("CREATE TYPE mood AS ENUM ('z', 'a', 'm')")
    column_type = "mood" if kind == "enum" else kind
    postgresql.run(
        f"CREATE TABLE t (k {column_type}, n int, PRIMARY KEY (k, n))",
        f"INSERT INTO t SELECT {POSTGRESQL_KEYS[kind]}, n FROM ({postgresql.series(ROWS)}) s",
    )
    require_whole(postgresql, monkeypatch)


@pytest.mark.parametrize("kind", MYSQL_KEYS)
def test_a_key_of_mysql_splits_the_table(mysql_like: OwnDatabase, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mysql_like.run(
        f"CREATE TABLE t (k {kind}, n int, PRIMARY KEY (k, n))",
        f"INSERT INTO t SELECT {MYSQL_KEYS[kind]}, n FROM ({mysql_like.series(ROWS)}) s",
    )
    require_whole(mysql_like, monkeypatch)


def test_not_a_number_and_the_infinities_of_a_numeric_key_are_in_one_chunk(
    postgresql: OwnDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgresql.run(
        "CREATE TABLE t (k numeric, n int, PRIMARY KEY (k, n))",
        f"INSERT INTO t SELECT ('{{NaN,Infinity,-Infinity,1.50}}'::numeric[])[1 + n % 4], n"
        f" FROM ({postgresql.series(ROWS)}) s",
    )
    require_whole(postgresql, monkeypatch)


def test_infinity_as_a_chunk_s_last_key_is_no_lost_connection(
    postgresql: OwnDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "MIN_CHUNK_ROWS", 5)
    postgresql.run(
        "CREATE TABLE t (k timestamp, n int, PRIMARY KEY (k, n))",
        f"INSERT INTO t SELECT 'infinity', n FROM ({postgresql.series(ROWS)}) s",
    )
    source = SqlSource(conn_id="sql_default", table="t", snapshot="replace", parallel_chunks=4)
    with source.open(postgresql.connection(), PollContext()) as poller, pytest.raises(DataError, match="is infinity"):
        poller.plan([DAY])


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("k int", "there is no key"),
        ("k text[], PRIMARY KEY (k)", "'k' of type text[] in the key has no ranges"),
        ("k int PRIMARY KEY", "a chunk has at least 50,000 rows"),
    ],
)
def test_a_run_that_reads_in_one_piece_says_why(
    postgresql: OwnDatabase, key: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    postgresql.run(f"CREATE TABLE t ({key})")
    for consistency in ("chunk", "snapshot"):
        source = SqlSource(
            conn_id="sql_default", table="t", snapshot="replace", parallel_chunks=16, consistency=consistency
        )
        caplog.clear()
        with caplog.at_level(logging.WARNING), source.open(postgresql.connection(), PollContext()) as poller:
            assert len(poller.plan([DAY])) == 1
        text = f"sql_default.t: one task reads all rows, although parallel_chunks=16: {reason}"
        assert [record.getMessage() for record in caplog.records] == [text]
