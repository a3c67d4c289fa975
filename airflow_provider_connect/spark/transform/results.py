"""Stages the results of a transform. Each day is polled into a separate stage, transformed, and staged again.

Layout of the stage::

    _connect/polled/…          a stage like any other: polled days, until their results are staged
    day=<date>/…, _connect/…   the results, which are published

A later try publishes a staged result, and transforms a polled day without one. So no rows are polled or transformed
twice.
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
    """Delete the polled days of dead attempts. Returns the number of files."""
    stage = polled_root(root)
    return temporary.sweep_stage(stage, stage.storage_time() - temporary.DEAD_AFTER) if stage.files() else 0


@dataclass(frozen=True)
class ResultStager:
    """Polls days, transforms them and stages the results."""

    context: JobContext
    polled_stager: DayStager
    transformation: Transformation

    @cached_property
    def earlier_attempts(self) -> EarlierAttempts:
        """Staged results of earlier tries."""
        return EarlierAttempts(self.root, self.context.job.attempt, self._make_fingerprint)

    @property
    def root(self) -> Folder:
        """Stage of the results."""
        return self.context.outlet.root

    @property
    def polled_root(self) -> Folder:
        """Stage of polled days."""
        return self.context.polled_root

    def stage(self, days: DaysToPoll) -> dict[Day, Manifest | Failure]:
        """Poll days, and stage the result of each. Raises the errors of the poll."""
        Eraser(days.erase_list, self.transformation.schema)
        answers = self.polled_stager.stage(days)
        with KeepAlive(self.polled_root) as waiting:
            waiting.add(answer.attempt for answer in answers.values() if isinstance(answer, Manifest))
            for day, answer in answers.items():
                if isinstance(answer, Manifest):
                    answers[day] = self._result_or_failure(answer, days.attempt, days.erase_list, waiting)
        return answers

    def reusable_manifest(self, day: Day, seen_publish: SeenPublish) -> Manifest | None:
        """Return an earlier try's result, or transform its polled rows. None if neither can be reused."""
        result = self.earlier_attempts.reusable_manifest(day, seen_publish)
        if result is not None:
            self._delete_polled_of(day)
            return result
        polled = self.polled_stager.reusable_manifest(day, seen_publish)
        if polled is None:
            return None
        erased = self.context.outlet.publisher.ledger.erased()
        if erased.version != seen_publish.erased:
            return None  # an erase is running: the day is polled under the new list
        with KeepAlive(self.polled_root) as waiting:
            waiting.add_with_sign(polled.attempt)
            return self._stage_result(polled, self.context.job.attempt, erased, waiting)

    def _make_fingerprint(self) -> str:
        columns = self.transformation.schema.serialize().to_pybytes().hex()
        text = json.dumps([self.polled_stager.earlier_attempts.fingerprint, self.transformation.digest, columns])
        return hashlib.sha256(text.encode()).hexdigest()

    def _result_or_failure(
        self, polled: Manifest, attempt: str, erased: EraseList, polled_waits: KeepAlive
    ) -> Manifest | Failure:
        try:
            return self._stage_result(polled, attempt, erased, polled_waits)
        except Exception as error:  # noqa: BLE001  # it concerns this day alone, and the report carries it, by type
            return Failure.from_error(error)

    def _stage_result(self, polled: Manifest, attempt: str, erased: EraseList, polled_waits: KeepAlive) -> Manifest:
        day, name = polled.day, f"{attempt}-{polled.day.date:%Y%m%d}"
        started = time.monotonic()
        log_line(f"day {day}: {polled.polled.rows_written:,} rows polled, now transform={self.transformation.label}")
        with KeepAlive(self.root) as waiting:
            # A sweep must find a sign of this attempt as soon as it finds a file.
            waiting.add_with_sign(name)
            result = self._compute_and_stage(polled, name, erased)
            seconds = time.monotonic() - started
            manifest = polled.model_copy(
                update={
                    "attempt": name,
                    "fingerprint": self.earlier_attempts.fingerprint,
                    "polled": result,
                    "transformed": TransformResult(
                        rows=polled.polled.rows_written, contents=polled.polled.contents, seconds=seconds
                    ),
                }
            )
            self.root.write(manifest_file(name), manifest.model_dump_json().encode(), durable=True)
        log_line(f"day {day}: transformed into {result.rows_written:,} rows in {seconds:.1f} s")
        polled_waits.remove(polled.attempt)
        self._delete_polled(polled)
        return manifest

    def _compute_and_stage(self, polled: Manifest, attempt: str, erased: EraseList) -> PollResult:
        schema, label = self.transformation.schema, self.transformation.label
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
            raise error_mapping.error_of_run(label, error) from None
        outcomes = [StageResultOutcome.model_validate_json(row[0]) for row in rows]
        if (failure := worst_failure([outcome.failure for outcome in outcomes if outcome.failure])) is not None:
            raise failure.error()
        total = PollResult.total(
            [empty_result(schema), *(outcome.polled for outcome in outcomes if outcome.polled is not None)]
        )
        poll_fields = {name: getattr(polled.polled, name) for name in _POLL_FIELDS}
        counts = polled.polled.counts | total.counts | {ROWS_POLLED: polled.polled.rows_written}
        return total.model_copy(update=poll_fields | {"counts": counts, "rejects": self._copy_rejects(polled, attempt)})

    def _copy_rejects(self, polled: Manifest, attempt: str) -> tuple[Any, ...]:
        copies = []
        for file in polled.polled.rejects:
            path = f"{attempt_folder(attempt)}/{file.path.rpartition('/')[2]}"
            self.root.copy(f"{POLLED_PATH}/{file.path}", path)
            copies.append(file.model_copy(update={"path": path}))
        self.root.sync([file.path for file in copies])
        return tuple(copies)

    def _delete_polled_of(self, day: Day) -> None:
        for manifest in self.polled_stager.earlier_attempts.manifests(day):
            self._delete_polled(manifest)

    def _delete_polled(self, polled: Manifest) -> None:
        try:
            discard_staged_answer(self.polled_root, polled)
            temporary.delete_staged_day(self.polled_root, polled)
        except ConnectError as error:
            log_line(f"day {polled.day}: polled files could not be deleted: {error}")


_POLL_FIELDS = ("rows_read", "wire_bytes", "raw_bytes", "retries", "seconds", "earliest", "latest", "parts")


def spark_url(url: str) -> str:
    """Return the URL that Spark uses for a file of the stage: Hadoop calls S3 ``s3a``."""
    return url.replace("s3://", "s3a://", 1) if url.startswith("s3://") else url
