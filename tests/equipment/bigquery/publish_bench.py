"""One dataset with one target, and the parts that publish into it: script, ledger and tables, without a sink."""

from __future__ import annotations

import datetime as dt
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.errors import ConflictError
from airflow_provider_connect.clients.bigquery.sql import TableRef, literal
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.publishing import ledger_row, seen_publish
from airflow_provider_connect.sink import Intent, LedgerRow, Publish, StreamKey
from airflow_provider_connect.sinks._bigquery.ledger import BigQueryLedger, WriteMode, ensure_ledger
from airflow_provider_connect.sinks._bigquery.names import POSITION_COLUMN
from airflow_provider_connect.sinks._bigquery.plan import LedgerStep, PublishPlan
from airflow_provider_connect.sinks._bigquery.script import publish_script, published_row
from airflow_provider_connect.sinks._bigquery.staging import (
    StagingLayout,
    create_staging_table,
    staging_prefix,
    staging_table_for,
)
from airflow_provider_connect.sinks._bigquery.target import PreparedTarget, ensure_target
from airflow_provider_connect.sinks._bigquery.turns import run_confirmation
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.stage.manifest import Manifest, PollResult, SeenPublish
from airflow_provider_connect.window import Day
from tests.equipment.bigquery.fixtures import options

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
NOON = dt.datetime(2026, 9, 30, 12, tzinfo=dt.UTC)


@dataclass
class Bench:
    """One dataset with one target, and the parts that publish into it."""

    api: BigQueryApi
    target: TableRef
    ledger: TableRef
    write_mode: WriteMode = "replace"
    schema: pa.Schema = SCHEMA
    options: BigQuerySink = field(default_factory=options)
    filter_column: str | None = None  # the emulator forgets that a table requires a filter

    def query(self, sql: str) -> list[dict[str, Any]]:
        return self.api.query(sql, action="test", labels={})[0]

    def prepare(self) -> PreparedTarget:
        ready = ensure_target(self.api, self.target, self.options, self.schema)
        ensure_ledger(self.api, self.ledger, self.target, KEY, write_mode=self.write_mode)
        return ready

    def stage(self, ready: PreparedTarget, attempt: str, rows: Sequence[tuple[Any, ...]]) -> TableRef:
        staging_table = staging_table_for(staging_prefix(self.target), attempt)
        position = {"name": POSITION_COLUMN, "type": "INTEGER", "mode": "NULLABLE"}
        create_staging_table(self.api, staging_table, [*(column.staging for column in ready.columns), position])
        if rows:
            values = ", ".join(f"({', '.join(map(sql, (*row, i)))})" for i, row in enumerate(rows))
            names = ", ".join(f"`{column.name}`" for column in ready.columns)
            self.query(f"INSERT INTO {staging_table.sql} ({names}, {POSITION_COLUMN}) VALUES {values}")
        return staging_table

    def plan(
        self,
        day: int,
        number: int,
        rows: Sequence[tuple[Any, ...]],
        *,
        token: str | None = None,
        seen: int | None = None,
        clear_number: int = 0,
        key: StreamKey = KEY,
        ready: PreparedTarget | None = None,
        answer: str | None = None,
        definition: str | None = None,
        run: str | None = None,
        **changes: Any,
    ) -> PublishPlan:
        """Look into the ledger and stage a day, as an attempt does.

        :param number: of the run; a higher one need not have the newer answer.
        :param seen: the day's generation before the poll; without it, the one it has now.
        :param ready: the result of :meth:`prepare`, for many plans.
        """
        ready = ready or self.prepare()
        attempt, date = f"a{next(COUNT)}", dt.date(2026, 9, day)
        if seen is None:
            seen_publish_before = seen_publish(
                BigQueryLedger(self.api, self.target, self.ledger, key).newest(date, "day")
            )
        else:
            seen_publish_before = SeenPublish(day=date, generation=seen) if seen else SeenPublish()
        polled = PollResult(rows_read=len(rows), counts={"duplicates": 1}, digest="d'1")
        manifest = Manifest(
            day=Day(date=date),
            attempt=attempt,
            fingerprint="f",
            polled=polled,
            seen=seen_publish_before,
            polled_at=NOON,
        )
        run = run or f"dag/run'{number}/task"
        intent = Intent(token=token or f"token-{day}-{number}", run=run, clear_number=clear_number)
        identity: dict[str, Any] = {"key": key, "intent": intent, "answer": answer, "definition": definition}
        if definition is not None:
            in_force = BigQueryLedger(self.api, self.target, self.ledger, key).definition_in_force()
            identity["definition_seen"] = in_force and in_force.digest
        publish = Publish(day=manifest.day, manifest=manifest, schema=self.schema, stage="", **identity)
        counts = {"rows_read": len(rows), "duplicates": 1}
        row = ledger_row(publish, 0, rows=len(rows), counts=counts, reference="job", link="https://example.com/?a=b")
        staging = self.stage(ready, attempt, rows)
        layout = StagingLayout(staging, None, ready.columns, ready.columns, "storage_write")
        plan = PublishPlan(
            target=self.target,
            staging=staging,
            ledger=self.ledger,
            publish=publish,
            row=row,
            layout=replace(layout, filter_column=ready.filter_column or self.filter_column),
            write_mode=self.write_mode,
            streams=("s1", "s2"),
            stream_count=2,
        )
        return replace(plan, **changes)

    def run(self, plan: PublishPlan) -> LedgerRow:
        deadline = time.monotonic() + 60
        while True:
            try:
                rows, _ = self.api.query(publish_script(plan), action="publish", labels={})
                return published_row(plan, rows[0])
            except ConflictError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def publish(self, day: int, number: int, rows: Sequence[tuple[Any, ...]], **changes: Any) -> LedgerRow:
        return self.run(self.plan(day, number, rows, **changes))

    def confirm(self, plan: PublishPlan) -> LedgerRow:
        """Confirm what a plan would publish."""
        step = LedgerStep(target=self.target, staging=plan.staging, ledger=self.ledger, publish=plan.publish)
        return run_confirmation(self.api, step, {})

    def rows(self) -> list[tuple[Any, ...]]:
        rows = self.query(f"SELECT id, version, day FROM {self.target.sql} ORDER BY day, id, version")
        return [(row["day"].day, row["id"], row["version"]) for row in rows]

    def book(self, **changes: Any) -> BigQueryLedger:
        return BigQueryLedger(self.api, self.target, self.ledger, KEY, **changes)


def sql(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return f"CAST('{value}' AS FLOAT64)"
    return "NULL" if value is None else literal(value)


def row(key: int | None, version: int | None = 1, *, gone: bool | None = False) -> tuple[Any, ...]:
    return (key, "it's", gone, version)


def with_field(*fields: pa.Field) -> pa.Schema:
    return pa.schema([*SCHEMA, *fields])


@pytest.fixture(scope="module")
def publish_api(google_connection: Connection) -> Iterator[BigQueryApi]:
    """A client that gives up soon."""
    with BigQueryApi.open(google_connection, timeout_seconds=20, retry_budget_seconds=20) as opened:
        yield opened


@pytest.fixture
def bench(publish_api: BigQueryApi, dataset: str) -> Bench:
    """A dataset in which nothing is published yet."""
    table_ref = TableRef(publish_api.project, dataset, "events")
    return Bench(publish_api, table_ref, table_ref.sibling("connect_ledger"))
