"""The driver's half: what happens to one day, from the ledger's question to the ledger's row."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from airflow_provider_connect import __version__
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import (
    ConnectError,
    DataError,
    Failure,
    OvertakenError,
    SupersededError,
    worst,
)
from airflow_provider_connect.job import DayReport, JobConfig
from airflow_provider_connect.publishing import seen_in
from airflow_provider_connect.sink import Connections, LedgerRow, Publish, Sink, StreamKey
from airflow_provider_connect.source import InputPartition, Source
from airflow_provider_connect.spark.poll import PollOutcome, PollTask
from airflow_provider_connect.spark.progress import Progress, say
from airflow_provider_connect.stage import temporary as temporary_stage
from airflow_provider_connect.stage.manifest import CONTROL, Manifest, Polled, Seen, StagedFile, attempt_folder
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day

PollParts = Callable[[list[str]], list[str]]
PutShares = Callable[[Any, list[tuple[StagedFile, ...]]], list[Any]]


@dataclass(frozen=True)
class Days:
    """Moves days from a source into a sink.

    :param poll_parts: runs :func:`.poll.run` over tasks on the executors.
    :param keeps_stage: whether published files stay where they are: the sink says where the stage lies.
    :param put_shares: runs the sink's ``put`` over shares of a day on the executors; None if the sink has none.
    :param task_lives: tells whether the Airflow task that wants these days is known to live.
    """

    job: JobConfig
    source: Source
    sink: Sink
    source_connection: Connection
    connections: Connections
    key: StreamKey
    schema: pa.Schema
    root: Folder
    keeps_stage: bool
    progress: Progress
    poll_parts: PollParts
    put_shares: PutShares | None
    task_lives: Callable[[], bool]

    def move(self, day: Day) -> DayReport:
        """Bring one day into the sink; an error becomes the day's failure, and touches no other day."""
        try:
            report = self._move(day)
        except SupersededError as error:
            report = DayReport.of(day, "superseded", failure=Failure.of(error))
        except Exception as error:  # noqa: BLE001  # the report carries every error, by type, to Airflow
            report = DayReport.of(day, "failed", failure=Failure.of(error), retries=self.progress.retries(str(day)))
        self.progress.end(str(day), _describe(report, with_reason=self._tells_reasons or report.status != "failed"))
        return report

    @property
    def _tells_reasons(self) -> bool:
        """Whether to say why a day failed as soon as it has: not where the task says just that in its next line."""
        return len(self.job.days) > 1 or self.job.is_remote

    def _move(self, day: Day) -> DayReport:
        """Move a day; poll it again for each other intent that published it meanwhile, while our task lives.

        Only the task's own driver may: a forgotten one would go on asking the source for nobody.
        """
        overtaken_by: set[str] = set()
        while True:
            try:
                return self._attempt(day, f"{self.job.attempt}{'r' * len(overtaken_by)}-{day.date:%Y%m%d}")
            except OvertakenError as error:
                if not error.may_poll_again or error.by in overtaken_by or not self.task_lives():
                    raise
                overtaken_by.add(error.by)
                say(f"day {day}: {error}; polling it again")

    def _attempt(self, day: Day, attempt: str) -> DayReport:
        ledger = self.sink.ledger(self.key, self.connections)
        row = ledger.published(day.date, self.job.intent.token)
        if row is not None:
            self._forget_leftovers(day)
            return _already(day, row)
        newest = ledger.newest(day.date, self.source.kind)
        manifest, reused = self._frozen(day, attempt, seen_in(newest))
        self._require_rows(manifest, newest)
        self.progress.publish(str(day), manifest.polled.rows_written)
        started = time.monotonic()
        publish = Publish(
            key=self.key,
            day=day,
            intent=self.job.intent,
            manifest=manifest,
            kind=self.source.kind,
            stage=self.root.url,
            labels=self.job.labels,
            on_empty=self.job.on_empty,
        )
        try:
            row = self._publish(publish)
        except (OvertakenError, SupersededError):
            self._forget(manifest)
            raise
        self._forget(manifest)
        if row.attempt != manifest.attempt:
            return _already(day, row)
        return DayReport.of(
            day,
            "published",
            manifest.polled if not reused else manifest.polled.model_copy(update={"seconds": 0.0, "retries": 0}),
            generation=row.generation,
            rows_written=row.rows,
            rejected=row.counts.get("rejected", manifest.polled.counts.get("rejected", 0)),
            rejects=tuple(file.path for file in manifest.polled.rejects) if self.keeps_stage else (),
            reference=row.reference,
            link=row.link,
            publish_seconds=time.monotonic() - started,
        )

    def _frozen(self, day: Day, attempt: str, seen: Seen) -> tuple[Manifest, bool]:
        """Return the day's manifest, and whether an earlier attempt of this intent had finished it.

        A manifest whose ``seen`` the ledger has passed is stale: its answer may be older than what is published.
        """
        for found in self._earlier_manifests(day):
            if found.fingerprint == self.fingerprint and found.seen == seen and self._is_whole(found):
                return found, True
        parts = self.source.plan(day, self.source_connection)
        self.progress.begin(str(day), attempt, len(parts))
        started, polled_at = time.monotonic(), dt.datetime.now(dt.UTC)
        outcomes = [
            PollOutcome.model_validate_json(text) for text in self.poll_parts([self._task(p, attempt) for p in parts])
        ]
        for part, outcome in zip(parts, outcomes, strict=False):
            self.progress.retried(str(day), attempt, part.index, outcome.retries)
        failure = worst([outcome.failure for outcome in outcomes if outcome.failure])
        if failure is not None:
            raise failure.error()
        polled = [outcome.polled for outcome in outcomes if outcome.polled]
        if len(polled) != len(parts):
            raise ConnectError(f"day {day}: {len(parts)} partitions were planned, {len(polled)} answered")
        total = Polled.total(polled).model_copy(update={"seconds": time.monotonic() - started})
        manifest = Manifest(
            day=day, attempt=attempt, fingerprint=self.fingerprint, polled=total, seen=seen, polled_at=polled_at
        )
        self.root.write(f"{attempt_folder(attempt)}/manifest.json", manifest.model_dump_json().encode(), durable=True)
        return manifest, False

    def _require_rows(self, manifest: Manifest, newest: LedgerRow | None) -> None:
        """Refuse to publish nothing in the place of something, unless the operator accepts it.

        :raises DataError: with how many rows would be gone.
        """
        if self.job.on_empty == "accept" or manifest.polled.rows_written or newest is None or not newest.rows:
            return
        if not self.sink.replaces(self.source.kind):
            return
        if newest.day > manifest.day.date:
            return  # a snapshot of a later day stands there, which an earlier one leaves alone
        # The next try asks the source anew: this answer may have been a passing fault.
        self.root.delete(f"{attempt_folder(manifest.attempt)}/manifest.json")
        self._forget(manifest)
        read = max(manifest.polled.rows_read, manifest.polled.counts.get("rejected", 0))
        answer = f"with {read:,} rows, none of which can be published" if read else "without a row"
        raise DataError(
            f"day {manifest.day}: the source answered {answer}, and {newest.rows:,} rows of {newest.day} are "
            f"published (generation {newest.generation}), which would be gone: see why the source sent nothing; if "
            "that is right, set the operator's on_empty='accept' and clear the task"
        )

    def _task(self, part: InputPartition, attempt: str) -> str:
        return PollTask(
            source_name=self.job.source_name,
            source=self.job.source,
            part=part,
            root=self.root.url,
            attempt=attempt,
            progress_seconds=self.job.progress_seconds,
        ).model_dump_json()

    def _earlier_manifests(self, day: Day) -> Iterator[Manifest]:
        """Yield what earlier attempts of the same intent left of a day, newest first."""
        for attempt in self._earlier_attempts:
            if attempt.endswith(f"-{day.date:%Y%m%d}"):
                manifest = self._manifest(day, attempt)
                if manifest is not None:
                    yield manifest

    @cached_property
    def _earlier_attempts(self) -> list[str]:
        """Finished attempts of the same intent, newest first; listed once a job, for dead tries finish no more."""
        intent = self.job.attempt.split("-")[0]
        found = [
            (entry.modified, folder.rpartition("/")[2])
            for entry in self.root.files(f"{CONTROL}/attempts")
            for folder, _, name in [entry.name.rpartition("/")]
            if name == "manifest.json"
        ]
        return [attempt for _, attempt in sorted(found, reverse=True) if attempt.startswith(f"{intent}-")]

    def _manifest(self, day: Day, attempt: str) -> Manifest | None:
        """Read a manifest; None if a sweep has just deleted it, or it is none that this version wrote there."""
        name = f"{attempt_folder(attempt)}/manifest.json"
        try:
            return Manifest.read(self.root.read(name), day, attempt)
        except FileNotFoundError:
            return None
        except ValueError:
            say(f"{self.root.url}/{name} is not used: another version of this package wrote it, or somebody changed it")
            return None

    def _is_whole(self, manifest: Manifest) -> bool:
        files = (*manifest.polled.files, *manifest.polled.rejects)
        found = self.root.entries([file.path for file in files])
        return all(file.path in found and found[file.path].size_bytes == file.size_bytes for file in files)

    def _publish(self, publish: Publish) -> LedgerRow:
        token = self.sink.begin(publish, self.schema, self.connections)
        try:
            shares = self.sink.shares(publish.manifest.polled.files)
            receipts = self.put_shares(token, shares) if self.put_shares else []
            return self.sink.commit(publish, self.schema, token, receipts, self.connections)
        except BaseException as error:
            self._abort(publish, token)
            row = self._published_meanwhile(publish) if isinstance(error, ConnectError) else None
            if row is None:
                raise
            return row

    def _published_meanwhile(self, publish: Publish) -> LedgerRow | None:
        """Ask the ledger once more after an error: another try of this intent may have published the day."""
        try:
            ledger = self.sink.ledger(self.key, self.connections)
            return ledger.published(publish.day.date, publish.intent.token)
        except ConnectError:
            return None

    def _forget_leftovers(self, day: Day) -> None:
        """Delete what drivers left that died between a publish and its end."""
        if not self.keeps_stage:
            for leftover in self._earlier_manifests(day):
                if leftover.fingerprint == self.fingerprint:
                    self._forget(leftover)

    def _forget(self, manifest: Manifest) -> None:
        """Delete what nobody will publish any more, if the sink does not keep it.

        That it cannot be deleted must not fail the day: a later sweep tries again.
        """
        if self.keeps_stage:
            return
        try:
            temporary_stage.forget(self.root, manifest)
        except ConnectError as error:
            say(f"day {manifest.day}: what was staged could not be deleted: {error}")

    def _abort(self, publish: Publish, token: Any) -> None:
        """Let the sink clean up; that it cannot must not hide why the publish failed."""
        try:
            self.sink.abort(publish, token, self.connections)
        except Exception as error:  # noqa: BLE001
            say(f"day {publish.day}: what the publish began could not be released: {Failure.of(error).message}")

    @property
    def fingerprint(self) -> str:
        """Digest of what decides what a poll yields, and where it goes: code, options, source and target.

        Several sinks may share one stage, and each has a ledger of its own to compare with.
        """
        connection = self.source_connection
        place = connection.model_dump(include={"conn_id", "host", "port", "path"})
        place |= {name: connection.extra.get(name) for name in self.source.connection_fields}
        into = [self.job.sink_name, self.sink.target]
        text = json.dumps(
            [__version__, self.job.source_name, self.job.source, place, into], sort_keys=True, default=str
        )
        return hashlib.sha256(text.encode()).hexdigest()


def _already(day: Day, row: LedgerRow) -> DayReport:
    """Report a day that an earlier try has published, from what the ledger kept of it."""
    known = ("rows_read", "duplicates", "rejected", "wire_bytes", "raw_bytes")
    fields: dict[str, Any] = {name: row.counts.get(name, 0) for name in known}
    return DayReport.of(
        day,
        "already_published",
        generation=row.generation,
        rows_written=row.rows,
        digest=row.digest,
        reference=row.reference,
        link=row.link,
        counts={name: count for name, count in row.counts.items() if name not in known},
        **fields,
    )


def _describe(report: DayReport, *, with_reason: bool) -> str:
    if report.failure is not None:
        return f"{report.status}: {report.failure.message}" if with_reason else report.status
    text = f"{report.status} as generation {report.generation}, {report.rows_written:,} rows"
    if report.status == "published":
        text += (
            f" ({report.duplicates:,} duplicates dropped, {report.rejected:,} rejected), "
            f"{report.raw_bytes / 1e6:,.1f} MB, "
            f"{report.poll_seconds:.1f} s to poll, {report.publish_seconds:.2f} s to publish"
        )
    if report.link is not None:
        text += f"; {report.reference}: {report.link}"
    return text
