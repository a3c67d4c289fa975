"""The driver's half: what happens to days, from the ledger's question to the ledger's row."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_provider_connect.errors import ConnectError, DataError, Failure, OvertakenError, SupersededError
from airflow_provider_connect.job import DayReport, JobConfig
from airflow_provider_connect.publishing import seen_in
from airflow_provider_connect.sink import LedgerRow, Publish, Publisher, Sink, StreamKey
from airflow_provider_connect.source import Source
from airflow_provider_connect.spark.freezer import Freezer
from airflow_provider_connect.spark.progress import Progress, say
from airflow_provider_connect.stage import temporary as temporary_stage
from airflow_provider_connect.stage.manifest import Manifest, StagedFile, manifest_file
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day, groups

PutShares = Callable[[Any, list[tuple[StagedFile, ...]]], list[Any]]


@dataclass(frozen=True)
class _Unpolled:
    """A day that has to be polled.

    :param newest: what the ledger said before.
    """

    newest: LedgerRow | None


@dataclass(frozen=True)
class _Frozen:
    """A day in the stage.

    :param newest: what the ledger said before.
    :param is_kept: whether an earlier try had frozen it.
    """

    manifest: Manifest
    newest: LedgerRow | None
    is_kept: bool = False


_Found = DayReport | _Unpolled | _Frozen | Failure


@dataclass(frozen=True)
class Days:
    """Moves days from a source into a sink.

    :param keeps_stage: whether published files stay where they are: the sink says where the stage lies.
    :param put_shares: runs the sink's ``put`` over shares of a day on the executors; None if the sink has none.
    :param task_lives: tells whether the Airflow task that wants these days is known to live.
    """

    job: JobConfig
    source: Source
    sink: Sink
    publisher: Publisher
    key: StreamKey
    schema: pa.Schema
    root: Folder
    keeps_stage: bool
    progress: Progress
    freezer: Freezer
    put_shares: PutShares | None
    task_lives: Callable[[], bool]

    def move(self, days: Sequence[Day]) -> list[DayReport]:
        """Bring days into the sink: those that one plan takes together are polled together, each is published alone.

        An error becomes the failure of the days that it is about, and touches no other.
        """
        frozen = self._freeze(days, self.job.attempt)
        return [self._move(day, frozen[day]) for day in days]

    def _move(self, day: Day, found: _Found) -> DayReport:
        try:
            report = self._publish_newest(day, found)
        except SupersededError as error:
            report = DayReport.of(day, "superseded", failure=Failure.of(error))
        except Exception as error:  # noqa: BLE001  # the report carries every error, by type, to Airflow
            report = DayReport.of(day, "failed", failure=Failure.of(error), retries=self.progress.retries(day))
        if report.status != "not_started":
            self.progress.end(day, _describe(report, with_reason=self._tells_reasons or report.status != "failed"))
        return report

    @property
    def _tells_reasons(self) -> bool:
        """Whether to say why a day failed as soon as it has: not where the task says just that in its next line."""
        return len(self.job.days) > 1 or self.job.is_remote

    def _publish_newest(self, day: Day, found: _Found) -> DayReport:
        """Publish a day; poll it again for each other intent that published it meanwhile, while our task lives.

        Only the task's own driver may: a forgotten one would go on asking the source for nobody.
        """
        overtaken_by: set[str] = set()
        while True:
            if isinstance(found, DayReport):
                return found
            if isinstance(found, Failure):
                raise found.error()
            assert isinstance(found, _Frozen)
            try:
                return self._publish_frozen(found)
            except OvertakenError as error:
                if not error.may_poll_again or error.by in overtaken_by or not self.task_lives():
                    raise
                overtaken_by.add(error.by)
                say(f"day {day}: {error}; polling it again")
            found = self._freeze([day], f"{self.job.attempt}{'r' * len(overtaken_by)}")[day]

    def _freeze(self, days: Sequence[Day], attempt: str) -> dict[Day, _Found]:
        """Return for each day its report if it is published already, else what is frozen of it, or why nothing is."""
        found = {day: self._look(day) for day in days}
        newest = {day: each.newest for day, each in found.items() if isinstance(each, _Unpolled)}
        failure: Failure | None = None
        for group in groups(list(newest), self.freezer.poller.days_per_plan):
            if failure is not None and failure.forbids_more:
                found |= {day: DayReport.of(day, "not_started") for day in group}
                continue
            try:
                manifests = self.freezer.poll({day: seen_in(newest[day]) for day in group}, attempt)
                found |= {day: _Frozen(manifests[day], newest[day]) for day in group}
            except Exception as error:  # noqa: BLE001  # it crosses by type, like every error of a day
                failure = Failure.of(error)
                found |= dict.fromkeys(group, failure)
        return found

    def _look(self, day: Day) -> _Found:
        """Ask the ledger, then the stage, what there is of a day."""
        try:
            ledger = self.publisher.ledger
            row = ledger.published(day.date, self.job.intent.token)
            if row is not None:
                self._forget_leftovers(day)
                return _already(day, row)
            newest = ledger.newest(day.date, self.source.kind)
            kept = self.freezer.kept(day, seen_in(newest))
            return _Unpolled(newest) if kept is None else _Frozen(kept, newest, is_kept=True)
        except Exception as error:  # noqa: BLE001
            return Failure.of(error)

    def _publish_frozen(self, frozen: _Frozen) -> DayReport:
        manifest, day, polled = frozen.manifest, frozen.manifest.day, frozen.manifest.polled
        self._require_rows(manifest, frozen.newest)
        started = time.monotonic()
        publish = Publish(
            key=self.key,
            day=day,
            intent=self.job.intent,
            manifest=manifest,
            schema=self.schema,
            stage=self.root.url,
            kind=self.source.kind,
            labels=self.job.labels,
            on_empty=self.job.on_empty,
        )
        try:
            with self.progress.publishing(day, polled.rows_written):
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
            polled.model_copy(update={"seconds": 0.0, "retries": 0}) if frozen.is_kept else polled,
            generation=row.generation,
            rows_written=row.rows,
            rejected=row.counts.get("rejected", polled.counts.get("rejected", 0)),
            rejects=tuple(file.path for file in polled.rejects) if self.keeps_stage else (),
            reference=row.reference,
            link=row.link,
            publish_seconds=time.monotonic() - started,
        )

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
        self.root.delete(manifest_file(manifest.attempt))
        self._forget(manifest)
        read = max(manifest.polled.rows_read, manifest.polled.counts.get("rejected", 0))
        answer = f"with {read:,} rows, none of which can be published" if read else "without a row"
        raise DataError(
            f"day {manifest.day}: the source answered {answer}, and {newest.rows:,} rows of {newest.day} are "
            f"published (generation {newest.generation}), which would be gone: see why the source sent nothing; if "
            "that is right, set the operator's on_empty='accept' and clear the task"
        )

    def _publish(self, publish: Publish) -> LedgerRow:
        token = self.publisher.begin(publish)
        try:
            shares = self.publisher.shares(publish.manifest.polled.files)
            receipts = self.put_shares(token, shares) if self.put_shares else []
            return self.publisher.commit(publish, token, receipts)
        except BaseException as error:
            self._abort(publish, token)
            row = self._published_meanwhile(publish) if isinstance(error, ConnectError) else None
            if row is None:
                raise
            return row

    def _published_meanwhile(self, publish: Publish) -> LedgerRow | None:
        """Ask the ledger once more after an error: another try of this intent may have published the day."""
        try:
            return self.publisher.ledger.published(publish.day.date, publish.intent.token)
        except ConnectError:
            return None

    def _forget_leftovers(self, day: Day) -> None:
        """Delete what drivers left that died between a publish and its end."""
        if not self.keeps_stage:
            for leftover in self.freezer.leftovers(day):
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
            self.publisher.abort(publish, token)
        except Exception as error:  # noqa: BLE001
            say(f"day {publish.day}: what the publish began could not be released: {Failure.of(error).message}")


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
