"""Sessions with real databases: their limits, their end, and their errors."""

from __future__ import annotations

import collections
import datetime as dt
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from airflow_provider_connect.clients.sql.database import (
    Database,
    Index,
    Query,
    SessionLimits,
    SqlColumn,
    Table,
    ValueChoices,
)
from airflow_provider_connect.clients.sql.opening import open_database
from airflow_provider_connect.connection import Connection, write_connections
from airflow_provider_connect.errors import ConfigError, DataError, DeadlineError, RetriableError
from tests.equipment.sql.fixtures import OwnDatabase, own_database
from tests.equipment.sql.servers import PASSWORD, READER, MariaDBServer
from tests.equipment.waiting import wait_until

pytestmark = pytest.mark.slow

# As a part of a statement: MySQL's sleep by itself ends early without an error.
SLEEP = {
    "postgres": "SELECT pg_sleep(60)",
    "mysql": "SELECT count(*) FROM (SELECT 1 AS a UNION SELECT 2) AS t WHERE sleep(60)",
}
# Other tests read other databases of the same server.
MINE = {
    "postgres": f"usename = '{READER}' AND datname = current_database()",
    "mysql": f"user = '{READER}' AND db = database()",
}
SESSIONS = {
    "postgres": f"SELECT count(*) FROM pg_stat_activity WHERE {MINE['postgres']}",
    "mysql": f"SELECT count(*) FROM information_schema.processlist WHERE {MINE['mysql']}",
}


def sessions(database: OwnDatabase) -> int:
    count: int = database.run(SESSIONS[database.server.conn_type])[0][0]
    return count


def numbers(database: OwnDatabase, rows: int) -> Query:
    return Query(f"SELECT n AS id, repeat('x', 500) AS t FROM ({database.series(rows)}) AS numbers")


def started(own: OwnDatabase, database: Database, rows: int = 2_000_000) -> Callable[[], object]:
    """Begin a read of far more rows than are fetched at once. Returns the rest of the read."""
    what = numbers(own, rows)
    columns = database.read_columns(database.describe(what), ValueChoices())
    batches = database.read(columns, database.relation(what), block_bytes=10_000)
    next(batches)
    return lambda: next(batches)


def test_blocks_have_whole_rows_and_about_the_requested_size(every: OwnDatabase) -> None:
    database = every.open()
    what = numbers(every, 3000)
    columns = database.read_columns(database.describe(what), ValueChoices())
    batches = list(database.read(columns, database.relation(what), block_bytes=100_000, order_by="id"))
    assert len(batches) > 10
    assert max(batch.num_rows for batch in batches) < 300
    assert [n for batch in batches for n in batch.column(0).to_pylist()] == list(range(1, 3001))
    # A row that is longer than a block is a block.
    assert len(list(database.read(columns, database.relation(what), block_bytes=1, where="id <= 5"))) == 5
    assert list(database.read(columns, database.relation(what), where="id < 0")) == []


def test_a_single_column_of_nulls_has_as_many_rows_as_the_table(every: OwnDatabase) -> None:
    every.run("CREATE TABLE t (a text)", "INSERT INTO t VALUES (NULL), (''), (NULL)")
    assert sorted(str(row["a"]) for row in every.rows("t")) == ["", "None", "None"]


def test_names_with_quotes_dots_capitals_and_spaces_are_read(every: OwnDatabase) -> None:
    database = every.open()
    table = Table('T`a"b,c.D e')
    names = ['a"b', "a`b", "a.b", "A b", "select", "%s", "{x}", "é,"]
    names += ["😀", "CASE", "Case"] if every.server.conn_type == "postgres" else []
    columns = ", ".join(f"{database.quote(name)} int" for name in names)
    values = ", ".join(str(number) for number in range(len(names)))
    every.run(f"CREATE TABLE {database.relation(table)} ({columns})")
    every.run(f"INSERT INTO {database.relation(table)} VALUES ({values})")
    assert every.rows(table) == [dict(zip(names, range(len(names)), strict=True))]
    with pytest.raises(ConfigError, match="no table"):
        database.describe(Table("t`a"))


