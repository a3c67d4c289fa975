"""Whether a key identifies a row: an index counts only if it is unique, complete, and covers all rows of the read."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from airflow_provider_connect.clients.sql.database import Index, Table
from airflow_provider_connect.errors import DataError
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._sql.preflight import check
from airflow_provider_connect.sources._sql.table_shape import inspect_table
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day
from tests.equipment.sql.fixtures import OwnDatabase
from tests.equipment.sql.reads import polled_day

pytestmark = pytest.mark.slow

DAY = Day(date=dt.date(2026, 10, 5))


def source(**options: Any) -> SqlSource:
    return SqlSource(**{"conn_id": "sql_default", "table": "t", "snapshot": "replace"} | options)


def key_of(database: OwnDatabase, **options: Any) -> tuple[tuple[str, ...], bool]:
    """Return the columns of the key, and whether the database guarantees that they identify a row."""
    shape = inspect_table(database.open(), source(**options))
    return shape.key, shape.is_unique


def test_a_key_over_the_beginnings_of_texts_is_made_of_the_whole_texts(mysql_like: OwnDatabase) -> None:
    mysql_like.run(
        "CREATE TABLE t (cust int, doc text, n int NOT NULL, PRIMARY KEY (cust, doc(10)))",
        "INSERT INTO t VALUES (1, 'one', 1), (1, 'two', 2), (2, 'one', 3)",
    )
    assert key_of(mysql_like) == (("cust", "doc"), False)
    rows = polled_day(source(), mysql_like.connection(), DAY)
    assert len({row["record_key"] for row in rows}) == 3
    with source().open(mysql_like.connection(), PollContext()) as poller:
        metadata = poller.schema().metadata
    assert json.loads(metadata[b"key"]) == [["cust", "n"], ["doc", "t"]]
    assert json.loads(metadata[b"earlier_key"]) == [["cust", "n"]]
    mysql_like.run("CREATE UNIQUE INDEX beginnings ON t (n, doc(5))", "CREATE UNIQUE INDEX ends ON t (doc(5), n)")
    assert key_of(mysql_like, key=["n"]) == (("n",), False)
    assert key_of(mysql_like, key=["n", "doc"]) == (("n", "doc"), False)
    with pytest.raises(DataError, match="cust does not identify a row: 1 of 3 rows"):
        polled_day(source(key=["cust"]), mysql_like.connection(), DAY)


@pytest.mark.parametrize(
    ("made", "is_unique"),
    [
        ("CREATE TABLE t (id int PRIMARY KEY) ENGINE=MEMORY", True),
        ("CREATE TABLE t (id int, PRIMARY KEY USING HASH (id)) ENGINE=MEMORY", True),
        ("CREATE TABLE t (id int PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3", True),
        ("CREATE TABLE t (id int NOT NULL, UNIQUE (id))", True),
        ("CREATE TABLE t (id int, UNIQUE (id))", False),
        ("CREATE TABLE t (id int NOT NULL, KEY (id))", False),
        ("CREATE TABLE t (id int NOT NULL, a int NOT NULL, UNIQUE (id, a))", False),
    ],
)
def test_which_indexes_of_mysql_identify(mysql_like: OwnDatabase, made: str, is_unique: bool) -> None:
    mysql_like.run(made)
    assert key_of(mysql_like, key=["id"]) == (("id",), is_unique)


def test_what_only_mysql_has_in_indexes(mysql: OwnDatabase) -> None:
    mysql.run(
        "CREATE TABLE t (a int NOT NULL, b int NOT NULL, UNIQUE KEY half (a, (b + 1)), UNIQUE KEY none ((b * 2)))"
    )
    assert mysql.open().indexes(Table("t")) == [Index("half", ("a",), is_unique=False)]
    assert key_of(mysql, key=["a"]) == (("a",), False)


def test_what_only_mariadb_has_in_indexes(mariadb: OwnDatabase) -> None:
    mariadb.run("CREATE TABLE t (doc text NOT NULL, UNIQUE (doc) USING HASH)")
    assert mariadb.open().indexes(Table("t")) == [Index("doc", ("doc",), is_unique=True, is_ordered=False)]
    assert key_of(mariadb, key=["doc"]) == (("doc",), True)
    mariadb.run("CREATE TABLE v (id int PRIMARY KEY, n int) WITH SYSTEM VERSIONING", "INSERT INTO v VALUES (1, 1)")
    mariadb.run("UPDATE v SET n = 2")
    assert key_of(mariadb, table="v") == (("id",), True)
    assert len(polled_day(source(table="v"), mariadb.connection(), DAY)) == 1


def test_a_merge_table_with_a_repeated_key_fails(mysql_like: OwnDatabase) -> None:
    """https://dev.mysql.com/doc/refman/9.7/en/merge-table-problems.html: keys are unique in each table only."""
    mysql_like.run(
        *(f"CREATE TABLE t{number} (id int PRIMARY KEY) ENGINE=MyISAM" for number in (1, 2)),
        "CREATE TABLE t (id int PRIMARY KEY) ENGINE=MERGE UNION=(t1, t2)",
        *(f"INSERT INTO t{number} VALUES (1)" for number in (1, 2)),
    )
    assert key_of(mysql_like) == (("id",), False)
    with pytest.raises(DataError, match="id does not identify a row: 1 of 2 rows"):
        polled_day(source(), mysql_like.connection(), DAY)


