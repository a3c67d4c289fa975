"""The loads that fill a target, by the driver and the options that earlier versions have, too: nothing newer is used.

A story is a stream from a file of SQLite into one target. The same code tells it to an earlier version, whose target is
frozen, and goes on with it in a test of this version.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect import registry
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.job import JobConfig, JobReport
from airflow_provider_connect.sink import Intent, Publisher, Sink, StreamKey
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day
from tests.equipment.spark.here import drive

MONDAY = dt.date(2026, 10, 5)
DAYS = [MONDAY + dt.timedelta(days=number) for number in range(7)]
BY_DAY = {"day_column": "at"}
FOLLOWED = {"mode": "incrementing", "incrementing_column": "id"}
WHOLE = {"snapshot": "replace"}
PEOPLE = ("ann", "bob", "cat", "dan")
Options = Mapping[str, Any]


class Shop:
    """Orders in SQLite, and the target that one stream of them is loaded into.

    :param target: the sink's options.
    :param connections: the sink's.
    :param name: begins the names of topics.
    """

    def __init__(
        self, root: Path, sink_name: str, target: Options, connections: Mapping[str, Connection], name: str = ""
    ) -> None:
        self.root, self.file, self.name = root, root / "shop.db", name
        self.sink_name, self.target, self.connections = sink_name, dict(target), dict(connections)
        self.runs = 0
        (root / "stage").mkdir(parents=True, exist_ok=True)
        self.execute(
            "CREATE TABLE IF NOT EXISTS orders "
            "(id INTEGER PRIMARY KEY, event TEXT NOT NULL, person TEXT NOT NULL, at TIMESTAMP NOT NULL)"
        )

    def execute(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.file)) as database, database:
            for statement in statements:
                database.execute(statement)

    def order(self, day: dt.date, *people: str, event: str = "signup") -> None:
        """Add an order of each person on a day, at noon. Ids count on."""
        self.execute(
            *(
                f"INSERT INTO orders (event, person, at) VALUES ('{event}', '{person}', '{day} 12:00:00')"
                for person in people
            )
        )

    def load(
        self,
        *days: dt.date,
        reading: Options,
        lookback: tuple[dt.date, ...] = (),
        sink: Options | None = None,
        conn_id: str = "shop",
        task: str = "load",
        attempt: int = 1,
        clear_number: int = 0,
        **job: Any,
    ) -> JobReport:
        """Run a job of a new intent of a task.

        :param clear_number: how often the run was cleared before.
        :param job: further fields of the job, as this version has them.
        """
        self.runs += 1
        number = self.runs
        own: dict[str, Any] = {"staging": str(self.root / "stage")} if self.sink_name != "delta" else {}
        if "has_lookback" in JobConfig.model_fields:  # 1.0.0rc1 lacks it
            own["has_lookback"] = True
        config = JobConfig(
            source_name="sql",
            source=self.source(reading, conn_id).serialize(),
            sink_name=self.sink_name,
            sink=self.sink(sink).serialize(),
            days=tuple(Day(date=day) for day in days),
            lookback=tuple(Day(date=day) for day in lookback),
            intent=Intent(
                token=f"{number + clear_number * 1_000_000:032x}",
                run=f"dag/run-{number}/{task}",
                clear_number=clear_number,
            ),
            attempt=f"{number + clear_number * 1_000_000:016x}-{attempt}",
            report=str(self.root / f"run-{number}-{attempt}" / "report.json"),
            progress_seconds=1,
            **own,
            **job,
        )
        return drive(config, self.connections | {conn_id: self.database(conn_id)})

    def database(self, conn_id: str = "shop") -> Connection:
        return Connection(conn_id=conn_id, conn_type="sqlite", host=str(self.file))

    def source(self, reading: Options, conn_id: str = "shop") -> SqlSource:
        return SqlSource(conn_id=conn_id, table="orders", **reading)

    def sink(self, more: Options | None = None) -> Sink:
        return registry.sink_class(self.sink_name).from_options(self.target | dict(more or {}))

    def publisher(self, conn_id: str = "shop", **options: Any) -> Publisher:
        """Return a publisher of the stream; it is closed after use."""
        key = StreamKey(connector="sql", stream=self.source(BY_DAY, conn_id).stream_key)
        return self.sink(options).open(key, self.connections)

    def erase(self, *people: str, kind: Any = "day", column: str = "person", **options: Any) -> dict[str, int]:
        with self.publisher(**options) as publisher:
            done = publisher.erase(column, people, kind)
        return {str(day): rows for day, rows in done.rows.items()}

    def recorded(self, kind: Any, conn_id: str = "shop") -> dict[str, Any]:
        """Return all that the ledger says of the stream, as plain JSON."""
        with self.publisher(conn_id) as publisher:
            ledger = publisher.ledger
            rows = {str(day): ledger.row(day) for day in ledger.days()}
            newest = ledger.newest(DAYS[6], kind)
            erased = ledger.erased()
        return {
            "rows": {day: row and row.model_dump(mode="json") for day, row in rows.items()},
            "newest": newest and newest.model_dump(mode="json"),
            "erased": [person for person, named in zip(PEOPLE, erased.matches(PEOPLE), strict=True) if named],
        }

    def orders(self) -> list[list[Any]]:
        """Return all orders: id, event, person and time."""
        with closing(sqlite3.connect(self.file)) as database:
            return [list(row) for row in database.execute("SELECT id, event, person, at FROM orders ORDER BY id")]


def require_all(report: JobReport) -> JobReport:
    """Return a report of a job that has done all it was asked for."""
    if report.failure is not None:
        raise AssertionError(report.failure)
    return report


# The stories


def tell_days(shop: Shop, *, erases: str | None = "person", **how: Any) -> None:
    """Load three days, the second again with one row less, the third unchanged; then erase one person.

    :param erases: the column that names people; None if nobody is erased.
    """
    for day, people in zip(DAYS, (("ann", "bob"), ("bob", "cat", "cat"), ("cat", "dan")), strict=False):
        shop.order(day, *people)
        shop.order(day, people[0], event="view")
        require_all(shop.load(day, reading=BY_DAY, **how))
    shop.execute("DELETE FROM orders WHERE id = 5")
    require_all(shop.load(DAYS[1], reading=BY_DAY, **how))
    require_all(shop.load(DAYS[3], reading=BY_DAY, lookback=(DAYS[2],), **how))
    if erases:
        shop.erase("ann", column=erases)


def tell_halted_days(shop: Shop, **_: Any) -> None:
    """Load a day, and the second until it is staged: its commit fails, and Airflow would try again."""
    for day, people in zip(DAYS, (("ann", "bob"), ("cat", "dan")), strict=False):
        shop.order(day, *people)
    require_all(shop.load(DAYS[0], reading=BY_DAY))
    with shop.publisher() as publisher, pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(publisher), "commit", _fail_to_commit)
        shop.load(DAYS[1], reading=BY_DAY)


def _fail_to_commit(*_: Any) -> None:
    raise RetriableError("the sink is away")


def tell_increments(shop: Shop, *, erases: str | None = "person", **how: Any) -> None:
    """Load three increments, the third of them empty."""
    for day, people in zip(DAYS, (("ann", "bob"), ("cat",), ()), strict=False):
        shop.order(day, *people)
        require_all(shop.load(day, reading=FOLLOWED, **how))
    if erases:
        shop.erase("ann", kind="increment", column=erases)


def tell_snapshots(shop: Shop, *, erases: str | None = "person", **how: Any) -> None:
    """Load three snapshots: a row goes, then comes back, and another goes; then erase one person."""
    shop.order(DAYS[0], "ann", "bob", "cat")
    require_all(shop.load(DAYS[0], reading=WHOLE, **how))
    shop.execute("DELETE FROM orders WHERE person = 'bob'")
    shop.order(DAYS[1], "dan")
    require_all(shop.load(DAYS[1], reading=WHOLE, **how))
    shop.execute(
        f"INSERT INTO orders VALUES (2, 'signup', 'bob', '{DAYS[0]} 12:00:00')",
        "DELETE FROM orders WHERE person = 'cat'",
    )
    require_all(shop.load(DAYS[2], reading=WHOLE, **how))
    if erases:
        shop.erase("ann", kind="snapshot", column=erases)
