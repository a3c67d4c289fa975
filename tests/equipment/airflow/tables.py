"""The tables of the system tests, each read without the sink's code."""

from __future__ import annotations

import datetime as dt
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from deltalake import DeltaTable
from google.api_core.exceptions import NotFound

from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks._bigquery import publisher as _publisher
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from tests.equipment.bigquery.fixtures import connection_to
from tests.standins.bigquery_emulator import BigQueryEmulator


class Published(NamedTuple):
    """A day's newest ledger row."""

    generation: int
    rows: int


class Table(ABC):
    """One table under test."""

    @property
    @abstractmethod
    def target(self) -> str:
        """The table as its offset names it."""

    @abstractmethod
    def events(self) -> Iterable[tuple[object, str, str]]:
        """Return day, event and properties (JSON text) of every row."""

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """Return what a reader sees at this moment: rows by day; {} while there is no table."""

    @abstractmethod
    def ledger(self) -> dict[str, Published]:
        """Return the newest ledger row of every day."""

    def left_after_sweep(self) -> list[str]:
        """Sweep as if every attempt had died long ago; return what is left of them."""
        return []

    def bounce(self, away_seconds: float) -> bool:
        """Kill the server behind the table, and start it again."""
        raise NotImplementedError

    def rows(self) -> dict[str, Counter[str]]:
        """Return all rows by day, as a multiset of JSON texts."""
        rows_by_day: dict[str, Counter[str]] = {}
        for day, event, properties in self.events():
            rows_by_day.setdefault(str(day), Counter())[
                json.dumps([event, json.loads(properties)], sort_keys=True)
            ] += 1
        return rows_by_day


@dataclass(frozen=True)
class OnDelta(Table):
    path: str

    @property
    def target(self) -> str:
        return DeltaSink(path=self.path).target

    def events(self) -> Iterable[tuple[object, str, str]]:
        table = DeltaTable(self.path).to_pyarrow_table(columns=["day", "event", "properties"])
        return zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True)

    def counts(self) -> dict[str, int]:
        if not DeltaTable.is_deltatable(self.path):
            return {}
        days = DeltaTable(self.path).to_pyarrow_table(columns=["day"]).column("day").to_pylist()
        return {str(day): rows for day, rows in Counter(days).items()}

    def ledger(self) -> dict[str, Published]:
        commits = [commit for commit in DeltaTable(self.path).history() if "connect.rows" in commit]
        rows = [(c["connect.day"], Published(int(c["connect.generation"]), int(c["connect.rows"]))) for c in commits]
        return dict(sorted(rows))


@dataclass(frozen=True)
class OnBigQuery(Table):
    emulator: BigQueryEmulator
    name: str

    @property
    def target(self) -> str:
        return BigQuerySink(table=self.name).target

    def events(self) -> Iterable[tuple[object, str, str]]:
        return self.emulator.query(f"SELECT day, event, TO_JSON_STRING(properties) FROM {self.name}")

    def counts(self) -> dict[str, int]:
        try:
            return {str(d): n for d, n in self.emulator.query(f"SELECT day, COUNT(*) FROM {self.name} GROUP BY day")}
        except NotFound:
            return {}

    def ledger(self) -> dict[str, Published]:
        rows = self.emulator.query(
            f"SELECT day, generation, row_count FROM {self.name}__ledger "
            f"WHERE target = '{self.emulator.project}.{self.name}' AND day IS NOT NULL ORDER BY generation"
        )
        return {str(day): Published(generation, count) for day, generation, count in rows}

    def left_after_sweep(self) -> list[str]:
        source = MixpanelSource(conn_id="mixpanel_by_hand")
        connection = connection_to(self.emulator)
        key = StreamKey(connector=source.name, stream=source.stream_key)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_publisher, "SWEEP_AGE", dt.timedelta())
            with BigQuerySink(table=self.name).open(key, {connection.conn_id: connection}) as publisher:
                publisher.sweep()
        return self.staging_tables()

    @property
    def dataset(self) -> str:
        return self.name.partition(".")[0]

    def staging_tables(self) -> list[str]:
        """Return the names of this table's staging tables."""
        prefix = f"{self.name.partition('.')[2]}__stage_"
        return [name for name in self.emulator.tables(self.dataset) if name.startswith(prefix)]
