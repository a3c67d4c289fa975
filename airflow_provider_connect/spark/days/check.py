"""The step before a publish: an answer is held against what is published, and against the vendor's own count."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from airflow_provider_connect import completeness
from airflow_provider_connect.errors import DataError
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.spark.capabilities.counts import Counts
from airflow_provider_connect.spark.context import Context, answer_of
from airflow_provider_connect.spark.days.publish import confirms
from airflow_provider_connect.spark.days.sweep import forget
from airflow_provider_connect.spark.states import CheckedDay, FrozenDay
from airflow_provider_connect.stage.manifest import Manifest
from airflow_provider_connect.stage.plans import refuse


@dataclass(frozen=True)
class Checker:
    """Checks frozen days.

    :param counts: the vendor's own, which answers are compared with; None to compare nothing.
    """

    context: Context
    counts: Counts | None

    def check(self, frozen: FrozenDay) -> CheckedDay:
        """Compare a day with what is published.

        :raises DataError: it looks wrong, with both figures.
        """
        publish = self._publish(frozen)
        is_confirmed = confirms(self.context, publish, frozen.newest)
        # The published answer has passed the rules, or a person has let it pass. The vendor may count more by now.
        findings = [] if is_confirmed else self._findings(frozen.manifest, frozen.newest)
        if self.counts is not None and not any(finding.is_fatal for finding in findings):
            rows = completeness.sent(frozen.manifest.answered)  # the vendor counts those whom we leave out, too
            counted = self.counts.finding(frozen.manifest.day, rows)
            findings += [counted] if counted is not None else []
        if fatal := [finding.text for finding in findings if finding.is_fatal]:
            refuse(self.context.outlet.root, frozen.manifest)
            forget(self.context.outlet, frozen.manifest)
            raise DataError("; ".join(fatal))
        return CheckedDay(frozen, publish, is_confirmed, tuple(finding.text for finding in findings))

    def _publish(self, frozen: FrozenDay) -> Publish:
        job, outlet, manifest = self.context.job, self.context.outlet, frozen.manifest
        return Publish(
            key=outlet.key,
            day=manifest.day,
            intent=job.intent,
            manifest=manifest,
            schema=outlet.schema,
            stage=outlet.root.url,
            kind=self.context.intake.source.kind,
            labels=job.labels,
            on_empty=completeness.emptiness(manifest.answered, job.on_empty),
            answer=answer_of(self.context, manifest),
            definition=frozen.admission.digest,
            definition_seen=frozen.admission.seen,
        )

    def _findings(self, manifest: Manifest, newest: LedgerRow | None) -> list[completeness.Finding]:
        date, ledger, job = manifest.day.date, self.context.outlet.publisher.ledger, self.context.job
        kind = self.context.intake.source.kind
        if kind == "increment" and newest is not None and newest.day != date:
            newest = None  # how much an earlier day's increment brought says nothing of this one
        if newest is not None and newest.day > date:
            return []  # an earlier snapshot does not touch the later one that is published
        replaced = newest if self.context.outlet.sink.replaces(kind) else None
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
        kind = self.context.intake.source.kind
        replaces = kind == "snapshot" and self.context.outlet.sink.replaces(kind)
        if not replaces or self.context.job.rules.on_shrink == "accept":
            return None
        ledger = self.context.outlet.publisher.ledger
        last = max((day for day in ledger.days() if day < date), default=None)
        return None if last is None else ledger.row(last)
