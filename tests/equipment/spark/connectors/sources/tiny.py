"""A source whose partitions fail as they are told, and then yield a few rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, Source
from airflow_provider_connect.stage.rejects import Reject
from airflow_provider_connect.window import Day

ERRORS: dict[str, Any] = {cls.__name__: cls for cls in (ConfigError, DataError, RetriableError, KeyError)}


class TinySource(Source):
    """See the module.

    ``faults`` holds for each partition what its tries raise, one after the other: the name of an error, and after a
    colon the seconds to wait.
    """

    name: ClassVar[str] = "tiny"
    connection_type: ClassVar[str] = "tiny"
    conn_id: str = "tiny"
    folder: str
    parts: int = 1
    rows: int = 3
    rejects: int = 0
    faults: dict[int, list[str]] = Field(default_factory=dict)
    pause_seconds: float = 0.0

    @property
    def stream_key(self) -> str:
        return "s"

    def row_schema(self) -> pa.Schema:
        return pa.schema([pa.field("event", pa.string()), pa.field("n", pa.int64())])

    def plan(self, day: Day, connection: Connection) -> list[InputPartition]:
        return [InputPartition(day=day, index=index) for index in range(self.parts)]

    def poll(self, part: InputPartition, connection: Connection, tally: Tally) -> Iterator[pa.RecordBatch]:
        journal = Path(self.folder) / f"polls-{part.day}-{part.index}"
        tried = journal.stat().st_size if journal.exists() else 0
        journal.write_bytes(b"." * (tried + 1))
        yield self._batch(part, tally)
        time.sleep(self.pause_seconds)
        faults = self.faults.get(part.index, [])
        if tried < len(faults):
            self._fail(faults[tried])
        for position in range(self.rejects):
            tally.reject(Reject(position, "no record", b"zzz"))

    def _batch(self, part: InputPartition, tally: Tally) -> pa.RecordBatch:
        tally.rows += self.rows
        tally.counts["duplicates"] += 1
        tally.digest += 1
        numbers = list(range(self.rows))
        return pa.RecordBatch.from_arrays(
            [pa.array([f"{part.day}/{part.index}"] * self.rows), pa.array(numbers, pa.int64())],
            schema=self.row_schema(),
        )

    def _fail(self, fault: str) -> None:
        name, _, seconds = fault.partition(":")
        if seconds:
            raise RetriableError("tiny is tired", retry_after_seconds=float(seconds))
        raise ERRORS[name](f"tiny says {name}")