def test_tables_in_other_schemas_and_views_are_read(every: OwnDatabase) -> None:
    schema = every.name if every.server.conn_type == "mysql" else "Other"
    if every.server.conn_type == "postgres":
        every.run('CREATE SCHEMA "Other"')
    database = every.open()
    t, v = (database.relation(Table(name, schema)) for name in ("t", "v"))
    every.run(
        f"CREATE TABLE {t} (id int NOT NULL)", f"CREATE VIEW {v} AS SELECT id FROM {t}", f"INSERT INTO {t} VALUES (1)"
    )
    assert every.rows(Table("v", schema)) == [{"id": 1}]
    assert [column.is_nullable for column in database.describe(Table("t", schema))] == [False]


def test_describe_finds_keys_and_indexes(every: OwnDatabase) -> None:
    every.run(
        "CREATE TABLE t (b int, a int, u int, changed timestamp, primary key (a, b))",
        "CREATE UNIQUE INDEX by_u ON t (u)",
        "CREATE INDEX by_changed ON t (changed, a)",
    )
    database = every.open()
    assert database.primary_key(Table("t")) == ["a", "b"]
    assert database.indexes(Table("t"))[0].columns == ("a", "b")
    assert database.indexes(Table("t"))[1:] == [
        Index("by_changed", ("changed", "a"), is_unique=False),
        Index("by_u", ("u",), is_unique=True),
    ]
    every.run("CREATE TABLE bare (a int)", "INSERT INTO bare VALUES (1)")
    assert database.primary_key(Table("bare")) == database.indexes(Table("bare")) == []
    every.run("ANALYZE bare" if every.server.conn_type == "postgres" else "ANALYZE TABLE bare")
    assert database.estimated_rows(Table("bare")) == 1
    assert database.lag_seconds() is None if every.server.conn_type == "postgres" else True


def test_what_only_postgresql_has_in_indexes(postgresql: OwnDatabase) -> None:
    postgresql.run(
        "CREATE TABLE t (a int, b text, g int GENERATED ALWAYS AS (a * 2) STORED)",
        "CREATE INDEX partial ON t (a) WHERE a > 1",
        "CREATE INDEX expression ON t (lower(b), a)",
        "CREATE INDEX hashed ON t USING hash (a)",
        "CREATE UNIQUE INDEX covering ON t (a) INCLUDE (b)",
        "CREATE UNIQUE INDEX mixed ON t (a, lower(b))",
    )
    database = postgresql.open()
    assert database.indexes(Table("t")) == [Index("covering", ("a",), True), Index("mixed", ("a",), False)]
    assert [column.name for column in database.describe(Table("t"))] == ["a", "b", "g"]


def test_a_query_is_described_and_not_run(every: OwnDatabase) -> None:
    sleep = "pg_sleep(60)" if every.server.conn_type == "postgres" else "sleep(60)"
    begun = time.monotonic()
    described = every.open().describe(Query(f"WITH w AS (SELECT 1 AS a) SELECT a, {sleep} AS s FROM w -- done"))
    assert time.monotonic() - begun < 20
    assert described[0] == SqlColumn("a", described[0].type, described[0].base)
    with pytest.raises(ConfigError, match="nix"):
        every.open().describe(Query("SELECT nix"))
    with pytest.raises(ConfigError, match="'a'"):
        every.open().describe(Query("SELECT 1 AS a, 2 AS a"))
    with pytest.raises(ConfigError, match=r"near .1"):
        every.open().describe(Query("SELEC 1"))


