"""A whole sink at work: days are frozen as by executors, and published in the driver's steps."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.publishing import seen_publish
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks._bigquery import publisher as _publisher
from airflow_provider_connect.sinks._bigquery.publisher import BigQueryPublisher
from airflow_provider_connect.sinks._bigquery.staging import StagingLayout
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.window import Day
from tests.equipment.bigquery.fixtures import Target
from tests.equipment.frozen import KEY, MONDAY, SCHEMA, freeze


def bench_of(target: Target, root: Path) -> SinkBench:
    """Return a bench of a sink that reaches its table directly."""
    connection = target.connections[target.sink.conn_id]
    return SinkBench(target.sink, connection, connection, root)


@dataclass(frozen=True)
class SinkBench:
    """A sink with its connection and a reader of its table.

    :param reader: a connection without the fault proxy.
    :param timeout_seconds: for one request.
    """

    sink: BigQuerySink
    connection: Connection
    reader: Connection
    root: Path
    schema: pa.Schema = SCHEMA
    timeout_seconds: float = 60.0

    def open(self, *, reads: bool = False) -> BigQueryPublisher:
        """Return a publisher.

        :param reads: read through the connection without the fault proxy.
        """
        publisher = self.sink.open(KEY, {self.sink.conn_id: self.reader if reads else self.connection})
        publisher.api.timeout_seconds = self.timeout_seconds
        return publisher

    def having(self, schema: pa.Schema | None = None, **options: Any) -> SinkBench:
        """Return the same bench with other options of the sink."""
        chosen = {name: getattr(self.sink, name) for name in self.sink.model_fields_set} | options
        return replace(self, sink=BigQuerySink(**chosen), schema=schema or self.schema)

    def stage(self, day: dt.date, *files: pa.Table, **how: Any) -> Publish:
        """Look into the ledger, and freeze a day of some files, numbered like their partitions."""
        if "seen" not in how:
            with self.open(reads=True) as publisher:
                how["seen"] = seen_publish(publisher.ledger.newest(day, "day"))
        return replace(freeze(self.root, day, *files, **how), schema=self.schema)

    def preflight(self, *days: dt.date) -> list[str]:
        with self.open() as publisher:
            return publisher.preflight(self.schema, [Day(date=day) for day in days or [MONDAY]], "day")

    def publish(self, staged: Publish, driver: BigQueryPublisher | None = None) -> LedgerRow:
        """Take the steps of the driver and the executors; after an error, clean up nothing.

        :param driver: an open publisher, which stays open.
        """
        with nullcontext(driver) if driver else self.open() as publisher:
            token = publisher.begin(staged)
            return publisher.commit(staged, token, self.put(staged, token))

    def put(self, staged: Publish, token: StagingLayout) -> list[Any]:
        """Send all files, as an executor does."""
        with self.open() as publisher:
            shares = publisher.shares(staged.manifest.polled.files)
            return [publisher.put(token, staged.stage, share) for share in shares]

    def sweep_all(self) -> int:
        """Sweep as if every staging table were old."""
        with pytest.MonkeyPatch.context() as patch, self.open() as publisher:
            patch.setattr(_publisher, "SWEEP_AGE", -dt.timedelta(minutes=5))
            return publisher.sweep()

    def row(self, day: dt.date) -> LedgerRow | None:
        """Return the newest ledger row of a day."""
        with self.open(reads=True) as publisher:
            return publisher.ledger.row(day)

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return the ledger row of a day and intent."""
        with self.open(reads=True) as publisher:
            return publisher.ledger.published(day, token)

    def abort(self, staged: Publish) -> None:
        """Begin and give up, as a driver does whose publish fails."""
        with self.open() as publisher:
            publisher.abort(staged, publisher.begin(staged))

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Run a query as a reader. ``{table}`` stands for the table, ``{beside}`` for its unquoted name."""
        with BigQueryApi.open(self.reader) as api:
            table_ref = TableRef.parse(self.sink.table, api.project)
            text = sql.replace("{table}", table_ref.sql).replace("{beside}", table_ref.id)
            return api.query(text, action="reading", labels={"connect": "test"})[0]

    def rows(self, day: dt.date, column: str = "event") -> list[Any]:
        """Return a column of a day, sorted."""
        rows = self.query(f"SELECT `{column}` AS v FROM {{table}} WHERE day = DATE '{day}'")
        return sorted(row["v"] for row in rows)

    def table(self, end: str = "") -> Any:
        """Return the metadata of the table or one of its sibling tables."""
        with BigQueryApi.open(self.reader) as api:
            table_ref = TableRef.parse(f"{self.sink.table}{end}", api.project)
            return api.client.get_table(table_ref.id, timeout=30, retry=None)

    def staging_tables(self) -> list[str]:
        with BigQueryApi.open(self.reader) as api:
            table_ref = TableRef.parse(self.sink.table, api.project)
            tables = api.client.list_tables(f"{table_ref.project}.{table_ref.dataset}", timeout=30, retry=None)
            return [item.table_id for item in tables if item.table_id.startswith(f"{table_ref.table}__stage_")]

    def holds_exactly(self, day: dt.date, *names: str) -> list[str]:
        """Check that a day has each of these events once and that the ledger agrees. Returns the ledger's tokens."""
        rows = self.query(
            f"SELECT event, NULL AS token, 0 AS generation, 0 AS row_count FROM {{table}} WHERE day = DATE '{day}' "
            "UNION ALL SELECT NULL, token, generation, row_count "
            f"FROM `{{beside}}__ledger` WHERE day = DATE '{day}' ORDER BY generation"
        )
        book = [row for row in rows if row["generation"]]
        assert Counter(row["event"] for row in rows if not row["generation"]) == Counter(names)
        assert book[-1]["row_count"] == len(names)
        assert [row["generation"] for row in book] == list(range(1, len(book) + 1))
        return [row["token"] for row in book]
