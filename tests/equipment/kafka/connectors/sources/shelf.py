"""A snapshot source: all rows there are, given as an option."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, Source
from airflow_provider_connect.window import Day


class ShelfSource(Source):
    """Items and how many of each there are; ``parts`` cuts them into that many partitions."""

    name: ClassVar[str] = "shelf"
    kind: ClassVar[Literal["day", "snapshot"]] = "snapshot"
    connection_type: ClassVar[str] = "shelf"
    conn_id: str = "shelf"
    items: dict[str, int] = Field(default_factory=dict)
    parts: int = 1

    @property
    def stream_key(self) -> str:
        return "items"

    def row_schema(self) -> pa.Schema:
        return pa.schema([pa.field("item", pa.string()), pa.field("count", pa.int64())])

    def plan(self, day: Day, connection: Connection) -> list[InputPartition]:
        return [InputPartition(day=day, index=index) for index in range(self.parts)]

    def poll(self, part: InputPartition, connection: Connection, tally: Tally) -> Iterator[pa.RecordBatch]:
        mine = list(self.items.items())[part.index :: self.parts]
        tally.rows += len(mine)
        yield pa.RecordBatch.from_pylist([{"item": name, "count": n} for name, n in mine], schema=self.row_schema())
