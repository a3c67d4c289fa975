"""Guards before a read: a replica has the whole day, and changes of a table that matter are detected."""

from __future__ import annotations

import datetime as dt
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from airflow_provider_connect.clients.sql.database import Database
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.source import PlanGoneError, PollContext
from airflow_provider_connect.sources._sql.guards import require_replayed
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day
from tests.equipment.sql.reads import polled

DAY = Day(date=dt.date(2026, 10, 5))


class Server:
    """A server that reports its lag or raises an error."""

    def __init__(self, lag: float | Exception | None) -> None:
        self.lag = lag

    def lag_seconds(self) -> float | None:
        if isinstance(self.lag, Exception):
            raise self.lag
        return self.lag


@pytest.mark.parametrize(
    ("lag", "is_whole"),
    [
        (None, True),
        (0.0, True),
        (3_600.0, True),
        (3_600.5, False),
        (ConfigError("no right to ask"), True),
        (RetriableError("it does not replicate"), False),
    ],
)
def test_a_day_is_read_when_the_replica_has_all_of_it(lag: float | Exception | None, is_whole: bool) -> None:
    database, database_time = cast("Database", Server(lag)), DAY.end + dt.timedelta(hours=1)
    if is_whole:
        require_replayed(database, DAY, database_time)
    else:
        with pytest.raises(RetriableError, match=r"3600\.5 s behind|does not replicate"):
            require_replayed(database, DAY, database_time)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ALTER TABLE t ADD COLUMN c text", None),
        ("ALTER TABLE t RENAME COLUMN a TO b", "column 'a' of type decimal(10,2) is gone"),
        ("ALTER TABLE t RENAME TO u", "there is no table 't'. It existed when the run was planned"),
        ("CREATE INDEX by_a ON t (a)", None),
    ],
)
def test_a_table_of_sqlite_that_is_altered_after_the_plan_fails_or_is_read_as_planned(
    tmp_path: Path, change: str, message: str | None
) -> None:
    with closing(sqlite3.connect(tmp_path / "s.db")) as file:
        file.executescript("CREATE TABLE t (id integer PRIMARY KEY, a decimal(10,2)); INSERT INTO t VALUES (1, '2')")
        source = SqlSource(conn_id="shop", table="t", snapshot="replace")
        connection = Connection(conn_id="shop", conn_type="sqlite", host=str(tmp_path / "s.db"))
        with source.open(connection, PollContext()) as poller:
            (part,) = poller.plan([DAY])
            file.executescript(change)
            if message is None:
                assert [row["id"] for row in polled(poller, part)] == [1]
            else:
                with pytest.raises(PlanGoneError) as caught:
                    polled(poller, part)
                assert message in str(caught.value)