def test_values_written_into_sql_come_back(every: OwnDatabase) -> None:
    database = every.open()
    day = dt.datetime(2026, 3, 29, 1, 30, 0, 5, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    plain = ["a'b\\\\\"`%s", "", "é😀", -(2**63), True, None, b"\0'\\\xff", Decimal("-0.10")]
    sql = ", ".join(f"{database.literal(value)} AS v{place}" for place, value in enumerate([*plain, 1e-320]))
    *values, small = database.one_row(f"SELECT {sql}")
    assert values == plain
    assert float(small) == 1e-320
    dates = database.one_row(f"SELECT {database.literal(day)} AS a, {database.literal(day.date())} AS b")
    assert [str(value)[:26] for value in dates] == ["2026-03-28 23:30:00.000005", "2026-03-29"]


def test_a_session_cannot_write(every: OwnDatabase) -> None:
    every.run("CREATE TABLE t (a int)")
    host = "@'127.0.0.1'" if every.server.conn_type == "mysql" else ""
    every.run(f"GRANT INSERT ON t TO {READER}{host}")
    database = every.open()
    with pytest.raises(ConfigError, match=r"25006|1792"):
        database.rows("INSERT INTO t VALUES (1)")
    database.begin()
    with pytest.raises(ConfigError, match=r"25006|1792"):
        database.rows("INSERT INTO t VALUES (1)")


def test_a_snapshot_does_not_change(every: OwnDatabase) -> None:
    every.run("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    database = every.open()
    database.begin()
    assert database.one_row("SELECT count(*) FROM t") == (1,)
    if database.shares_snapshots:
        shared = database.export_snapshot()
    every.run("INSERT INTO t VALUES (2)")
    assert database.one_row("SELECT count(*) FROM t") == (1,)
    if database.shares_snapshots:
        second = every.open()
        second.begin(shared)
        database.end()
        assert second.one_row("SELECT count(*) FROM t") == (1,)
        with pytest.raises(RetriableError, match="ended"):
            every.open().begin(shared)
    else:
        with pytest.raises(ConfigError, match="share"):
            database.export_snapshot()
    database.end()
    assert database.one_row("SELECT count(*) FROM t") == (2,)


def test_a_statement_ends_in_time(every: OwnDatabase) -> None:
    database = every.open(SessionLimits(statement_seconds=0.3))
    with pytest.raises(DeadlineError, match=r"57014|1969|3024"):
        database.rows(SLEEP[every.server.conn_type])
    assert database.one_row("SELECT 1") == (1,)


def test_a_statement_is_cancelled_by_another_thread(every: OwnDatabase) -> None:
    database = every.open()
    timer = threading.Timer(0.5, database.cancel)
    timer.start()
    begun = time.monotonic()
    with pytest.raises(RetriableError, match="cancelled"):
        database.rows(SLEEP[every.server.conn_type])
    timer.join()
    assert time.monotonic() - begun < 30
    assert database.one_row("SELECT 1") == (1,)


def test_a_read_that_is_stopped_early_ends_at_the_server(every: OwnDatabase) -> None:
    database = every.open()
    begun = time.monotonic()
    more = started(every, database)
    assert sessions(every) == 1
    database.close()
    wait_until(lambda: sessions(every) == 0, seconds=20)
    assert time.monotonic() - begun < 20  # the rest, a gigabyte, was not read
    with pytest.raises((RetriableError, StopIteration)):
        more()
    database.close()


def test_rows_of_a_stopped_read_are_no_result_of_the_next_statement(mysql_like: OwnDatabase) -> None:
    mysql_like.run("CREATE TABLE t (id int primary key, d date)", "INSERT INTO t VALUES (1, '2026-01-01'), (2, 0)")
    mysql_like.run(f"INSERT INTO t SELECT n + 2, '2026-01-01' FROM ({mysql_like.series(50_000)}) AS s")
    database = mysql_like.open()
    columns = database.read_columns(database.describe(Table("t")), ValueChoices())
    with pytest.raises(DataError, match="'d'"):
        list(database.read(columns, database.relation(Table("t")), block_bytes=1000, order_by="id"))
    with pytest.raises(RetriableError, match="the session is closed"):
        database.rows("SELECT 1")


def test_a_reader_that_pauses_keeps_its_connection() -> None:
    with MariaDBServer() as server, own_database(server) as mariadb:
        mariadb.run("SET GLOBAL net_write_timeout = 1")
        more = started(mariadb, mariadb.open())
        time.sleep(3)
        for _ in range(1000):
            more()


def test_a_session_ended_by_the_server_is_retriable(every: OwnDatabase) -> None:
    database = every.open()
    more = started(every, database)
    if every.server.conn_type == "postgres":
        every.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {MINE['postgres']}")
    else:
        for (number,) in every.run(f"SELECT id FROM information_schema.processlist WHERE {MINE['mysql']}"):
            every.run(f"KILL {number}")
    with pytest.raises(RetriableError):
        collections.deque(iter(more, None), maxlen=0)
    with pytest.raises(RetriableError):
        database.rows("SELECT 1")


CHILD = """
import sys
from pathlib import Path
from airflow_provider_connect.clients.sql.opening import open_database
from airflow_provider_connect.connection import read_connections
from airflow_provider_connect.clients.sql.opening import open_database
from airflow_provider_connect.clients.sql.postgresql import session
session._CLIENT_CHECK_INTERVAL = "500ms"
(connection,) = read_connections(Path(sys.argv[1])).values()
database = open_database(connection, application_name="killed")
print("ready", flush=True)
database.rows("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b")
"""


def test_the_query_of_a_killed_task_ends_although_the_server_computes(
    postgresql: OwnDatabase, tmp_path: object
) -> None:

    connections = Path(str(tmp_path)) / "connections.json"
    write_connections(connections, {"c": postgresql.connection()})
    command = [sys.executable, "-c", CHILD, str(connections)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        child.kill()
    wait_until(lambda: sessions(postgresql) == 0, seconds=20)


def test_the_name_of_a_session_is_visible_at_the_server(every: OwnDatabase) -> None:
    with open_database(every.connection(), application_name="dag.task 2026-01-01 */ x") as database:
        more = started(every, database)
        if every.server.conn_type == "postgres":
            sessions_there = every.run(f"SELECT application_name FROM pg_stat_activity WHERE {MINE['postgres']}")
        else:
            sessions_there = every.run(f"SELECT info FROM information_schema.processlist WHERE {MINE['mysql']}")
        assert "dag.task 2026-01-01" in sessions_there[0][0]
        more()


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"password": "s3cr3t wrong"}, ConfigError, "28P01|password authentication failed|1045"),
        ({"path": "nix"}, ConfigError, 'database "nix" does not exist|1049|1044'),
        ({"login": "nobody"}, ConfigError, "password authentication failed|1045|1130"),
        ({"port": 1}, RetriableError, "refused"),
        ({"extra": {"sslmode": "require", "ssl_mode": "REQUIRED"}}, ConfigError, "SSL"),
    ],
)
def test_a_connection_that_fails_says_why_and_keeps_the_password(
    changes: dict[str, object], kind: type[Exception], said: str, every: OwnDatabase
) -> None:
    if "extra" in changes:
        name = "sslmode" if every.server.conn_type == "postgres" else "ssl_mode"
        # MySQL has a certificate that it made for itself.
        mode = "VERIFY_CA" if every.server.kind == "MySQL" else changes["extra"][name]  # type: ignore[index]
        changes = {"extra": {name: mode}}
    connection: Connection = every.connection(**changes)
    with pytest.raises(kind, match=said) as raised:
        every.open(**changes)
    shown = "".join(traceback.format_exception(raised.value)) + repr(connection)
    assert PASSWORD not in shown
    assert "s3cr3t" not in shown


