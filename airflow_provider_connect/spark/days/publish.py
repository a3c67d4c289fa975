"""The step from a checked day to its report: sent, committed, or confirmed; then its stage is forgotten."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow_provider_connect.errors import ConnectError, OvertakenError, SupersededError
from airflow_provider_connect.job import DayReport
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.spark.capabilities.confirming import confirm, is_confirmed
from airflow_provider_connect.spark.capabilities.differences import with_differences
from airflow_provider_connect.spark.context import Context, PutShares
from airflow_provider_connect.spark.days.reports import already_published, other_counts
from airflow_provider_connect.spark.days.sweep import forget
from airflow_provider_connect.spark.put import begin, put_and_commit
from airflow_provider_connect.spark.states import CheckedDay
from airflow_provider_connect.spark.transform import begin as transforming


@dataclass(frozen=True)
class DayPublisher:
    """Publishes checked days."""

    context: Context
    put_shares: PutShares | None

    def publish(self, checked: CheckedDay) -> DayReport:
        """Bring a day into the sink.

        :raises ConnectError: as a commit.
        """
        manifest = checked.frozen.manifest
        started = time.monotonic()
        try:
            with self.context.progress.publishing(manifest.day, manifest.polled.rows_written):
                row = self._row(checked)
        except (OvertakenError, SupersededError):
            forget(self.context.outlet, manifest)
            raise
        forget(self.context.outlet, manifest)
        return self._report(checked, row, time.monotonic() - started)

    def _row(self, checked: CheckedDay) -> LedgerRow:
        publisher, publish = self.context.outlet.publisher, checked.publish
        if checked.confirms:
            return self._unless_published(publish, lambda: confirm(self.context, publish))
        publish = with_differences(publisher, publish)
        token = begin(publisher, publish)
        return self._unless_published(publish, lambda: put_and_commit(publisher, publish, token, self.put_shares))

    def _unless_published(self, publish: Publish, commit: Callable[[], LedgerRow]) -> LedgerRow:
        """Commit a day; after an error return the row of another try of this intent that has published it meanwhile."""
        try:
            return commit()
        except ConnectError:
            if (row := self._published_meanwhile(publish)) is None:
                raise
            return row

    def _published_meanwhile(self, publish: Publish) -> LedgerRow | None:
        try:
            return self.context.outlet.publisher.ledger.published(publish.day.date, publish.intent.token)
        except ConnectError:
            return None

    def _report(self, checked: CheckedDay, row: LedgerRow, seconds: float) -> DayReport:
        frozen, manifest = checked.frozen, checked.frozen.manifest
        day, polled, newest = manifest.day, manifest.polled, frozen.newest
        figures: dict[str, Any] = {
            "generation": row.generation,
            "rows_written": row.rows,
            "rows_before": newest.rows if newest and newest.day == day.date else None,
            "publish_seconds": seconds,
            "warnings": checked.warnings,
            **transforming.figures(manifest),
        }
        if frozen.is_kept:
            polled = polled.model_copy(update={"seconds": 0.0, "retries": 0})
        if checked.confirms and is_confirmed(row, manifest):
            return DayReport.of(day, "unchanged", polled, **figures, rejects=())
        if row.attempt != manifest.attempt:
            return already_published(day, row)
        return DayReport.of(
            day,
            "published",
            polled,
            **figures,
            rejected=row.counts.get("rejected", polled.counts.get("rejected", 0)),
            rejects=tuple(file.path for file in polled.rejects) if self.context.outlet.keeps_stage else (),
            counts=other_counts(polled.counts | row.counts),
            reference=row.reference,
            link=row.link,
        )
