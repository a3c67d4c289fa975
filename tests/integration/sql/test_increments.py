"""Tables followed by a time, a number or both on real databases: the rows that are read, and the missed ones."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._sql.preflight import check
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.sql.fixtures import OwnDatabase

pytestmark = pytest.mark.slow

DAYS = [Day(date=dt.date(2026, 10, 5) + number * ONE_DAY) for number in range(4)]
TIMES = {"postgres": ("timestamptz", "timestamp"), "mysql": ("timestamp(6)", "datetime(6)")}
BOTH: dict[str, Any] = {
    "mode": "timestamp+incrementing",
    "timestamp_column": "changed",
    "incrementing_column": "id",
    "db_timezone": "UTC",
}


class Orders:
    """A table that changes, and the source that follows it."""

    def __init__(self, database: OwnDatabase, *, clock: int = 0, **options: Any) -> None:
        self.own = database
        kind = TIMES[database.server.conn_type][clock]
        database.run(f"CREATE TABLE orders (id bigint PRIMARY KEY, state varchar(20), changed {kind} NULL)")
        self.source = SqlSource(conn_id=database.connection().conn_id, table="orders", **BOTH | options)

    def put(self, *rows: tuple[int, str, str]) -> None:
        """Write rows with id, state and time. An existing row is changed."""
        for number, state, at in rows:
            written = f"INSERT INTO orders VALUES ({number}, '{state}', {at})"
            self.own.run(f"DELETE FROM orders WHERE id = {number}", written)

    def increment(self, day: Day, begin: str | None, to: str | None = None) -> tuple[str, list[tuple[int, str]]]:
        with self.source.open(self.own.connection(), PollContext()) as poller:
            end = poller.follow(day, begin, to)
            batches = [batch for part in poller.plan([day]) for _, batch in poller.poll(part, Tally([day]))]
        rows = [row for batch in batches for row in batch.to_pylist()]
        return end, sorted((row["id"], row["state"]) for row in rows)


@pytest.mark.parametrize("clock", [0, 1], ids=["instant", "wall"])
def test_rows_of_one_moment_are_read_once_and_changed_rows_again(every: OwnDatabase, clock: int) -> None:
    orders = Orders(every, clock=clock)
    moment = "'2026-10-05 12:00:00.123456'"
    orders.put((1, "new", "'2026-10-05 11:00:00'"), (2, "new", moment), (3, "new", moment), (9, "lost", "NULL"))
    end, numbers = orders.increment(DAYS[0], None)
    assert numbers == [(1, "new"), (2, "new"), (3, "new")]
    assert end.endswith('"3"]')
    assert ":00.123456" in end

    orders.put((4, "new", moment), (1, "paid", "'2026-10-05 12:00:00.123457'"))
    second, numbers = orders.increment(DAYS[1], end)
    assert numbers == [(1, "paid"), (4, "new")]
    assert orders.increment(DAYS[2], second) == (second, [])
    assert orders.increment(DAYS[1], end, second) == (second, [(1, "paid"), (4, "new")])
    # What was changed since its increment came with a later one, and is no part of the earlier any more.
    assert orders.increment(DAYS[0], None, end) == (end, [(2, "new"), (3, "new")])


def test_a_row_that_is_too_young_waits(every: OwnDatabase) -> None:
    database_time = {"postgres": "clock_timestamp()", "mysql": "sysdate(6)"}[every.server.conn_type]
    orders = Orders(every, timestamp_delay_seconds=3600)
    orders.put(
        (1, "old", f"{database_time} - interval '2' hour"),
        (2, "young", database_time),
        (3, "ahead", f"{database_time} + interval '2' hour"),
    )
    end, numbers = orders.increment(DAYS[0], None)
    assert numbers == [(1, "old")]
    orders.source = orders.source.model_copy(update={"timestamp_delay_seconds": 0.0})
    assert orders.increment(DAYS[1], end)[1] == [(2, "young")], "nobody reads ahead of the database's clock"


def test_a_late_commit_with_a_lower_number_is_missed(every: OwnDatabase) -> None:
    """Every connector that follows a number misses it. docs/sql.md has the frequency and the remedy."""
    orders = Orders(every, mode="incrementing", timestamp_column=None, db_timezone=None)
    orders.put((1, "a", "NULL"), (3, "c", "NULL"))
    end, numbers = orders.increment(DAYS[0], None)
    assert (end, numbers) == ('["3"]', [(1, "a"), (3, "c")])
    orders.put((2, "late", "NULL"), (4, "d", "NULL"))
    assert orders.increment(DAYS[1], end) == ('["4"]', [(4, "d")])


def test_a_check_notes_the_rows_that_a_cursor_misses(every: OwnDatabase) -> None:
    orders = Orders(every)
    findings = [(finding.subject, finding.result) for finding in check(orders.source, every.connection()).findings]
    report = " ".join(f"{subject}: {text};" for subject, text in findings)
    assert "mode 'timestamp+incrementing': a row that is committed after" in report
    assert "column 'changed': no index begins with it" in report
    assert "column 'changed': it may be NULL" in report
