"""The smallest source and sink that fulfil the contracts, for tests of the Airflow side."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sink import Connections, LedgerRow, Publish, Publisher, Sink, StreamKey
from airflow_provider_connect.source import PollContext, Poller, Source
from airflow_provider_connect.stage.definition import RowRole
from airflow_provider_connect.window import SourceKind
from tests.equipment.line_ledger import LineLedger


class TinySource(Source):
    name: ClassVar[str] = "tiny"
    connection_types: ClassVar[tuple[str, ...]] = ("tiny",)
    row_options: ClassVar[Mapping[str, RowRole]] = {"where": "condition"}
    where: str | None = None
    zone_name: str = "UTC"
    whole: bool = False

    @property
    def stream_key(self) -> str:
        return "events"

    @property
    def kind(self) -> SourceKind:
        return "snapshot" if self.whole else "day"

    @property
    def timezone(self) -> str:
        return self.zone_name

    def check(self, connection: Connection) -> list[str]:
        return [] if connection.password else [f"connection {self.conn_id!r}: password is missing"]

    def open(self, connection: Connection, context: PollContext) -> Poller:
        raise AssertionError("only Spark polls")


class TinyLedger(LineLedger):
    """A file which tests and their spark-submit append to."""

    def append(self, day: dt.date, generation: int = 1, polled_at: dt.datetime | None = None) -> None:
        self.add(LedgerRow(day=day, generation=generation, token="t", rows=10, polled_at=polled_at))


class TinySink(Sink):
    name: ClassVar[str] = "tiny"
    table: str = "t"
    adds: bool = False

    @property
    def target(self) -> str:
        return self.table

    @property
    def asset_uri(self) -> str:
        return f"tiny://{self.table.lstrip('/')}"

    @property
    def reloads(self) -> bool:
        return not self.adds

    def open(self, key: StreamKey, connections: Connections) -> TinyPublisher:
        return TinyPublisher(self.table)


class TinyPublisher(Publisher):
    def __init__(self, table: str) -> None:
        self.table = table

    @property
    def ledger(self) -> TinyLedger:
        return TinyLedger(Path(self.table))

    def commit(self, publish: Publish, token: Any, receipts: list[Any]) -> LedgerRow:
        raise AssertionError("only Spark commits")
