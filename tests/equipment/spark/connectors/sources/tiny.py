"""A source whose partitions fail on request, and then yield a few rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field

from airflow_provider_connect.capabilities.poller import LimitsPartitions, Resumes, SeveralDaysARequest
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, DeadlineError, RetriableError, SetupError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, PlanGoneError, PollContext, Poller, Source
from airflow_provider_connect.stage.rejects import Reject
from airflow_provider_connect.window import Day

ERRORS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (ConfigError, DataError, DeadlineError, RetriableError, SetupError, PlanGoneError, KeyError)
}


class TinySource(Source):
    """See the module.

    ``schema_faults`` holds the errors of the first calls of ``schema``.
    ``faults`` holds for each partition the errors of its tries, one after another: an error's name, and after a
    colon the seconds to wait; ``bad`` the error of every request that serves a day. ``together`` is how many days one
    request serves, ``shared`` the error of every request that serves several, ``has_keys`` whether rows have keys, and
    ``stray`` a day whose rows come unrequested. ``resumes``, ``begins_anew`` and ``at_once`` are the poller's.
    """

    name: ClassVar[str] = "tiny"
    connection_types: ClassVar[tuple[str, ...]] = ("tiny",)
    conn_id: str = "tiny"
    folder: str
    parts: int = 1
    rows: int = 3
    rejects: int = 0
    faults: dict[int, list[str]] = Field(default_factory=dict)
    pause_seconds: float = 0.0
    together: int = 1
    has_keys: bool = True
    bad: dict[str, str] = Field(default_factory=dict)
    shared: str = ""
    stray: Day | None = None
    schema_faults: list[str] = Field(default_factory=list)
    resumes: bool = False
    begins_anew: str = ""
    at_once: int | None = None

    @property
    def stream_key(self) -> str:
        return "s"

    def open(self, connection: Connection, context: PollContext) -> TinyPoller:
        if self.resumes or self.begins_anew:
            return ResumingTinyPoller(self, context)
        return TinyPoller(self, context)


class TinyPoller(Poller, SeveralDaysARequest, LimitsPartitions):
    """Yields for each day ``rows`` rows, whose keys are their numbers."""

    def __init__(self, options: TinySource, context: PollContext) -> None:
        self.options = options
        self.context = context
        self.days_per_plan = options.together
        self.partitions_at_once = options.at_once
        self.note("open")

    def close(self) -> None:
        self.note("close")

    def note(self, word: str) -> None:
        with (Path(self.options.folder) / "poller").open("a") as file:
            file.write(f"{word}\n")

    def schema(self) -> pa.Schema:
        self.note("schema")
        asked = (Path(self.options.folder) / "poller").read_text().count("schema")
        if asked <= len(self.options.schema_faults):
            self._fail(self.options.schema_faults[asked - 1])
        return self._fields()

    def _fields(self) -> pa.Schema:
        fields = [pa.field("event", pa.string()), pa.field("n", pa.int64())]
        keys = [pa.field("record_key", pa.string(), nullable=False)]
        return pa.schema(fields + keys if self.options.has_keys else fields)

    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        return [InputPartition(days=tuple(days), index=index) for index in range(self.options.parts)]

    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        options = self.options
        journal = Path(options.folder) / f"polls-{part.days[0]}-{part.index}"
        tried = journal.stat().st_size if journal.exists() else 0
        journal.write_bytes(b"." * (tried + 1))
        for day in part.days:
            yield day, self._batch(day, part.index, tally)
        tally.raw_bytes += 100
        if options.stray is not None:
            yield options.stray, self._batch(part.days[0], part.index, tally)
        time.sleep(options.pause_seconds)
        faults = options.faults.get(part.index, [])
        if tried < len(faults):
            self._fail(faults[tried])
        if options.shared and len(part.days) > 1:
            self._fail(options.shared)
        for day in part.days:
            if str(day) in options.bad:
                self._fail(options.bad[str(day)])
        for position in range(options.rejects):
            tally.for_day(part.days[-1]).reject(Reject(position, "no record", b"zzz"))

    def _batch(self, day: Day, index: int, tally: Tally) -> pa.RecordBatch:
        count = self.options.rows
        tally.for_day(day).rows += count
        tally.for_day(day).counts["duplicates"] += 1
        rows = [{"event": f"{day}/{index}", "n": number, "record_key": f"{number:032x}"} for number in range(count)]
        return pa.RecordBatch.from_pylist(rows, schema=self._fields())

    def _fail(self, fault: str) -> None:
        name, _, seconds = fault.partition(":")
        if seconds:
            raise RetriableError("tiny is tired", retry_after_seconds=float(seconds))
        raise ERRORS[name](f"tiny says {name}")


class ResumingTinyPoller(TinyPoller, Resumes):
    """One whose plan can be gone on with, or says why not."""

    def __init__(self, options: TinySource, context: PollContext) -> None:
        super().__init__(options, context)
        self.begins_anew = options.begins_anew

    def resume(self, day: Day, parts: Sequence[InputPartition]) -> list[InputPartition]:
        return self.plan([day])
