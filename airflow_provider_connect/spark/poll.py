"""The executor's part of a poll: a Python task polls a partition and stages it in Arrow batches, without the JVM.

Tasks return errors as data, because exceptions lose their type on the way through the JVM.
"""

from __future__ import annotations

import datetime as dt
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_connect import registry
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConnectError, DeadlineError, Failure, QuotaError, RetriableError, SetupError
from airflow_provider_connect.patience import CLOCK, FROM_HALF, Clock, Patience, doubling_pauses
from airflow_provider_connect.polling.prefetch import prefetch
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.shapes.chain import Shaping
from airflow_provider_connect.source import InputPartition, PlanGoneError, PollContext, Poller, Source
from airflow_provider_connect.spark.progress import log_line
from airflow_provider_connect.spark.source_checks import poll_rows as polled_rows
from airflow_provider_connect.stage.answer_digest import AnswerDigest
from airflow_provider_connect.stage.erase_list import EraseList, Eraser, make_erasers
from airflow_provider_connect.stage.key_digest import KeyDigest
from airflow_provider_connect.stage.manifest import PollResult, StagedFile, progress_file, rejects_file
from airflow_provider_connect.stage.parquet import GROUP_BYTES, RowWriter
from airflow_provider_connect.stage.rejects import RejectsKeep, write_rejects
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.tables import StagedPart, TableSplitWriter, TableTemplate, open_row_writer
from airflow_provider_connect.window import Day

RETRY_PAUSES = doubling_pauses(1.0, 60.0)
NO_SHAPES = Shaping()
_PENDING_BYTES = 4 * GROUP_BYTES
"""Most bytes of several days' rows that wait in memory until a row group is full."""


class PollTask(BaseModel):
    """A task to poll one partition: plain data without secrets.

    :param attempts: attempt name for each day of the partition.
    :param polled_before: for each day, when it was last polled, or None.
    :param requests: most requests that the task may send under a quota, before ``until`` (seconds since 1970).
    :param failed: requests that earlier jobs sent in vain for this partition.
    :param begins: earliest time of the first request, in seconds since 1970.
    :param ends_late: a deadline error is not retried here, because the driver can plan smaller requests.
    :param tables: assigns rows to tables, or None for one table.
    :param is_first_load: the stream has never published a day.
    :param digests_answers: results have ``contents``, which cost CPU time.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source_name: str
    source: dict[str, Any]
    part: InputPartition
    root: str
    attempts: tuple[str, ...]
    polled_before: tuple[dt.datetime | None, ...] = ()
    progress_seconds: float
    requests: int | None = None
    until: float = 0.0
    failed: int = 0
    erased: EraseList = Field(default_factory=EraseList)
    begins: float = 0.0
    ends_late: bool = False
    tables: TableTemplate | None = None
    polls_at_once: int | None = None
    soft_deletes: bool = False
    rejects_keep: RejectsKeep = "record"
    is_first_load: bool = False
    digests_answers: bool = False


class PollOutcome(BaseModel):
    """Result of a task: the polled days, or the failure.

    :param polled: results by day. The first day has the partition's seconds and retries. Each day has bytes in
        proportion to its rows.
    :param retries: for each retry, its reason and the wait before it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    polled: dict[dt.date, PollResult] | None = None
    failure: Failure | None = None
    retries: tuple[str, ...] = ()
    sent: tuple[float, ...] = ()


def run_poll_tasks(
    tasks: Iterable[str], *, schema: pa.Schema, connection: Connection, shaping: Shaping = NO_SHAPES
) -> Iterator[str]:
    """Poll partitions, for ``mapPartitions``. Takes tasks and yields outcomes, both as JSON."""
    for text in tasks:
        task = PollTask.model_validate_json(text)
        retries: list[str] = []
        sent_at: list[float] = []
        try:
            _require_first_run(task)
            polled = stage_partition(task, schema, connection, shaping=shaping, retry_notes=retries, sent_at=sent_at)
            outcome = PollOutcome(polled=polled)
        except Exception as error:  # noqa: BLE001  # every error returns as data, with its type
            outcome = PollOutcome(failure=Failure.from_error(error))
        outcome = outcome.model_copy(update={"retries": tuple(retries), "sent": tuple(sent_at)})
        yield outcome.model_dump_json()


