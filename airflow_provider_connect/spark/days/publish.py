"""The step from a checked day to its report: commits or confirms the day, then deletes its stage."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from airflow_provider_connect.capabilities.publisher import Confirms, TellsDifferences
from airflow_provider_connect.errors import ConnectError, Failure, OvertakenError, SupersededError
from airflow_provider_connect.job import DayReport
from airflow_provider_connect.publishing import is_reload, is_unchanged
from airflow_provider_connect.sink import LedgerRow, Publish, Publisher
from airflow_provider_connect.spark.context import JobContext, PutShares
from airflow_provider_connect.spark.days.sweep import delete_stage
from airflow_provider_connect.spark.progress import log_line
from airflow_provider_connect.spark.put import begin_publish, put_and_commit
from airflow_provider_connect.spark.states import CheckedDay
from airflow_provider_connect.spark.transform import entry as transforming
from airflow_provider_connect.stage.manifest import Manifest
from airflow_provider_connect.window import Day


@dataclass(frozen=True)
class DayPublisher:
    """Publishes checked days."""

    context: JobContext
    put_shares: PutShares | None

    def publish(self, checked: CheckedDay) -> DayReport:
        """Publish a day into the sink. Raises like :meth:`.Publisher.commit`."""
        manifest = checked.staged.manifest
        started = time.monotonic()
        try:
            with self.context.progress.publishing(manifest.day, manifest.polled.rows_written):
                row = self._commit(checked)
        except (OvertakenError, SupersededError):
            delete_stage(self.context.outlet, manifest)
            raise
        delete_stage(self.context.outlet, manifest)
        return self._make_report(checked, row, time.monotonic() - started)

    def _commit(self, checked: CheckedDay) -> LedgerRow:
        publisher, publish = self.context.outlet.publisher, checked.publish
        if checked.is_confirmation:
            return self._unless_published(publish, lambda: confirm(self.context, publish))
        publish = with_differences(publisher, publish)
        token = begin_publish(publisher, publish)
        return self._unless_published(publish, lambda: put_and_commit(publisher, publish, token, self.put_shares))

    def _unless_published(self, publish: Publish, commit: Callable[[], LedgerRow]) -> LedgerRow:
        """Call ``commit``. If it fails although the ledger shows this intent's publish, return that row."""
        try:
            return commit()
        except ConnectError:
            row = None
            with suppress(ConnectError):
                row = self.context.outlet.publisher.ledger.published(publish.day.date, publish.intent.token)
            if row is None:
                raise
            return row

    def _make_report(self, checked: CheckedDay, row: LedgerRow, seconds: float) -> DayReport:
        staged, manifest = checked.staged, checked.staged.manifest
        day, polled, newest = manifest.day, manifest.polled, staged.newest_row
        figures: dict[str, Any] = {
            "generation": row.generation,
            "rows_written": row.rows,
            "rows_before": newest.rows if newest and is_reload(manifest, newest) else None,
            "publish_seconds": seconds,
            "warnings": checked.warnings,
            **transforming.report_fields(manifest),
        }
        if staged.is_from_earlier_try:
            polled = polled.model_copy(update={"seconds": 0.0, "retries": 0})
        if checked.is_confirmation and is_confirmed(row, manifest):
            return DayReport.for_day(day, "unchanged", polled, **figures, rejects=())
        if row.attempt != manifest.attempt:
            return report_of_published(day, row)
        return DayReport.for_day(
            day,
            "published",
            polled,
            **figures,
            rejected=row.counts.get("rejected", polled.counts.get("rejected", 0)),
            rejects=tuple(file.path for file in polled.rejects) if self.context.outlet.keeps_stage else (),
            counts=extra_counts(polled.counts | row.counts),
            reference=row.reference,
            link=row.link,
        )


def with_differences(publisher: Publisher, publish: Publish) -> Publish:
    """Return a publish with the counts ``added``, ``changed`` and ``vanished``, if the sink can count them.

    Days and spans without a published predecessor are not compared. The counts only inform people, so errors do not
    fail the day.
    """
    manifest = publish.manifest
    is_first = manifest.seen.day != publish.day.date or manifest.seen.span != manifest.span_number
    if not isinstance(publisher, TellsDifferences) or is_first:
        return publish
    try:
        differences = publisher.differences(publish)
    except Exception as error:  # noqa: BLE001  # the day is worth more than its counts
        log_line(f"day {publish.day}: its changed rows could not be counted: {Failure.from_error(error).message}")
        return publish
    if differences is None:
        return publish
    polled = manifest.polled.model_copy(update={"counts": manifest.polled.counts | differences.model_dump()})
    return dataclasses.replace(publish, manifest=manifest.model_copy(update={"polled": polled}))


def can_confirm(context: JobContext, publish: Publish, newest: LedgerRow | None) -> bool:
    """Return whether a confirmation is enough: a lookback day whose answer equals the published one.

    Logs a line if the published answer is unknown.
    """
    may_be_confirmed = publish.day in context.job.lookback and isinstance(context.outlet.publisher, Confirms)
    if not may_be_confirmed or not context.outlet.sink.reloads:
        return False
    if newest is not None and newest.answer is None and publish.answer is not None:
        log_line(
            f"day {publish.day}: published once more, since the ledger has no digest of its published answer. The task "
            "had no lookback_days then, or rows were erased since"
        )
    return is_unchanged(publish, newest)


def confirm(context: JobContext, publish: Publish) -> LedgerRow:
    """Have the sink note that the answer equals the published one. Raises like :meth:`.Publisher.commit`."""
    assert isinstance(context.outlet.publisher, Confirms)
    return context.outlet.publisher.confirm(publish)


def is_confirmed(row: LedgerRow, manifest: Manifest) -> bool:
    """Return whether this attempt's confirmation wrote the ledger row."""
    return (row.generation, row.checks) == (manifest.seen.generation, manifest.seen.checks + 1)


_REPORT_COUNTS = ("rows_read", "duplicates", "rejected", "wire_bytes", "raw_bytes")


def report_of_published(day: Day, row: LedgerRow) -> DayReport:
    """Return the report of a day that an earlier try published."""
    fields: dict[str, Any] = {name: row.counts.get(name, 0) for name in _REPORT_COUNTS}
    return DayReport.for_day(
        day,
        "already_published",
        generation=row.generation,
        rows_written=row.rows,
        digest=row.digest,
        reference=row.reference,
        link=row.link,
        counts=extra_counts(row.counts),
        **fields,
    )


def extra_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts without a report field of their own."""
    return {name: count for name, count in counts.items() if name not in _REPORT_COUNTS}
