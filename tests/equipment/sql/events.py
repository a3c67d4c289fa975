"""A growing table of SQLite, and the source that follows it by its number."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import ALONE, PollContext, Poller
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day


class Events:
    """A growing table in a SQLite file."""

    def __init__(
        self, folder: Path, columns: str = "id integer NOT NULL PRIMARY KEY, name text", **options: Any
    ) -> None:
        self.columns = columns
        self.file = folder / "shop.db"
        self.options: dict[str, Any] = {
            "mode": "incrementing",
            "incrementing_column": "id",
            "table": "events",
        } | options
        self.run(f"CREATE TABLE events ({columns})")

    def run(self, statement: str, *rows: tuple[Any, ...]) -> None:
        with closing(sqlite3.connect(self.file)) as database, database:
            database.executemany(statement, rows) if rows else database.execute(statement)

    def add(self, *ids: int) -> None:
        if ids:
            self.run("INSERT INTO events VALUES (?, 'x')", *((each,) for each in ids))

    def empty(self, *, sets_back: bool) -> None:
        """Delete all rows.

        :param sets_back: whether numbers begin again.
        """
        self.run("DELETE FROM events")
        if sets_back and "AUTOINCREMENT" in self.columns:
            self.run("DELETE FROM sqlite_sequence")

    def open(self, context: PollContext = ALONE) -> Any:
        source = SqlSource(conn_id="shop_db", **self.options)
        assert source.kind == "increment"
        return source.open(Connection(conn_id="shop_db", conn_type="sqlite", host=str(self.file)), context)

    def increment(self, day: Day, begin: str | None, to: str | None = None) -> tuple[str, list[int]]:
        """Return the end of an increment and its ids."""
        with self.open() as poller:
            end = poller.follow(day, begin, to)
            return end, ids(poller, day)


def ids(poller: Poller, day: Day) -> list[int]:
    batches = [batch for part in poller.plan([day]) for _, batch in poller.poll(part, Tally([day]))]
    return sorted(
        (each for batch in batches for each in batch.column("id").to_pylist()),
        key=lambda each: (each is not None, each),  # NULL first
    )
