"""One dataset with one target, and what publishes rows into it: script, ledger and tables, without a sink."""

from __future__ import annotations

import datetime as dt
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sink import LedgerRow, StreamKey
from airflow_provider_connect.sinks._bigquery_access import Api
from airflow_provider_connect.sinks._bigquery_errors import ConflictError
from airflow_provider_connect.sinks._bigquery_ledger import BigQueryLedger, ensure
from airflow_provider_connect.sinks._bigquery_merge import POSITION
from airflow_provider_connect.sinks._bigquery_place import Place
from airflow_provider_connect.sinks._bigquery_publish import PublishPlan, WriteMode, publish_script, settle
from airflow_provider_connect.sinks._bigquery_sql import literal
from airflow_provider_connect.sinks._bigquery_sweep import stage_of
from airflow_provider_connect.sinks._bigquery_table import Layout, Ready, ensure_target, staging
from airflow_provider_connect.sinks._bigquery_types import columns

KEY = StreamKey(connector="mixpanel", stream="export")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("who's", pa.string()),
        pa.field("gone", pa.bool_()),
        pa.field("version", pa.int64()),
    ]
)
COUNT = itertools.count(1)


@dataclass
class Bench:
    """One dataset with one target, and what publishes rows into it."""

    api: Api
    target: Place
    ledger: Place
    write_mode: WriteMode = "replace"
    schema: pa.Schema = SCHEMA
    layout: Layout = field(default_factory=Layout)
    filter_column: str | None = None  # the emulator forgets that a table requires a filter

    def query(self, sql: str) -> list[dict[str, Any]]:
        return self.api.query(sql, doing="test", labels={})[0]

    def prepare(self) -> Ready:
        ready = ensure_target(self.api, self.target, self.layout, lambda existing: columns(self.schema, existing))
        ensure(self.api, self.ledger, self.target, KEY, labels={}, write_mode=self.write_mode)
        return ready

    def stage(self, ready: Ready, attempt: str, rows: Sequence[tuple[Any, ...]]) -> Place:
        place = stage_of(self.target, attempt)
        position = {"name": POSITION, "type": "INTEGER", "mode": "NULLABLE"}
        staging(self.api, place, [*(column.staging for column in ready.columns), position], {})
        if rows:
            values = ", ".join(f"({', '.join(map(sql, (*row, i)))})" for i, row in enumerate(rows))
            names = ", ".join(f"`{column.name}`" for column in ready.columns)
            self.query(f"INSERT INTO {place.sql} ({names}, {POSITION}) VALUES {values}")
        return place

    def plan(
        self, day: int, order: int, rows: Sequence[tuple[Any, ...]], *, token: str | None = None, **changes: Any
    ) -> PublishPlan:
        ready = self.prepare()
        attempt = f"a{next(COUNT)}"
        row = LedgerRow(
            day=dt.date(2026, 9, day),
            generation=0,
            token=token or f"token-{day}-{order}",
            order=order,
            rows=len(rows),
            digest="d'1",
            attempt=attempt,
            counts={"rows_read": len(rows), "duplicates": 1},
            reference="job",
            link="https://example.com/?a=b",
        )
        plan = PublishPlan(
            target=self.target,
            staging=self.stage(ready, attempt, rows),
            ledger=self.ledger,
            key=KEY,
            row=row,
            run="dag/run'1/task",
            columns=ready.columns,
            write_mode=self.write_mode,
            filter_column=ready.filter_column or self.filter_column,
            streams=("s1", "s2"),
        )
        return replace(plan, **changes)

    def run(self, plan: PublishPlan) -> LedgerRow:
        deadline = time.monotonic() + 60
        while True:
            try:
                rows, _ = self.api.query(publish_script(plan), doing="publish", labels={})
                return settle(plan, rows[0])
            except ConflictError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def publish(self, day: int, order: int, rows: Sequence[tuple[Any, ...]], **changes: Any) -> LedgerRow:
        return self.run(self.plan(day, order, rows, **changes))

    def rows(self) -> list[tuple[Any, ...]]:
        found = self.query(f"SELECT id, version, day FROM {self.target.sql} ORDER BY day, id, version")
        return [(row["day"].day, row["id"], row["version"]) for row in found]

    def book(self, **changes: Any) -> BigQueryLedger:
        return BigQueryLedger(self.api, self.target, self.ledger, KEY, **changes)


def sql(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return "NULL" if value is None else literal(value)


def row(key: int | None, version: int | None = 1, *, gone: bool | None = False) -> tuple[Any, ...]:
    return (key, "it's", gone, version)


def with_field(*fields: pa.Field) -> pa.Schema:
    return pa.schema([*SCHEMA, *fields])


@pytest.fixture(scope="module")
def publish_api(google_connection: Connection) -> Iterator[Api]:
    """A client that gives up soon."""
    with Api.open(google_connection, timeout_seconds=20, retry_budget_seconds=20) as opened:
        yield opened


@pytest.fixture
def bench(publish_api: Api, dataset: str) -> Bench:
    """A dataset in which nothing is published yet."""
    place = Place(publish_api.project, dataset, "events")
    return Bench(publish_api, place, place.sibling("connect_ledger"))