def test_the_key_of_a_table_with_children_is_checked(postgresql: OwnDatabase) -> None:
    postgresql.run(
        "CREATE TABLE t (id int PRIMARY KEY, n int)",
        "CREATE TABLE child () INHERITS (t)",
        "CREATE TABLE grandchild () INHERITS (child)",
        "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
        "INSERT INTO child VALUES (4, 4)",
    )
    assert key_of(postgresql) == (("id",), False)
    assert len(polled_day(source(), postgresql.connection(), DAY)) == 4
    postgresql.run("INSERT INTO child VALUES (2, 22)", "INSERT INTO grandchild VALUES (3, 33)")
    with pytest.raises(DataError, match="id does not identify a row: 2 of 6 rows"):
        polled_day(source(), postgresql.connection(), DAY)
    assert "no unique index guarantees that id identifies a row, so each poll checks" in str(
        check(source(), postgresql.connection())
    )
    postgresql.run("DROP TABLE grandchild, child")
    assert key_of(postgresql) == (("id",), True)


def test_the_key_of_a_partitioned_table_identifies(postgresql: OwnDatabase) -> None:
    postgresql.run(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id)",
        "CREATE TABLE lowest PARTITION OF low FOR VALUES FROM (0) TO (5)",
    )
    assert key_of(postgresql) == (("id",), True)
    assert key_of(postgresql, table="low") == key_of(postgresql, table="lowest") == (("id",), True)


@pytest.mark.parametrize(
    ("made", "key", "is_unique"),
    [
        (["ALTER TABLE t ADD UNIQUE (a)"], ["a"], True),
        (["ALTER TABLE t ADD UNIQUE (a)"], ["a", "b"], True),
        (["ALTER TABLE t ADD UNIQUE (a) DEFERRABLE"], ["a"], False),
        (["ALTER TABLE t ADD UNIQUE (a) DEFERRABLE INITIALLY DEFERRED"], ["a"], False),
        (["ALTER TABLE t ADD PRIMARY KEY (a) DEFERRABLE"], ["a"], False),
        (["ALTER TABLE t ADD UNIQUE (nullable)"], ["nullable"], False),
        (["CREATE UNIQUE INDEX u ON t (a) WHERE b > 0"], ["a"], False),
        (["CREATE UNIQUE INDEX u ON t (a, lower(c))"], ["a"], False),
        (["CREATE UNIQUE INDEX u ON t (a) INCLUDE (b)"], ["a"], True),
        (["CREATE UNIQUE INDEX u ON t (a)", "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'u'::regclass"], ["a"], False),  # noqa: E501
        (["CREATE INDEX u ON t USING hash (a)"], ["a"], False),
    ],
)  # fmt: skip
def test_which_indexes_of_postgresql_identify(
    postgresql: OwnDatabase, made: list[str], key: list[str], is_unique: bool
) -> None:
    postgresql.run("CREATE TABLE t (a int NOT NULL, b int NOT NULL, c text NOT NULL, nullable int)", *made)
    assert key_of(postgresql, key=key) == (tuple(key), is_unique)
    if "PRIMARY" in made[0]:
        assert key_of(postgresql) == (("a",), False)


def test_an_index_that_is_no_b_tree_identifies_if_it_is_unique(postgresql: OwnDatabase) -> None:
    """YugabyteDB uses ``lsm``, even for a primary key. PostgreSQL has none, so its catalog gets another name."""
    postgresql.run(
        "CREATE ACCESS METHOD lsm TYPE INDEX HANDLER bthandler",
        "CREATE TABLE t (id int PRIMARY KEY, other int NOT NULL)",
        "CREATE INDEX o ON t (other)",
        "UPDATE pg_class SET relam = (SELECT oid FROM pg_am WHERE amname = 'lsm') WHERE relname IN ('t_pkey', 'o')",
    )
    assert key_of(postgresql) == key_of(postgresql, key=["id"]) == (("id",), True)
    assert key_of(postgresql, key=["other"]) == (("other",), False)
    assert [index.is_ordered for index in postgresql.open().indexes(Table("t"))] == [True, True]