def stage_partition(
    task: PollTask,
    schema: pa.Schema,
    connection: Connection,
    *,
    shaping: Shaping = NO_SHAPES,
    retry_notes: list[str] | None = None,
    sent_at: list[float] | None = None,
    clock: Clock | None = None,
) -> dict[dt.date, PollResult]:
    """Poll one partition into immutable files. Starts again after a retriable error, within the retry budget.

    :param retry_notes: receives a line for each retry.
    :raises QuotaError: no more requests may be sent.
    :raises ConnectError: the source's last error, with the number of tries.
    """
    source: Source = registry.source_class(task.source_name).from_options(task.source)
    root = Folder(task.root)
    if (seconds_early := task.begins - time.time()) > 0:
        CLOCK.sleep(seconds_early)
    patience = Patience(source.retry_budget_seconds, RETRY_PAUSES, jitter=FROM_HALF, clock=clock)
    notes = [] if retry_notes is None else retry_notes
    sent_at = [] if sent_at is None else sent_at
    requests = task.failed
    previous_error: RetriableError | None = None
    with closing_quietly(source.open(connection, PollContext(polls_at_once=task.polls_at_once)), log_line) as poller:
        while True:
            _require_time(task)
            tally = Tally(task.part.days, task.polled_before)
            try:
                try:
                    polled = stage_partition_once(
                        poller, root, task, schema, shaping=shaping, tally=tally, retry_notes=notes
                    )
                finally:
                    sent_at += tally.sent
            except RetriableError as error:
                if _must_driver_retry(task, error):
                    raise
                if task.is_first_load and isinstance(error, SetupError) and error.repeats(previous_error):
                    raise error.as_final() from None
                previous_error = error
                pause = patience.next_pause(error.retry_after_seconds)
                requests += tally.requests
                are_requests_spent = requests >= source.retry_budget_requests
                if pause is None or are_requests_spent:
                    tries_text = (
                        f"polled {patience.tries} times in {patience.spent_seconds:.0f} s of "
                        f"{source.retry_budget_seconds:.0f} s"
                    )
                    if requests:
                        tries_text += f", with {requests} of retry_budget_requests={source.retry_budget_requests}"
                    raise RetriableError(
                        f"{error} ({tries_text})",
                        retry_after_seconds=error.retry_after_seconds,
                        request_budget_spent=are_requests_spent,
                    ) from None
                if task.requests is not None and len(sent_at) >= task.requests:
                    raise QuotaError(f"{error} (the {task.requests} requests of this task are all sent)") from None
                notes.append(f"waits {pause:.1f} s, then polls again ({error})")
                with _ProgressWriter(root, task, Tally(), notes, note=notes[-1]):
                    patience.sleep(pause)
            else:
                first = task.part.days[0].date
                poll_totals = {"retries": len(notes), "seconds": patience.spent_seconds}
                return polled | {first: polled[first].model_copy(update=poll_totals)}


def _must_driver_retry(task: PollTask, error: RetriableError) -> bool:
    """Return whether the driver must retry: the retry waits for quota, or needs other partitions."""
    if isinstance(error, PlanGoneError):
        return True
    waits_for_quota = task.requests is not None and isinstance(error, QuotaError)
    return waits_for_quota or (task.ends_late and isinstance(error, DeadlineError))


def _require_time(task: PollTask) -> None:
    if task.requests is not None and time.time() >= task.until:
        raise QuotaError("the reservation of its requests expired before they were sent")


def _require_first_run(task: PollTask) -> None:
    """Refuse a second run of a task with a quota, after Spark lost an executor that may have sent its requests."""
    if task.requests is None:
        return
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        raise RetriableError("Spark lost an executor, which may have sent all requests reserved for this day")


