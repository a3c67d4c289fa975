"""Freezes the results of a transform: each day is polled into a stage of its own, transformed, and frozen again.

Under the root of the stage, what was polled lies apart ::

    _connect/polled/…          a stage like any other: days as the source gave them, until their results are frozen
    day=<date>/…, _connect/…   the results, which are published

A try that finds a frozen result publishes it; one that finds a polled day transforms that; so what was polled once is
not polled again, and what was transformed once is not transformed again.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from airflow_provider_connect.errors import ConnectError, Failure, worst_failure
from airflow_provider_connect.spark.attempts import EarlierAttempts, KeepAlive
from airflow_provider_connect.spark.context import JobContext
from airflow_provider_connect.spark.progress import log_line
from airflow_provider_connect.spark.states import DayStager, DaysToPoll
from airflow_provider_connect.spark.transform import error_mapping
from airflow_provider_connect.spark.transform.result_tasks import (
    OUTCOME,
    StageResultOutcome,
    StageResultTask,
    empty_result,
    make_stage_function,
)
from airflow_provider_connect.spark.transform.transformation import Transformation
from airflow_provider_connect.stage import temporary
from airflow_provider_connect.stage.erase_list import EraseList, Eraser
from airflow_provider_connect.stage.manifest import (
    Manifest,
    PollResult,
    SeenPublish,
    TransformResult,
    attempt_folder,
    manifest_file,
)
from airflow_provider_connect.stage.poll_plans import discard_staged_answer
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.temporary import POLLED_PATH, polled_root
from airflow_provider_connect.stage.transform import ROWS_POLLED
from airflow_provider_connect.window import Day


def sweep(root: Folder) -> int:
    """Delete polled days of attempts that are long dead; return how many files."""
    polled = polled_root(root)
    return temporary.sweep_stage(polled, polled.storage_time() - temporary.DEAD_AFTER) if polled.files() else 0


@dataclass(frozen=True)
class ResultStager:
    """Freezes results.

    :param polled: freezes what they are made of.
    :param transformation: makes them.
    """

    context: JobContext
    polled_stager: DayStager
    transformation: Transformation

    @cached_property
    def earlier_attempts(self) -> EarlierAttempts:
        """Results of earlier tries."""
        return EarlierAttempts(self.root, self.context.job.attempt, self._fingerprint)

    @property
    def root(self) -> Folder:
        """Stage of the results."""
        return self.context.outlet.root

    @property
    def polled_root(self) -> Folder:
        """Stage of polled days."""
        return self.context.polled_root

    def stage(self, days: DaysToPoll) -> dict[Day, Manifest | Failure]:
        """Poll days, and freeze the result of each; errors are those of the poll."""
        Eraser(days.erase_list, self.transformation.schema)
        found = self.polled_stager.stage(days)
        with KeepAlive(self.polled_root) as waiting:
            waiting.add(each.attempt for each in found.values() if isinstance(each, Manifest))
            for day, each in found.items():
                if isinstance(each, Manifest):
                    found[day] = self._result_or_failure(each, days.attempt, days.erase_list, waiting)
        return found

    def reusable_manifest(self, day: Day, seen: SeenPublish) -> Manifest | None:
        """Return the result that an earlier try left, or make one of what it had polled; None if it left nothing."""
        result = self.earlier_attempts.reusable_manifest(day, seen)
        if result is not None:
            self._forget_polled(day)
            return result
        polled = self.polled_stager.reusable_manifest(day, seen)
        if polled is None:
            return None
        erased = self.context.outlet.publisher.ledger.erased()
        if erased.version != seen.erased:
            return None  # somebody erases right now: the day is polled under the new list
        with KeepAlive(self.polled_root) as waiting:
            waiting.add_with_sign(polled.attempt)
            return self._result(polled, self.context.job.attempt, erased, waiting)

    def _fingerprint(self) -> str:
        """Digest of all that decides what a result is: how it is polled, and the transform with its columns."""
        columns = self.transformation.schema.serialize().to_pybytes().hex()
        text = json.dumps([self.polled_stager.earlier_attempts.fingerprint, self.transformation.digest, columns])
        return hashlib.sha256(text.encode()).hexdigest()

    def _result_or_failure(
        self, polled: Manifest, attempt: str, erased: EraseList, polled_waits: KeepAlive
    ) -> Manifest | Failure:
        try:
            return self._result(polled, attempt, erased, polled_waits)
        except Exception as error:  # noqa: BLE001  # it concerns this day alone, and the report carries it, by type
            return Failure.from_error(error)

    def _result(self, polled: Manifest, attempt: str, erased: EraseList, polled_waits: KeepAlive) -> Manifest:
        day, name = polled.day, f"{attempt}-{polled.day.date:%Y%m%d}"
        started = time.monotonic()
        log_line(f"day {day}: {polled.polled.rows_written:,} rows polled, now transform={self.transformation.label}")
        with KeepAlive(self.root) as waiting:
            # A sweep must find a sign of this attempt beside its first file.
            waiting.add_with_sign(name)
            made = self._frozen(polled, name, erased)
            seconds = time.monotonic() - started
            manifest = polled.model_copy(
                update={
                    "attempt": name,
                    "fingerprint": self.earlier_attempts.fingerprint,
                    "polled": made,
                    "transformed": TransformResult(
                        rows=polled.polled.rows_written, contents=polled.polled.contents, seconds=seconds
                    ),
                }
            )
            self.root.write(manifest_file(name), manifest.model_dump_json().encode(), durable=True)
        log_line(f"day {day}: transformed into {made.rows_written:,} rows in {seconds:.1f} s")
        polled_waits.remove(polled.attempt)
        self._forget(polled)
        return manifest

    def _frozen(self, polled: Manifest, attempt: str, erased: EraseList) -> PollResult:
        """Compute a result, and freeze it on the executors.

        :raises ConnectError: the worst failure of its pieces.
        """
        schema, what = self.transformation.schema, self.transformation.label
        task = StageResultTask(
            root=self.root.url,
            day=polled.day,
            attempt=attempt,
            erased=erased,
            tables=self.context.outlet.sink.tables,
            soft_deletes=self.context.has_soft_deletes,
        )
        urls = [spark_url(f"{self.polled_root.url}/{file.path}") for file in polled.polled.files]
        frame = self.transformation.compute(urls, polled.day)
        try:
            rows = frame.mapInArrow(make_stage_function(task, schema), f"{OUTCOME} string").collect()
        except Exception as error:  # noqa: BLE001  # the JVM's, whose text may hold anything
            raise error_mapping.error_of_run(what, error) from None
        pieces = [StageResultOutcome.model_validate_json(row[0]) for row in rows]
        if (failure := worst_failure([piece.failure for piece in pieces if piece.failure])) is not None:
            raise failure.error()
        total = PollResult.total(
            [empty_result(schema), *(piece.polled for piece in pieces if piece.polled is not None)]
        )
        same = {name: getattr(polled.polled, name) for name in _OF_THE_POLL}
        counts = polled.polled.counts | total.counts | {ROWS_POLLED: polled.polled.rows_written}
        return total.model_copy(update=same | {"counts": counts, "rejects": self._rejects(polled, attempt)})

    def _rejects(self, polled: Manifest, attempt: str) -> tuple[Any, ...]:
        """Give what could not become a row a second name, among the files of the result."""
        named = []
        for file in polled.polled.rejects:
            path = f"{attempt_folder(attempt)}/{file.path.rpartition('/')[2]}"
            self.root.copy(f"{POLLED_PATH}/{file.path}", path)
            named.append(file.model_copy(update={"path": path}))
        self.root.sync([file.path for file in named])
        return tuple(named)

    def _forget_polled(self, day: Day) -> None:
        for left in self.polled_stager.earlier_attempts.manifests(day):
            self._forget(left)

    def _forget(self, polled: Manifest) -> None:
        """Delete what was polled: its result is frozen. A failure does not fail the day: a later sweep tries again."""
        try:
            discard_staged_answer(self.polled_root, polled)
            temporary.delete_staged_day(self.polled_root, polled)
        except ConnectError as error:
            log_line(f"day {polled.day}: polled files could not be deleted: {error}")


_OF_THE_POLL = ("rows_read", "wire_bytes", "raw_bytes", "retries", "seconds", "earliest", "latest", "parts")


def spark_url(url: str) -> str:
    """Return what Spark calls a file of the stage: Hadoop has a name of its own for S3."""
    return url.replace("s3://", "s3a://", 1) if url.startswith("s3://") else url
