"""A SQLite file with orders, and jobs that load them into a Delta table: complete jobs in this process."""

from __future__ import annotations

import datetime as dt
import sqlite3
from pathlib import Path
from typing import Any

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.definition import build_definition
from airflow_provider_connect.job import JobConfig, JobReport
from airflow_provider_connect.sink import Intent, Ledger, Publisher, StreamKey
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.delta.lab import rows_of
from tests.equipment.spark.here import drive

MONDAY = dt.date(2026, 10, 5)
TUESDAY, WEDNESDAY = MONDAY + ONE_DAY, MONDAY + 2 * ONE_DAY
KEY = StreamKey(connector="sql", stream="shop.orders")
BY_DAY = {"day_column": "at"}
FOLLOWED = {"mode": "incrementing", "incrementing_column": "id"}
SIGNUPS, VIEWS = {"where": "event LIKE 'signup%'"}, {"where": "event LIKE 'view%'"}


class Shop:
    """A SQLite file with orders, and the table that tasks load them into."""

    def __init__(self, root: Path) -> None:
        self.root, self.file, self.path = root, root / "shop.db", root / "table"
        self._runs = 0
        self.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, event TEXT NOT NULL, at TIMESTAMP NOT NULL)"
        )

    def execute(self, *statements: str) -> None:
        with sqlite3.connect(self.file) as database:
            for statement in statements:
                database.execute(statement)
        database.close()

    def order(self, date: dt.date, *events: str) -> None:
        self.execute(*(f"INSERT INTO orders (event, at) VALUES ('{event}', '{date} 12:00:00')" for event in events))

    def run(
        self, *dates: dt.date, task: str = "load", written: dict[str, Any] | None = None, **options: Any
    ) -> JobReport:
        """Run a job with a new intent.

        :param written: the options as written in a DAG file, if they are templates there.
        """
        self._runs += 1
        source = SqlSource(conn_id="shop", table="orders", **options)
        connection = Connection(conn_id="shop", conn_type="sqlite", host=str(self.file))
        job = JobConfig(
            source_name="sql",
            source=source.serialize(),
            sink_name="delta",
            sink={"path": str(self.path)},
            days=tuple(Day(date=date) for date in dates),
            intent=Intent(token=f"{self._runs:032x}", run=f"dag/run-{self._runs}/{task}"),
            attempt=f"{self._runs:016x}-1",
            report=str(self.root / f"run-{self._runs}" / "report.json"),
            progress_seconds=1,
            definition=build_definition(source, source.serialize() | (written or {}), connection),
        )
        return drive(job, {"shop": connection})

    @property
    def publisher(self) -> Publisher:
        return DeltaSink(path=str(self.path)).open(KEY, {})

    @property
    def ledger(self) -> Ledger:
        return self.publisher.ledger

    def rows(self) -> list[str]:
        return rows_of(self.path)


def refusal(report: JobReport) -> str:
    assert report.failure is not None
    assert report.failure.type == "ConfigError"
    return report.failure.message
