"""Keys depend only on values: random values of every type, read as a table, a view and a query."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from airflow_provider_connect.clients.sql.database import Decimals, Query, Table, ValueChoices
from airflow_provider_connect.clients.sql.opening import open_database
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.polling.keys import keys_as_hex
from airflow_provider_connect.sources._sql.keys import key_bytes, key_class
from tests.equipment.sql.fixtures import OwnDatabase, own_database
from tests.equipment.sql.servers import DatabaseServer

pytestmark = pytest.mark.slow

EXAMPLES = max(settings().max_examples // 2, 1)
Values = dict[str, st.SearchStrategy[Any]]


def whole(bits: int, *, is_signed: bool = True) -> st.SearchStrategy[int]:
    lowest = -(2 ** (bits - 1)) if is_signed else 0
    return st.integers(lowest, lowest + 2**bits - 1)


def number(digits: int, places: int) -> st.SearchStrategy[Decimal]:
    return st.integers(1 - 10**digits, 10**digits - 1).map(lambda value: Decimal(f"{value}e-{places}"))


def words(most: int, alphabet: str = "aZé€😀 '\"\\,\n%0") -> st.SearchStrategy[str]:
    return st.text(alphabet, max_size=most)


NOW = dt.datetime.fromisoformat
MOMENTS = st.datetimes(NOW("1970-01-02"), NOW("2037-12-31"))
UUIDS = st.uuids().map(str) | st.uuids().map(lambda value: str(value).upper())
DOCUMENTS = st.dictionaries(words(3, "ab"), st.integers(-9, 9), max_size=2).map(json.dumps)
BITS = st.text("01", min_size=8, max_size=8)
POSTGRESQL: Values = {
    "smallint": whole(16),
    "integer": whole(32),
    "bigint": whole(64),
    "oid": whole(32, is_signed=False),
    "numeric(20,4)": number(20, 4),
    "numeric(38,0)": number(38, 0),
    "numeric(40,2)": number(40, 2),
    "numeric": number(30, 9),
    "money": number(12, 2),
    "boolean": st.booleans(),
    "text": words(20),
    "character varying(20)": words(20),
    "character(9)": words(9),
    "bytea": st.binary(max_size=9),
    "date": st.dates(),
    "time": st.times(),
    "timetz": st.times().map(lambda value: f"{value}+05:30"),
    "timestamp": st.datetimes(NOW("0002-01-01")),
    "timestamptz": MOMENTS.map(lambda value: f"{value}+05:30"),
    "interval": whole(20).map(lambda value: f"{value} seconds"),
    "uuid": UUIDS,
    "inet": st.ip_addresses().map(str),
    "bit(8)": BITS,
    "jsonb": DOCUMENTS,
    "integer[]": st.lists(whole(8), max_size=3).map(lambda values: f"{{{','.join(map(str, values))}}}"),
    "mood": st.sampled_from(["happy", "so so"]),
    "price": number(12, 3),
    "int4range": whole(8).map(lambda value: f"[{value},{value + 3})"),
}
MYSQL: Values = {
    "tinyint": whole(8),
    "tinyint(1)": st.integers(0, 1),
    "smallint unsigned": whole(16, is_signed=False),
    "mediumint": whole(24),
    "int": whole(32),
    "int unsigned": whole(32, is_signed=False),
    "bigint": whole(64),
    "bigint unsigned": whole(64, is_signed=False),
    "decimal(20,4)": number(20, 4),
    "decimal(20,0)": number(20, 0),
    "decimal(9,9)": number(9, 9),
    "decimal(12,2) unsigned": st.integers(0, 10**12 - 1).map(lambda value: Decimal(value).scaleb(-2)),
    "decimal(40,2)": number(40, 2),
    "bit(8)": whole(8, is_signed=False),
    "bit(64)": whole(64, is_signed=False),
    "char(9)": words(9),
    "varchar(20)": words(20),
    "varchar(20) character set latin1": words(20, "aZé "),
    "text": words(20),
    "enum('happy','so so')": st.sampled_from(["happy", "so so"]),
    "set('a','b')": st.sampled_from(["", "a", "a,b"]),
    "json": DOCUMENTS,
    "binary(4)": st.binary(max_size=4),
    "varbinary(9)": st.binary(max_size=9),
    "blob": st.binary(max_size=9),
    "date": st.dates(),
    "datetime": st.datetimes(NOW("0002-01-01")).map(lambda value: value.replace(microsecond=0)),
    "datetime(6)": st.datetimes(NOW("0002-01-01")),
    "timestamp(6) default current_timestamp(6)": MOMENTS,
    "time(6)": st.times(),
    "year": st.integers(1901, 2155),
}
ONLY_MARIADB: Values = {"uuid": UUIDS, "inet4": st.ip_addresses(v=4).map(str), "inet6": st.ip_addresses(v=6).map(str)}
TYPES = {"PostgreSQL": POSTGRESQL, "MariaDB": MYSQL | ONLY_MARIADB, "MySQL": MYSQL}


@pytest.fixture(scope="module", params=["postgresql_server", "mariadb_server", "mysql_server"])
def database(request: pytest.FixtureRequest) -> Iterator[OwnDatabase]:
    server: DatabaseServer = request.getfixturevalue(request.param)
    with own_database(server) as empty:
        if server.kind == "PostgreSQL":
            empty.run("CREATE TYPE mood AS ENUM ('happy', 'so so')", "CREATE DOMAIN price AS numeric(12,3)")
        columns = [f"c{at} {kind} NOT NULL" for at, kind in enumerate(TYPES[server.kind])]
        empty.run(f"CREATE TABLE t ({', '.join(columns)})", "CREATE VIEW v AS SELECT * FROM t")
        yield empty


WAYS = {
    "table": Table("t"),
    "view": Table("v"),
    "query": Query("SELECT * FROM t"),
    "grouped": Query("WITH w AS (SELECT DISTINCT * FROM t) SELECT * FROM w -- in a table of the server's own"),
}


def keys(database: OwnDatabase, way: Table | Query, decimals: Decimals) -> dict[str, list[str] | str]:
    """Return the key of each column alone, or the reason why it has none."""
    result: dict[str, list[str] | str] = {}
    with open_database(database.connection(), application_name="tests") as session:
        described = session.describe(way)
        columns = session.read_columns(described, ValueChoices(decimals=decimals))
        batches = list(session.read(columns, session.relation(way)))
    for column, read in zip(described, columns, strict=True):
        try:
            letter = key_class(column, read.type)
        except ConfigError:
            result[column.name] = "none"
            continue
        digests = [key_bytes([column.name], [letter], [batch.column(column.name)]) for batch in batches]
        result[column.name] = [letter, *(key for each in digests for key in keys_as_hex(each).to_pylist())]
    return result


# A failure is told as it was drawn: each try to make it smaller would read the table a dozen times.
@settings(suppress_health_check=list(HealthCheck), phases=[Phase.generate], max_examples=EXAMPLES)
@given(data=st.data())
def test_a_value_makes_the_same_key_in_every_way(database: OwnDatabase, data: st.DataObject) -> None:
    types = TYPES[database.server.kind]
    row = data.draw(st.fixed_dictionaries(types))
    with open_database(database.connection(), application_name="tests") as session:
        literals = [session.literal(row[kind]) for kind in types]
    if database.server.conn_type == "mysql":
        literals = [
            f"cast({text} AS unsigned)" if kind.startswith("bit") else text
            for kind, text in zip(types, literals, strict=True)
        ]
    database.run("DELETE FROM t", f"INSERT INTO t VALUES ({', '.join(literals)})")
    table = keys(database, WAYS["table"], "exact")
    assert all(len(keys_by_way) == 2 for keys_by_way in table.values()), "each column identifies"
    names = dict(zip(table, types, strict=True))
    for decimals in get_args(Decimals):
        for name, way in WAYS.items():
            keys_by_way = keys(database, way, decimals)
            others = {
                names[column]: (keys_by_way[column], key) for column, key in table.items() if keys_by_way[column] != key
            }
            if decimals == "double":  # a floating number identifies nothing
                others = {kind: pair for kind, pair in others.items() if pair[0] != "none"}
            assert others == {}, (name, decimals)
