"""Plays a workload on a real database, with open transactions, and loads it in every way after each day."""

from __future__ import annotations

import datetime as dt
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.completeness import Rules
from airflow_provider_connect.job import DayReport, JobConfig
from airflow_provider_connect.sink import Connections, Intent
from airflow_provider_connect.sources._sql import poller
from airflow_provider_connect.window import Day
from tests.equipment.spark.here import drive
from tests.equipment.sql.fixtures import OwnDatabase
from tests.equipment.sql.promises import TABLE, Loaded, Way
from tests.equipment.sql.workload import DAYS, NARROW, Change, Reshape, Row, State, Transaction, poll_of

ORDERS = "CREATE TABLE {0} (id bigint PRIMARY KEY, state varchar({1}), amount numeric(8,2), changed {2} NULL)"
KINDS = {"postgres": "timestamptz", "mysql": "timestamp(6)"}
RESHAPES: dict[Reshape, dict[str, str]] = {
    "truncate": dict.fromkeys(KINDS, "TRUNCATE TABLE {0}"),
    "add": dict.fromkeys(KINDS, "ALTER TABLE {0} ADD COLUMN note varchar(20)"),
    "widen": {
        "postgres": "ALTER TABLE {0} ALTER COLUMN state TYPE varchar({1})",
        "mysql": "ALTER TABLE {0} MODIFY COLUMN state varchar({1})",
    },
}
SESSION = {
    "postgres": ("SET TIME ZONE 'UTC'", "SET datestyle = 'ISO'"),
    "mysql": ("SET time_zone = '+00:00'", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
}
BLOCKED = {"postgres": "SET lock_timeout = '10s'", "mysql": "SET SESSION lock_wait_timeout = 10"}
"""A workload has no transaction wait for another: one that does is a mistake of its maker, and must not hang."""


class Player:
    """A table that lives through a workload."""

    def __init__(self, own: OwnDatabase, workload: Sequence[Transaction]) -> None:
        self._own = own
        self._kind = own.server.conn_type
        self._sessions = ExitStack()
        self._idle: list[Any] = []
        self._left = list(reversed(workload))
        self._open: list[tuple[dt.datetime, int, Any]] = []
        own.run(ORDERS.format(TABLE, NARROW, KINDS[self._kind]))

    def __enter__(self) -> Player:
        return self

    def __exit__(self, *_: object) -> None:
        self._sessions.close()

    def play(self, until: dt.datetime) -> None:
        """Begin and commit all that is due; what is begun and not committed stays open."""
        while self._left and self._left[-1].begin <= until:
            transaction = self._left.pop()
            self._commit(transaction.begin)
            self._begin(transaction)
        self._commit(until)

    def _commit(self, until: dt.datetime) -> None:
        while self._open and self._open[0][0] <= until:
            session = heapq.heappop(self._open)[2]
            _run(session, ["COMMIT"])
            self._idle.append(session)

    def _begin(self, transaction: Transaction) -> None:
        session = self._idle.pop() if self._idle else self._session()
        if transaction.reshape is not None:
            _run(session, [RESHAPES[transaction.reshape][self._kind].format(TABLE, 3 * NARROW)])
        else:
            _run(session, ["BEGIN", *(_sql(change) for change in transaction.changes)])
            if transaction.is_late:
                heapq.heappush(self._open, (transaction.commit, len(self._left), session))
                return
            _run(session, ["COMMIT"])
        self._idle.append(session)

    def _session(self) -> Any:
        session = self._sessions.enter_context(closing(self._own.server.admin(self._own.name)))
        _run(session, [*SESSION[self._kind], BLOCKED[self._kind]])
        return session

    def rows(self) -> State:
        """Return what everybody sees of the table, by the database's own driver."""
        if not self._idle:
            self._idle.append(self._session())
        with closing(self._idle[-1].cursor()) as cursor:
            cursor.execute(f"SELECT * FROM {TABLE}")
            names = [column[0] for column in cursor.description]
            return {row.id: row for row in rows_in(dict(zip(names, each, strict=True)) for each in cursor.fetchall())}


def _run(session: Any, statements: Iterable[str]) -> None:
    with closing(session.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)


def _sql(change: Change) -> str:
    row = change.row
    if change.kind == "delete":
        return f"DELETE FROM {TABLE} WHERE id = {row.id}"
    changed = "NULL" if row.changed is None else f"'{row.changed.replace(tzinfo=None)}'"
    values = {"state": f"'{row.state}'", "amount": str(row.amount), "changed": changed}
    values |= {} if row.note is None else {"note": f"'{row.note}'"}
    if change.kind == "insert":
        return f"INSERT INTO {TABLE} (id, {', '.join(values)}) VALUES ({row.id}, {', '.join(values.values())})"
    return f"UPDATE {TABLE} SET {', '.join(f'{name} = {value}' for name, value in values.items())} WHERE id = {row.id}"


def rows_in(table: Iterable[dict[str, Any]]) -> Iterator[Row]:
    """Yield rows of the workload, as a database's driver or a reader of a Delta table gives them."""
    for each in table:
        at = each["changed"]
        changed = None if at is None else at.replace(tzinfo=dt.UTC) if at.tzinfo is None else at.astimezone(dt.UTC)
        yield Row(each["id"], each["state"], each["amount"], changed, each.get("note"))


class Load:
    """One way's stream into a sink, by default a Delta table, a run a day.

    :param sink: its options.
    """

    def __init__(
        self,
        own: OwnDatabase,
        way: Way,
        root: Path,
        *,
        sink_name: str = "delta",
        sink: Mapping[str, Any] | None = None,
        connections: Connections | None = None,
    ) -> None:
        self.way, self._root = way, root
        self.path = root / "table"
        root.mkdir()
        self._connection = own.connection()
        self._connections = {self._connection.conn_id: self._connection, **(connections or {})}
        self._sink_name, self._sink = sink_name, dict(sink or {"path": str(self.path)})

    def run(self, at: int) -> list[DayReport]:
        """Load a day, and those before it that its way loads again, as its run does."""
        job = JobConfig(
            source_name="sql",
            source={"conn_id": self._connection.conn_id, "table": TABLE, **self.way.options},
            sink_name=self._sink_name,
            sink=self._sink,
            days=(Day(date=DAYS[at]),),
            lookback=tuple(Day(date=date) for date in DAYS[max(0, at - self.way.lookback) : at]),
            has_lookback=bool(self.way.lookback),
            intent=Intent(token=f"{at:032x}", run=f"dag/run-{at}/task"),
            attempt=f"{at:016x}-1",
            report=str(self._root / f"run-{at}" / "report.json"),
            staging=str(self._root / "stage"),
            on_empty="accept",  # the table is emptied once
            rules=Rules(on_shrink="accept"),
            progress_seconds=1,
        )
        report = drive(job, self._connections)
        assert report.failure is None, f"{self.way.name}, {DAYS[at]}: {report.failure}"
        return list(report.days)

    def loaded(self) -> Loaded:
        """Return what a reader of the Delta table finds."""
        found = DeltaTable(str(self.path)).to_pyarrow_table().to_pylist()
        rows = {(each["day"], row.id): row for each, row in zip(found, rows_in(found), strict=True)}
        assert len(rows) == len(found), "a row came twice for a day"
        return rows


@contextmanager
def present(own: OwnDatabase, now: dt.datetime) -> Iterator[None]:
    """Let the database's clock and ours say what the workload's time is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(poller, "current_time", lambda: now)
        patch.setitem(poller.CLOCK_QUERIES, own.server.conn_type, f"SELECT {now.timestamp()}")
        yield


def live_through(
    own: OwnDatabase,
    workload: Sequence[Transaction],
    loads: Sequence[Load],
    look: Callable[[State], None] = lambda _: None,
) -> State:
    """Play all days, and run every load after each; return what the database has in the end.

    :param look: is called after each day's loads with what the database has then.
    """
    with Player(own, workload) as player:
        for at, date in enumerate(DAYS):
            player.play(poll_of(date))
            with present(own, poll_of(date)):
                for load in loads:
                    load.run(at)
            look(player.rows())
        return player.rows()
