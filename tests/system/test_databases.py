"""Catchup from tables of a database that ends sessions and goes down: nothing lost, nothing doubled."""

from __future__ import annotations

import contextlib
import datetime as dt
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from tests.equipment.airflow.backfills import PATIENCE_SECONDS
from tests.equipment.airflow.caught_up import ids, is_done, require_done, tries
from tests.equipment.sql.fixtures import OwnDatabase, own_database
from tests.equipment.sql.servers import PASSWORD, READER, PostgreSQLServer
from tests.system.conftest import System, wait_for

pytestmark = pytest.mark.slow

DATES = [dt.date(2026, 10, day) for day in range(1, 8)]
DAGS = {"sql_catchup": DATES, "sql_cursor": DATES[:4]}
ENDED = 2
"""How many sessions are ended: each may bring a retry, if it did not poll."""
WAITS = f"SELECT pid FROM pg_stat_activity WHERE usename = '{READER}' AND wait_event_type = 'Lock'"


class Shop:
    """Orders of a week, and a table that a program goes on writing to, three rows of one moment at a time."""

    def __init__(self, own: OwnDatabase) -> None:
        self.own = own
        self._ends = threading.Event()
        self._writer = threading.Thread(target=self._write)

    def __enter__(self) -> Shop:
        self.own.run(
            "CREATE TABLE orders (id int PRIMARY KEY, created timestamptz NOT NULL)",
            "CREATE TABLE changes (id int PRIMARY KEY, changed timestamptz NOT NULL)",
            *(
                f"INSERT INTO orders SELECT {100 * at} + n, timestamptz '{date} 00:00+00' + n * interval '37 minutes' "
                f"FROM generate_series(0, {19 + at}) AS s (n)"
                for at, date in enumerate(DATES)
            ),
        )
        self._writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._writer.join()

    def orders(self, at: int) -> list[str]:
        """Return the ids of a day's orders."""
        return [str(100 * at + number) for number in range(20 + at)]

    def _write(self) -> None:
        first = 1
        while not self._ends.wait(0.3):
            with contextlib.suppress(psycopg.Error):  # it is down
                self.own.run(
                    f"INSERT INTO changes SELECT n, now() FROM generate_series({first}, {first + 2}) AS s (n) "
                    "ON CONFLICT DO NOTHING"
                )
                first += 3

    def end_a_session(self, table: str) -> None:
        """End the next session that reads a table, while it reads."""
        with closing(self.own.server.admin(self.own.name)) as holder:
            holder.execute("BEGIN")
            holder.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            found = wait_for(lambda: self.own.run(WAITS), PATIENCE_SECONDS, f"a reader of {table}", every=0.2)
            self.own.run(f"SELECT pg_terminate_backend({found[0][0]})")

    def go_down(self) -> None:
        """End the server with all sessions."""
        server = self.own.server
        assert server.process is not None
        server.process.send_signal(signal.SIGINT)
        server.process.wait(timeout=60)
        server.process = None


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with PostgreSQLServer() as server, own_database(server) as own, Shop(own) as shop:
        yield shop


@pytest.fixture(scope="module", autouse=True)
def caught_up(system: System, shop: Shop) -> None:
    """Let both DAGs catch up side by side, while readers are thrown out and the server is away for a while."""
    connection: dict[str, Any] = {"connection_id": "shop", "conn_type": "postgres", "host": "127.0.0.1"}
    connection |= {"port": shop.own.server.port, "schema": shop.own.name, "login": READER, "password": PASSWORD}
    system.airflow.api("POST", "connections", json=connection)
    for dag_id in DAGS:
        system.airflow.wait_for_dag(dag_id)
        system.airflow.api("PATCH", f"dags/{dag_id}?update_mask=is_paused", json={"is_paused": False})
    for table in ("changes", "orders"):  # the first has few runs, and waits as long as it is locked
        shop.end_a_session(table)
    shop.go_down()
    try:
        wait_for(lambda: retries(system) > ENDED, PATIENCE_SECONDS, "a retry as the database was down")
    finally:
        shop.own.server.start()
    wait_for(lambda: all(is_done(system, *each) for each in DAGS.items()), PATIENCE_SECONDS, "all runs")


def retries(system: System) -> int:
    return sum(max(0, number - 1) for dag_id in DAGS for number in tries(system, dag_id).values())


def test_a_week_of_a_table_in_trouble(system: System, shop: Shop) -> None:
    require_done(system, "sql_catchup", {str(date): shop.orders(at) for at, date in enumerate(DATES)})


def test_runs_that_follow_a_table_come_one_after_another(system: System, shop: Shop) -> None:
    by_day = ids(system, "sql_cursor", DAGS["sql_cursor"])
    in_order = [number for date in DAGS["sql_cursor"] for number in sorted(map(int, by_day[str(date)]))]
    assert len(in_order) == len(set(in_order)), "a row came twice"
    assert in_order == list(range(1, len(in_order) + 1)), "a row is missing, or came in another run than its own"
    assert all(by_day.values()), "the table grew between any two runs"
