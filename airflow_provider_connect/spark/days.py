"""The driver's half: what happens to one day, from the ledger's question to the ledger's row."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from airflow_provider_connect import __version__, temporary_stage
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConnectError, Failure, SupersededError, worst
from airflow_provider_connect.job import DayReport, JobConfig
from airflow_provider_connect.sink import Connections, LedgerRow, Publish, Sink, StreamKey
from airflow_provider_connect.source import InputPartition, Source
from airflow_provider_connect.spark.poll import PollOutcome, PollTask
from airflow_provider_connect.spark.progress import Progress, say
from airflow_provider_connect.stage import CONTROL, Manifest, Polled, StagedFile, attempt_folder
from airflow_provider_connect.storage import Folder
from airflow_provider_connect.window import Day

PollParts = Callable[[list[str]], list[str]]
PutShares = Callable[[Any, list[tuple[StagedFile, ...]]], list[Any]]


@dataclass(frozen=True)
class Days:
    """Moves days from a source into a sink.

    :param poll_parts: runs :func:`.poll.run` over tasks on the executors.
    :param keeps_stage: whether published files stay where they are: the sink says where the stage lies.
    :param put_shares: runs the sink's ``put`` over shares of a day on the executors; None if the sink has none.
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

    def move(self, day: Day) -> DayReport:
        """Bring one day into the sink; an error becomes the day's failure, and touches no other day."""
        try:
            report = self._move(day)
        except SupersededError as error:
            report = DayReport.of(day, "superseded", failure=Failure.of(error))
        except Exception as error:  # noqa: BLE001  # the report carries every error, by type, to Airflow
            report = DayReport.of(day, "failed", failure=Failure.of(error))
        self.progress.end(str(day), _describe(report))
        return report

    def _move(self, day: Day) -> DayReport:
        row = self.sink.ledger(self.key, self.connections).published(day.date, self.job.intent.token)
        if row is not None:
            self._forget_leftover(day)
            return _already(day, row)
        manifest, reused = self._frozen(day)
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
        )
        try:
            row = self._publish(publish)
        except SupersededError:
            self._forget(manifest)
            raise
        self._forget(manifest)
        if row.attempt != manifest.attempt:
            return _already(day, row)
        return DayReport.of(
            day,
            "published",
            manifest.polled if not reused else manifest.polled.model_copy(update={"seconds": 0.0}),
            generation=row.generation,
            rows_written=row.rows,
            rejected=row.counts.get("rejected", manifest.polled.counts.get("rejected", 0)),
            rejects=tuple(file.path for file in manifest.polled.rejects) if self.keeps_stage else (),
            reference=row.reference,
            link=row.link,
            publish_seconds=time.monotonic() - started,
        )

    def _frozen(self, day: Day) -> tuple[Manifest, bool]:
        """Return the day's manifest, and whether an earlier attempt of this intent had finished it."""
        found = self._earlier_manifest(day)
        if found is not None:
            return found, True
        attempt = f"{self.job.attempt}-{day.date:%Y%m%d}"
        parts = self.source.plan(day, self.source_connection)
        self.progress.begin(str(day), attempt, len(parts))
        started = time.monotonic()
        outcomes = [
            PollOutcome.model_validate_json(text) for text in self.poll_parts([self._task(p, attempt) for p in parts])
        ]
        failure = worst([outcome.failure for outcome in outcomes if outcome.failure])
        if failure is not None:
            raise failure.error()
        polled = [outcome.polled for outcome in outcomes if outcome.polled]
        if len(polled) != len(parts):
            raise ConnectError(f"day {day}: {len(parts)} partitions were planned, {len(polled)} answered")
        total = Polled.total(polled).model_copy(update={"seconds": time.monotonic() - started})
        manifest = Manifest(day=day, attempt=attempt, fingerprint=self.fingerprint, polled=total)
        self.root.write(f"{attempt_folder(attempt)}/manifest.json", manifest.model_dump_json().encode())
        return manifest, False

    def _task(self, part: InputPartition, attempt: str) -> str:
        return PollTask(
            source_name=self.job.source_name,
            source=self.job.source,
            part=part,
            root=self.root.url,
            attempt=attempt,
            progress_seconds=self.job.progress_seconds,
        ).model_dump_json()

    def _earlier_manifest(self, day: Day) -> Manifest | None:
        """Find what an earlier attempt of the same intent froze: the same options, and every file still whole."""
        intent = self.job.attempt.split("-")[0]
        suffix = f"-{day.date:%Y%m%d}"
        entries = self.root.files(f"{CONTROL}/attempts")
        for entry in sorted(entries, key=lambda entry: entry.modified, reverse=True):
            folder, _, name = entry.name.rpartition("/")
            attempt = folder.rpartition("/")[2]
            if name != "manifest.json" or not (attempt.startswith(f"{intent}-") and attempt.endswith(suffix)):
                continue
            manifest = self._manifest(entry.name)
            if manifest is not None and manifest.fingerprint == self.fingerprint and self._is_whole(manifest):
                return manifest
        return None

    def _manifest(self, name: str) -> Manifest | None:
        """Read a manifest; None if a sweep has just deleted it, or another version of this package wrote it."""
        try:
            return Manifest.model_validate_json(self.root.read(name))
        except (FileNotFoundError, ValidationError):
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

    def _forget_leftover(self, day: Day) -> None:
        """Delete what a driver left that died between a publish and its end."""
        if not self.keeps_stage and (leftover := self._earlier_manifest(day)) is not None:
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
        """Digest of what decides what a poll yields: code, options, and where the source is."""
        place = self.source_connection.model_dump(include={"conn_id", "host", "port", "path"})
        text = json.dumps([__version__, self.job.source_name, self.job.source, place], sort_keys=True)
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


def _describe(report: DayReport) -> str:
    if report.failure is not None:
        return f"{report.status}: {report.failure.message}"
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
