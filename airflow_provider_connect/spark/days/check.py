"""The step before a publish: compares an answer with the published one and the vendor's count."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from airflow_provider_connect import completeness
from airflow_provider_connect.errors import DataError
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.spark.capabilities.counts import DayCounter
from airflow_provider_connect.spark.context import JobContext, answer_digest
from airflow_provider_connect.spark.days.publish import can_confirm
from airflow_provider_connect.spark.days.sweep import delete_stage
from airflow_provider_connect.spark.states import CheckedDay, StagedDay
from airflow_provider_connect.stage.manifest import Manifest
from airflow_provider_connect.stage.poll_plans import discard_staged_answer


@dataclass(frozen=True)
class DayChecker:
    """Checks whether staged days may be published."""

    context: JobContext
    counter: DayCounter | None

    def check(self, staged: StagedDay) -> CheckedDay:
        """Compare a staged day with the published one and the vendor's count.

        :raises DataError: the day looks incomplete. The message has the compared figures.
        """
        publish = self._make_publish(staged)
        is_confirmed = can_confirm(self.context, publish, staged.newest_row)
        # The published answer has passed the rules, or a person has let it pass. The vendor may count more by now.
        findings = [] if is_confirmed else self._findings(staged.manifest, staged.newest_row)
        if self.counter is not None and not any(finding.is_fatal for finding in findings):
            rows = completeness.rows_from_vendor(
                staged.manifest.source_answer
            )  # the vendor counts those whom we leave out, too
            count_finding = self.counter.compare(staged.manifest.day, rows)
            findings += [count_finding] if count_finding is not None else []
        if fatal := [finding.text for finding in findings if finding.is_fatal]:
            discard_staged_answer(self.context.outlet.root, staged.manifest)
            delete_stage(self.context.outlet, staged.manifest)
            raise DataError("; ".join(fatal))
        return CheckedDay(staged, publish, is_confirmed, tuple(finding.text for finding in findings))

    def _make_publish(self, staged: StagedDay) -> Publish:
        job, outlet, manifest = self.context.job, self.context.outlet, staged.manifest
        return Publish(
            key=outlet.key,
            day=manifest.day,
            intent=job.intent,
            manifest=manifest,
            schema=outlet.published_schema,
            stage=outlet.root.url,
            kind=self.context.intake.source.kind,
            labels=job.labels,
            on_empty=completeness.effective_on_empty(manifest.source_answer, job.on_empty),
            answer=answer_digest(self.context, manifest),
            definition=staged.admission.digest,
            definition_seen=staged.admission.definition_in_force,
        )

    def _findings(self, manifest: Manifest, newest_row: LedgerRow | None) -> list[completeness.Finding]:
        date, ledger, job = manifest.day.date, self.context.outlet.publisher.ledger, self.context.job
        kind = self.context.intake.source.kind
        if kind == "increment" and newest_row is not None and newest_row.day != date:
            newest_row = None  # how much an earlier day's increment brought says nothing of this one
        if newest_row is not None and newest_row.day > date:
            return []  # an earlier snapshot does not touch the later one that is published
        replaced = newest_row if self.context.outlet.sink.replaces(kind) else None
        return completeness.findings(
            date,
            manifest.source_answer,
            result=None if manifest.transformed is None else manifest.polled,
            on_empty=job.on_empty,
            rules=job.rules,
            replaced=replaced,
            earlier=replaced if newest_row is not None else self._snapshot_before(date),
            has_rows=lambda: completeness.has_rows(ledger),
            earlier_rows=ledger.between(*bounds.days_before(date))
            if (bounds := job.rules.row_bounds) is not None
            else (),
        )

    def _snapshot_before(self, date: dt.date) -> LedgerRow | None:
        """Return the last snapshot before a day, or None if the rules compare none."""
        kind = self.context.intake.source.kind
        replaces = kind == "snapshot" and self.context.outlet.sink.replaces(kind)
        if not replaces or self.context.job.rules.on_shrink == "accept":
            return None
        ledger = self.context.outlet.publisher.ledger
        last = max((day for day in ledger.days() if day < date), default=None)
        return None if last is None else ledger.row(last)
