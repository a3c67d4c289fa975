"""A snapshot source: an option holds all its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, PollContext, Poller, Source
from airflow_provider_connect.window import Day, SourceKind


class ShelfSource(Source):
    """Items and how many of each there are; ``parts`` cuts them into that many partitions."""

    name: ClassVar[str] = "shelf"
    connection_types: ClassVar[tuple[str, ...]] = ("shelf",)
    conn_id: str = "shelf"
    items: dict[str, int] = Field(default_factory=dict)
    parts: int = 1

    @property
    def stream_key(self) -> str:
        return "items"

    @property
    def kind(self) -> SourceKind:
        return "snapshot"

    def open(self, connection: Connection, context: PollContext) -> ShelfPoller:
        return ShelfPoller(self)


class ShelfPoller(Poller):
    def __init__(self, options: ShelfSource) -> None:
        self.options = options

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field("item", pa.string()), pa.field("count", pa.int64())])

    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        return [InputPartition(days=tuple(days), index=index) for index in range(self.options.parts)]

    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        mine = list(self.options.items.items())[part.index :: self.options.parts]
        tally.rows += len(mine)
        rows = [{"item": name, "count": n} for name, n in mine]
        yield part.days[0], pa.RecordBatch.from_pylist(rows, schema=self.schema())
