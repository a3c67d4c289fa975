"""The executor's half: one Python task polls a partition and freezes it, in Arrow batches, without the JVM.

The task answers with data, never with an exception: an exception's type does not survive the way through
the JVM to the driver.
"""

from __future__ import annotations

import json
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from airflow_provider_connect import registry
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConnectError, Failure, RetriableError
from airflow_provider_connect.polling.prefetch import prefetch
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, Source
from airflow_provider_connect.stage.manifest import Polled, StagedFile, attempt_folder, data_file
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.rejects import write_rejects
from airflow_provider_connect.stage.storage import Folder


class PollTask(BaseModel):
    """What an executor needs to poll one partition; plain data, no secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source_name: str
    source: dict[str, Any]
    part: InputPartition
    root: str
    attempt: str
    progress_seconds: float


class PollOutcome(BaseModel):
    """The answer of a task: what it polled, or why it could not.

    :param retries: why it was polled again, each time, and after how long a wait.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    polled: Polled | None = None
    failure: Failure | None = None
    retries: tuple[str, ...] = ()


def run(tasks: Iterable[str], *, connection: Connection) -> Iterator[str]:
    """Poll partitions; both ends are JSON. What ``mapPartitions`` calls."""
    for text in tasks:
        task = PollTask.model_validate_json(text)
        retries: list[str] = []
        try:
            outcome = PollOutcome(polled=freeze(task, connection, retries=retries))
        except Exception as error:  # noqa: BLE001  # every error crosses as data, with its type
            outcome = PollOutcome(failure=Failure.of(error))
        outcome = outcome.model_copy(update={"retries": tuple(retries)})
        yield outcome.model_dump_json()


def freeze(
    task: PollTask,
    connection: Connection,
    sleep: Callable[[float], None] = time.sleep,
    *,
    retries: list[str] | None = None,
) -> Polled:
    """Poll one partition into immutable files, again from the start after retriable errors within the budget.

    :param retries: takes a line for each further poll.
    :raises ConnectError: what the source raised last, with what was tried.
    """
    source: Source = registry.source_class(task.source_name).of(task.source)
    root = Folder(task.root)
    started = time.monotonic()
    notes = [] if retries is None else retries
    requests = 0
    while True:
        tally = Tally()
        try:
            polled = _poll_once(source, root, task, connection, tally=tally, retries=notes)
        except RetriableError as error:
            delay = _delay(error, len(notes))
            spent = time.monotonic() - started
            requests += tally.requests
            are_requests_spent = requests >= source.retry_budget_requests
            if spent + delay > source.retry_budget_seconds or are_requests_spent:
                tried = f"polled {len(notes) + 1} times in {spent:.0f} s of {source.retry_budget_seconds:.0f} s"
                if requests:
                    tried += f", with {requests} of retry_budget_requests={source.retry_budget_requests}"
                raise RetriableError(
                    f"{error} ({tried})",
                    retry_after_seconds=error.retry_after_seconds,
                    request_budget_spent=are_requests_spent,
                ) from None
            notes.append(f"waits {delay:.1f} s, then polls again ({error})")
            with _Progress(root, task, Tally(), notes, note=notes[-1]):
                sleep(delay)
        else:
            return polled.model_copy(update={"retries": len(notes), "seconds": time.monotonic() - started})


def _poll_once(
    source: Source, root: Folder, task: PollTask, connection: Connection, *, tally: Tally, retries: list[str]
) -> Polled:
    copy = secrets.token_hex(4)
    path = data_file(task.part.day, task.attempt, task.part.index, copy)
    with (
        _Progress(root, task, tally, retries),
        RowWriter(root, path, source.row_schema()) as writer,
        closing(prefetch(source.poll(task.part, connection, tally), depth=1)) as batches,
    ):
        for batch in batches:
            writer.write(batch)
    rejects_path = f"{attempt_folder(task.attempt)}/rejects-{task.part.index:05d}-{copy}.parquet"
    rejects = write_rejects(root, rejects_path, tally.rejects)
    return _polled(tally, writer.file, rejects)


def _polled(tally: Tally, file: StagedFile | None, rejects: StagedFile | None) -> Polled:
    return Polled(
        files=(file,) if file else (),
        rejects=(rejects,) if rejects else (),
        rows_read=tally.rows,
        rows_written=file.rows if file else 0,
        counts=dict(tally.counts),
        wire_bytes=tally.wire_bytes,
        raw_bytes=tally.raw_bytes,
        earliest=tally.earliest,
        latest=tally.latest,
        digest=f"{tally.digest:032x}",
    )


def _delay(error: RetriableError, retries: int) -> float:
    """Wait as long as was asked, else 1 s doubling to 60 s, with full jitter so that runs do not march in step."""
    backoff = random.uniform(0.5, 1) * min(60.0, 2.0**retries)  # noqa: S311  # jitter, no secret
    # A source that asks for no time at all is still asked less and less often.
    return max(backoff, (error.retry_after_seconds or 0) + random.uniform(0, 1))  # noqa: S311


@dataclass
class _Progress:
    """Writes a sign of life every few seconds while its block runs.

    The driver prints it, and a sweep sees that the attempt is alive.

    :param retries: why the partition was polled again, each time.
    :param note: what it does now, if it does not poll.
    """

    root: Folder
    task: PollTask
    tally: Tally
    retries: list[str]
    note: str = ""

    def __enter__(self) -> _Progress:
        # The first sign is written before the first row: no file of ours ever lies about without one.
        self._tell()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(self.task.progress_seconds / 2):
            try:
                self._tell()
            except (OSError, ConnectError):
                # A full disk fails the rows beside it, with a message; the sign of life is not the place.
                continue

    def _tell(self) -> None:
        tally = self.tally
        sign = {
            "rows": tally.rows,
            "raw_bytes": tally.raw_bytes,
            "wire_bytes": tally.wire_bytes,
            "retries": self.retries,
            "note": self.note,
        }
        name = f"{attempt_folder(self.task.attempt)}/progress-{self.task.part.index:05d}.json"
        self.root.write(name, json.dumps(sign).encode())