def test_too_many_connections_are_retriable(every: OwnDatabase) -> None:
    is_mysql = every.server.conn_type == "mysql"
    user = f"crowd_{every.name}"
    place, limit = (f"{user}@'127.0.0.1'", "WITH MAX_USER_CONNECTIONS") if is_mysql else (user, "CONNECTION LIMIT")
    every.run(
        f"CREATE USER {place} {'IDENTIFIED BY' if is_mysql else 'PASSWORD'} 'room for one'",
        f"ALTER USER {place} {limit} 1",
    )
    every.run(*[f"GRANT SELECT ON {every.name}.* TO {place}"] * is_mysql, "SELECT 1")
    try:
        with (
            every.open(login=user, password="room for one"),
            pytest.raises(RetriableError, match=r"too many connections|max_user_connections"),
        ):
            every.open(login=user, password="room for one")
    finally:
        every.run(f"DROP USER {place}")


def test_an_error_about_a_value_in_the_users_sql_does_not_show_it(every: OwnDatabase) -> None:
    every.run("CREATE TABLE t (a text)", "INSERT INTO t VALUES ('top secret')")
    condition = (
        "cast(a AS int)" if every.server.conn_type == "postgres" else "cast(18446744073709551615 + length(a) AS signed)"
    )
    with pytest.raises(Exception, match=r"22P02|1690") as raised:
        every.rows(Query(f"SELECT {condition} AS b FROM t"))
    assert type(raised.value).__name__ == "DataError"
    assert "secret" not in "".join(traceback.format_exception(raised.value))