def stage_partition_once(
    poller: Poller,
    root: Folder,
    task: PollTask,
    schema: pa.Schema,
    *,
    shaping: Shaping = NO_SHAPES,
    tally: Tally,
    retry_notes: list[str],
) -> dict[dt.date, PollResult]:
    """Poll one partition into immutable files, without a retry. Parameters as in :func:`stage_partition`."""
    copy = secrets.token_hex(4)
    index = task.part.index
    attempts = dict(zip(task.part.days, task.attempts, strict=True))
    shape, source_schema = shaping.bind(schema), schema
    schema = shaping.chain.result_schema(source_schema)
    source_eraser, staged_eraser = make_erasers(task.erased, source_schema, schema)

    def shaped() -> Iterator[tuple[Day, pa.RecordBatch]]:
        for day, batch in polled_rows(poller, task.part, tally):
            counts = tally.for_day(day).counts
            yield day, _erase_rows(staged_eraser, shape(_erase_rows(source_eraser, batch, counts), counts), counts)

    with ExitStack() as stack:
        stack.enter_context(_ProgressWriter(root, task, tally, retry_notes))
        writers = {
            day: open_row_writer(
                root, schema, task.tables, StagedPart(day, attempt, index, copy), soft_deletes=task.soft_deletes
            )
            for day, attempt in attempts.items()
        }
        for writer in writers.values():
            stack.enter_context(writer)
        digests = {day: KeyDigest(schema) for day in attempts}
        contents = {day: AnswerDigest(schema) for day in attempts} if task.digests_answers else {}
        for day, batch in stack.enter_context(closing(prefetch(shaped(), depth=1))):
            writers[day].write(batch)
            digests[day].add(batch)
            if task.digests_answers:
                contents[day].add(batch)
            _bound_memory(writers.values())
    rows = [tally.for_day(day).rows for day in attempts]
    bytes_of = zip(share_bytes(tally.wire_bytes, rows), share_bytes(tally.raw_bytes, rows), strict=True)
    polled = {}
    for (day, attempt), (wire_bytes, raw_bytes) in zip(attempts.items(), bytes_of, strict=True):
        rejects = write_rejects(root, rejects_file(attempt, index, copy), tally.for_day(day).rejects, task.rejects_keep)
        if task.digests_answers:
            contents[day].add_rejects((reject.reason, reject.record) for reject in tally.for_day(day).rejects)
        polled[day.date] = _polled_of(tally.for_day(day), writers[day].files, rejects).model_copy(
            update={
                "digest": digests[day].text,
                "contents": contents[day].text if task.digests_answers else None,
                "wire_bytes": wire_bytes,
                "raw_bytes": raw_bytes,
            }
        )
    return polled


def _erase_rows(eraser: Eraser, batch: pa.RecordBatch, counts: Counter[str]) -> pa.RecordBatch:
    remaining_batch = eraser.remove_rows(batch)
    if remaining_batch.num_rows < batch.num_rows:
        counts["erased"] += batch.num_rows - remaining_batch.num_rows
    return remaining_batch


def _bound_memory(writers: Collection[RowWriter | TableSplitWriter]) -> None:
    if len(writers) > 1 and sum(writer.pending_bytes for writer in writers) > _PENDING_BYTES:
        max(writers, key=lambda writer: writer.pending_bytes).flush()


def share_bytes(total: int, rows: Sequence[int]) -> list[int]:
    """Divide a request's bytes among its days in proportion to rows. Without rows, the first day gets all."""
    if not sum(rows):
        return [total, *[0] * (len(rows) - 1)]
    ends = [total * end // sum(rows) for end in accumulate(rows, initial=0)]
    return [end - start for start, end in pairwise(ends)]


def _polled_of(tally: Tally, files: tuple[StagedFile, ...], rejects: StagedFile | None) -> PollResult:
    return PollResult(
        files=files,
        rejects=(rejects,) if rejects else (),
        rows_read=tally.rows,
        rows_written=sum(file.rows for file in files),
        counts=dict(tally.counts),
        earliest=tally.earliest,
        latest=tally.latest,
    )


@dataclass
class _ProgressWriter:
    """Writes a sign of life every few seconds while its block runs.

    The driver logs it as progress, and a sweep sees that the attempt is alive.

    :param note: the task's current activity, if not polling.
    """

    root: Folder
    task: PollTask
    tally: Tally
    retries: list[str]
    note: str = ""

    def __enter__(self) -> _ProgressWriter:
        # The first sign precedes the first row: a sweep must find a sign for every file.
        self._write_sign()
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
                self._write_sign()
            except (OSError, ConnectError):
                # A full disk also fails the rows, and they report it.
                continue

    def _write_sign(self) -> None:
        tally = self.tally
        sign = {
            "rows": tally.rows_of_all_days,
            "raw_bytes": tally.raw_bytes,
            "wire_bytes": tally.wire_bytes,
            "announced_bytes": tally.announced_bytes,
            "announced_rows": tally.announced_rows,
            "retries": self.retries,
            "note": self.note,
        }
        for attempt in self.task.attempts:
            self.root.write(progress_file(attempt, self.task.part.index), json.dumps(sign).encode())
