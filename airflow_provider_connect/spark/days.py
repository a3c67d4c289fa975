"""The driver's half: it takes days from the first look into the ledger to their ledger row."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from airflow_provider_connect import completeness
from airflow_provider_connect.capabilities.confirming import Confirms
from airflow_provider_connect.capabilities.staging import StagesByExecutors
from airflow_provider_connect.errors import (
    ConnectError,
    DataError,
    Failure,
    OvertakenError,
    QuotaError,
    RowsLostError,
    SupersededError,
)
from airflow_provider_connect.job import DayReport, DayStatus, JobConfig
from airflow_provider_connect.publishing import is_unchanged, seen_in
from airflow_provider_connect.sink import LedgerRow, Publish, Publisher, Sink, StreamKey
from airflow_provider_connect.source import Source
from airflow_provider_connect.spark.counts import Counts
from airflow_provider_connect.spark.day_reports import already_published, describe, other_counts
from airflow_provider_connect.spark.definitions import NOT_COMPARED, Admission, DefinitionGuard
from airflow_provider_connect.spark.differences import with_differences
from airflow_provider_connect.spark.freezer import Freezer, Known
from airflow_provider_connect.spark.progress import Progress, say
from airflow_provider_connect.spark.transform import begin as transforming
from airflow_provider_connect.spark.waiting import Waiting
from airflow_provider_connect.stage import temporary as temporary_stage
from airflow_provider_connect.stage.erasing import EraseList
from airflow_provider_connect.stage.manifest import Manifest, StagedFile
from airflow_provider_connect.stage.plans import refuse
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day, groups

PutShares = Callable[[Any, list[tuple[StagedFile, ...]]], list[Any]]


@dataclass(frozen=True)
class _Unpolled:
    """A day to poll.

    :param newest: the ledger's newest row before the poll.
    """

    newest: LedgerRow | None


@dataclass(frozen=True)
class _Frozen:
    """A day in the stage.

    :param newest: the ledger's newest row before the publish.
    :param is_kept: whether an earlier try froze it.
    :param admission: the definition that it is published with.
    """

    manifest: Manifest
    newest: LedgerRow | None
    is_kept: bool = False
    admission: Admission = NOT_COMPARED


_Found = DayReport | _Unpolled | _Frozen | Failure


@dataclass(frozen=True)
class Days:
    """Moves days from a source into a sink.

    :param keeps_stage: whether published files stay in place, because the stage belongs to the sink.
    :param put_shares: runs the sink's ``put`` over shares of a day on the executors; None if the sink has no ``put``.
    :param task_lives: tells whether the Airflow task that wants these days is known to be alive.
    :param counts: the vendor's own, which answers are compared with; None to compare nothing.
    :param guard: compares the stream's definition with the ledger's; None to compare nothing.
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
    counts: Counts | None = None
    guard: DefinitionGuard | None = None

    def move(self, days: Sequence[Day]) -> list[DayReport]:
        """Bring days into the sink: the days of one plan are polled together, and each is published alone.

        An error fails the days it concerns, and no others.
        """
        reports = []
        with Waiting(self.root) as waiting:
            found = self._freeze(days, self.job.attempt, waiting)
            failures = [each for each in found.values() if isinstance(each, Failure)]
            for day, each in found.items():
                if isinstance(each, _Frozen):
                    waiting.end(each.manifest.attempt)
                # What one day was told holds for all: no other of them asks the source again.
                report = self._move(day, each, may_poll_again=not any(failure.forbids_more for failure in failures))
                reports.append(report := report.model_copy(update={"lookback": self._is_lookback(day)}))
                failures += [report.failure] if report.failure is not None else []
        return reports

    def _move(self, day: Day, found: _Found, *, may_poll_again: bool) -> DayReport:
        try:
            report = self._publish_newest(day, found, may_poll_again=may_poll_again)
        except SupersededError as error:
            report = DayReport.of(day, "superseded", failure=Failure.of(error))
        except QuotaError as error:
            report = DayReport.of(day, "not_started", failure=Failure.of(error), retries=self.progress.retries(day))
        except OvertakenError as error:
            # Who has published it meanwhile has looked at the source, too, as recently as the lookback wanted to.
            status: DayStatus = "overtaken" if self._is_lookback(day) else "failed"
            report = DayReport.of(day, status, failure=Failure.of(error), retries=self.progress.retries(day))
        except Exception as error:  # noqa: BLE001  # the report carries every error, by type, to Airflow
            report = DayReport.of(day, "failed", failure=Failure.of(error), retries=self.progress.retries(day))
        if report.status != "not_started":
            self.progress.end(day, describe(report, with_reason=self._shows_reasons or report.status != "failed"))
        return report

    def _is_lookback(self, day: Day) -> bool:
        return day in self.job.lookback

    @property
    def _shows_reasons(self) -> bool:
        """Whether the driver says why a day failed: for a single local day the task says it in the next line."""
        return len(self.job.all_days) > 1 or self.job.is_remote

    def _publish_newest(self, day: Day, found: _Found, *, may_poll_again: bool) -> DayReport:
        """Publish a day; poll it again for each other intent that published it meanwhile, while our task lives.

        A driver without its task does not poll again: nobody wants its answer.

        :param may_poll_again: false once the source has said stop.
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
                may_poll_again &= error.may_poll_again and error.by not in overtaken_by
                # Who has published a day of the lookback has looked at the source; who has erased has not.
                may_poll_again &= error.is_erase or not self._is_lookback(day)
                if not may_poll_again or not self.task_lives():
                    raise
                overtaken_by.add(error.by)
                say(f"day {day}: {error}; polling it again")
            found = self._freeze([day], f"{self.job.attempt}{'r' * len(overtaken_by)}")[day]

    def _freeze(self, days: Sequence[Day], attempt: str, waiting: Waiting | None = None) -> dict[Day, _Found]:
        """Return for each day its report if it is already published, else its frozen state or its failure.

        :param waiting: is given the frozen days.
        """
        try:
            erased = self.publisher.ledger.erased().accepted(self.freezer.shaping.column_digest, self.sink.target)
        except Exception as error:  # noqa: BLE001  # the report carries it to Airflow, by type
            return dict.fromkeys(days, Failure.of(error))
        found = {day: self._state_of(day, erased) for day in days}
        if all(isinstance(each, DayReport | Failure) for each in found.values()):
            return found
        try:
            admission = self.guard.admit() if self.guard is not None else NOT_COMPARED
        except Exception as error:  # noqa: BLE001
            return {day: each if isinstance(each, DayReport) else Failure.of(error) for day, each in found.items()}
        _let_wait(found, waiting)
        newest, stop = {day: each.newest for day, each in found.items() if isinstance(each, _Unpolled)}, False
        for group in groups(list(newest), len(days)):
            if stop:
                found |= {day: DayReport.of(day, "not_started") for day in group}
                continue
            try:
                known = Known({day: newest[day] for day in group}, erased, admission.restart)
                polled = self.freezer.poll(known, attempt)
            except RowsLostError as error:
                polled = dict.fromkeys(group, self._raise_alarm(newest[group[0]], error))
            except Exception as error:  # noqa: BLE001  # the report carries it to Airflow, by type
                polled = dict.fromkeys(group, Failure.of(error))
            for day, each in polled.items():
                found[day] = each if isinstance(each, Failure) else _Frozen(each, newest[day])
                stop |= isinstance(each, Failure) and each.forbids_more
            _let_wait(found, waiting)
        return {
            day: replace(each, admission=admission) if isinstance(each, _Frozen) else each
            for day, each in found.items()
        }

    def _raise_alarm(self, newest: LedgerRow | None, error: RowsLostError) -> Failure:
        """Keep an alarm, and return its failure; if the ledger cannot keep it, why: the next try raises it again."""
        try:
            if self.guard is not None and newest is not None and newest.span is not None:
                self.guard.raise_alarm(newest.span, error)
        except Exception as unkept:  # noqa: BLE001  # the report carries it to Airflow, by type
            return Failure.of(unkept)
        return Failure.of(error)

    def _state_of(self, day: Day, erased: EraseList) -> _Found:
        """Return what the ledger, and then the stage, know of a day."""
        try:
            ledger = self.publisher.ledger
            if (row := ledger.published(day.date, self.job.intent.token)) is not None:
                self._forget_leftovers(day)
                return already_published(day, row)
            newest = ledger.newest(day.date, self.source.kind)
            kept = self.freezer.kept(day, seen_in(newest, erased.version))
            return _Unpolled(newest) if kept is None else _Frozen(kept, newest, is_kept=True)
        except Exception as error:  # noqa: BLE001
            return Failure.of(error)

    def _publish_frozen(self, frozen: _Frozen) -> DayReport:
        manifest, day, polled = frozen.manifest, frozen.manifest.day, frozen.manifest.polled
        publish = Publish(
            key=self.key,
            day=day,
            intent=self.job.intent,
            manifest=manifest,
            schema=self.schema,
            stage=self.root.url,
            kind=self.source.kind,
            labels=self.job.labels,
            on_empty=completeness.emptiness(manifest.answered, self.job.on_empty),
            answer=self.freezer.answer(manifest),
            definition=frozen.admission.digest,
            definition_seen=frozen.admission.seen,
        )
        confirms = self._confirms(publish, frozen.newest)
        warnings = self._require_whole(manifest, frozen.newest, confirms=confirms)
        started = time.monotonic()
        try:
            with self.progress.publishing(day, polled.rows_written):
                row = (self._confirm if confirms else self._publish)(publish)
        except (OvertakenError, SupersededError):
            self._forget(manifest)
            raise
        self._forget(manifest)
        figures = {
            "generation": row.generation,
            "rows_written": row.rows,
            "rows_before": frozen.newest.rows if frozen.newest and frozen.newest.day == day.date else None,
            "publish_seconds": time.monotonic() - started,
            **transforming.figures(manifest),
        }
        if frozen.is_kept:
            polled = polled.model_copy(update={"seconds": 0.0, "retries": 0})
        if confirms and (row.generation, row.checks) == (manifest.seen.generation, manifest.seen.checks + 1):
            return DayReport.of(day, "unchanged", polled, **figures, rejects=(), warnings=warnings)
        if row.attempt != manifest.attempt:
            return already_published(day, row)
        return DayReport.of(
            day,
            "published",
            polled,
            **figures,
            rejected=row.counts.get("rejected", polled.counts.get("rejected", 0)),
            rejects=tuple(file.path for file in polled.rejects) if self.keeps_stage else (),
            counts=other_counts(polled.counts | row.counts),
            reference=row.reference,
            link=row.link,
            warnings=warnings,
        )

    def _confirms(self, publish: Publish, newest: LedgerRow | None) -> bool:
        """Whether to confirm a day instead of publishing it. A clear and a backfill load it whatever it holds."""
        is_free = self._is_lookback(publish.day) and isinstance(self.publisher, Confirms)
        return is_free and self.sink.reloads and is_unchanged(publish, newest)

    def _require_whole(self, manifest: Manifest, newest: LedgerRow | None, *, confirms: bool) -> tuple[str, ...]:
        """Compare an answer with what is published; return what looks wrong and is to be published all the same.

        :param confirms: whether it is the published one. That has passed the other rules, or a person has let it pass;
            the vendor may count more by now.
        :raises DataError: with both figures.
        """
        found = [] if confirms else self._findings(manifest, newest)
        if self.counts is not None and not any(finding.is_fatal for finding in found):
            rows = completeness.sent(manifest.answered)  # the vendor counts those whom we leave out, too
            counted = self.counts.finding(manifest.day, rows)
            found += [counted] if counted is not None else []
        fatal = [finding.text for finding in found if finding.is_fatal]
        if fatal:
            refuse(self.root, manifest)
            self._forget(manifest)
            raise DataError("; ".join(fatal))
        return tuple(finding.text for finding in found)

    def _findings(self, manifest: Manifest, newest: LedgerRow | None) -> list[completeness.Finding]:
        date, ledger, job = manifest.day.date, self.publisher.ledger, self.job
        if self.source.kind == "increment" and newest is not None and newest.day != date:
            newest = None  # how much an earlier day's increment brought says nothing of this one
        if newest is not None and newest.day > date:
            return []  # an earlier snapshot does not touch the later one that is published
        replaced = newest if self.sink.replaces(self.source.kind) else None
        return completeness.findings(
            date,
            manifest.answered,
            result=None if manifest.transformed is None else manifest.polled,
            on_empty=job.on_empty,
            rules=job.rules,
            replaced=replaced,
            earlier=replaced if newest is not None else self._snapshot_before(date),
            has_rows=lambda: completeness.has_rows(ledger),
            before=ledger.between(*bounds.days_before(date)) if (bounds := job.rules.row_bounds) is not None else (),
        )

    def _snapshot_before(self, date: dt.date) -> LedgerRow | None:
        """Return the last snapshot before a day; None of a source without snapshots, or if nothing is compared."""
        kind = self.source.kind
        if kind != "snapshot" or not self.sink.replaces(kind) or self.job.rules.on_shrink == "accept":
            return None
        ledger = self.publisher.ledger
        last = max((day for day in ledger.days() if day < date), default=None)
        return None if last is None else ledger.row(last)

    def _publish(self, publish: Publish) -> LedgerRow:
        publish = with_differences(self.publisher, publish)
        staging = self.publisher if isinstance(self.publisher, StagesByExecutors) else None
        token = None if staging is None else staging.begin(publish)
        try:
            receipts = []
            if staging is not None and self.put_shares is not None:
                receipts = self.put_shares(token, staging.shares(publish.manifest.polled.files))
            return self.publisher.commit(publish, token, receipts)
        except BaseException as error:
            if staging is not None:
                _abort(staging, publish, token)
            if not isinstance(error, ConnectError) or (row := self._published_meanwhile(publish)) is None:
                raise
            return row

    def _confirm(self, publish: Publish) -> LedgerRow:
        assert isinstance(self.publisher, Confirms)
        try:
            return self.publisher.confirm(publish)
        except ConnectError:
            row = self._published_meanwhile(publish)
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
        """Delete the staged files of drivers that published the day and died before they cleaned up."""
        if not self.keeps_stage:
            for leftover in self.freezer.leftovers(day):
                self._forget(leftover)

    def _forget(self, manifest: Manifest) -> None:
        """Delete a stage that nobody will publish any more, unless the sink keeps it.

        A failure to delete does not fail the day: a later sweep tries again.
        """
        if self.keeps_stage:
            return
        try:
            temporary_stage.forget(self.root, manifest)
        except ConnectError as error:
            say(f"day {manifest.day}: staged files could not be deleted: {error}")


def _abort(staging: StagesByExecutors, publish: Publish, token: Any) -> None:
    """Let the sink clean up; its failure must not hide why the publish failed."""
    try:
        staging.abort(publish, token)
    except Exception as error:  # noqa: BLE001
        say(f"day {publish.day}: the sink could not clean up after the failed publish: {Failure.of(error).message}")


def _let_wait(found: Mapping[Day, _Found], waiting: Waiting | None) -> None:
    if waiting is not None:
        waiting.begin(each.manifest.attempt for each in found.values() if isinstance(each, _Frozen))
