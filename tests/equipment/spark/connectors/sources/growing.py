"""A source of increments: the lines of a file that only grows. A position is a number of lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from airflow_provider_connect.capabilities.poller import Follows
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, PollContext, Poller, Source
from airflow_provider_connect.window import Day, SourceKind


class GrowingSource(Source):
    """See the module. ``kind`` is a day's for the stream that once was one of days."""

    name: ClassVar[str] = "growing"
    connection_types: ClassVar[tuple[str, ...]] = ("growing",)
    conn_id: str = "growing"
    file: str
    has_days: bool = False
    has_numbers: bool = False

    @property
    def kind(self) -> SourceKind:
        return "day" if self.has_days else "increment"

    @property
    def stream_key(self) -> str:
        return "lines"

    def open(self, connection: Connection, context: PollContext) -> GrowingPoller:
        return GrowingPoller(self)


class GrowingPoller(Poller, Follows):
    """Yields the lines between two positions."""

    def __init__(self, options: GrowingSource) -> None:
        self.options = options
        self._spans: dict[Day, tuple[int, int]] = {}

    @property
    def lines(self) -> list[str]:
        return Path(self.options.file).read_text().splitlines()

    def schema(self) -> pa.Schema:
        numbers = [pa.field("number", pa.int64())] if self.options.has_numbers else []
        return pa.schema([pa.field("line", pa.string()), *numbers])

    def follow(self, day: Day, after: str | None, to: str | None) -> str:
        end = to or str(len(self.lines))
        self._spans[day] = int(after or 0), int(end)
        return end

    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        (day,) = days
        begin, end = self._spans.get(day, (0, len(self.lines)))
        return [InputPartition(days=(day,), params={"begin": begin, "end": end})]

    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        rows = self.lines[part.params["begin"] : part.params["end"]]
        tally.for_day(part.days[0]).rows += len(rows)
        numbers = pa.array(range(part.params["begin"] + 1, part.params["end"] + 1), pa.int64())
        columns = [pa.array(rows, pa.string()), numbers][: len(self.schema())]
        yield part.days[0], pa.RecordBatch.from_arrays(columns, schema=self.schema())
