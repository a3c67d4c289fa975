"""Compares a stream's definition with the ledger's before any poll, and keeps alarms about lost rows."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from airflow_provider_connect.capabilities.publisher import KeepsNotes
from airflow_provider_connect.capabilities.source import ReloadsWhenLost
from airflow_provider_connect.definition import (
    Comparison,
    add_key,
    compare_definitions,
    days_with_other_rows,
    legacy_definition,
)
from airflow_provider_connect.errors import ConfigError, RowsLostError
from airflow_provider_connect.job import JobConfig
from airflow_provider_connect.ledger import task_of
from airflow_provider_connect.sink import DefinitionInForce, Intent, Publisher, Sink
from airflow_provider_connect.source import Source
from airflow_provider_connect.spark.context import Intake, Outlet
from airflow_provider_connect.spark.progress import log_line
from airflow_provider_connect.spark.states import NOT_COMPARED, Admission
from airflow_provider_connect.stage.definition import StreamDefinition, digest_of
from airflow_provider_connect.stage.notes import (
    Acceptance,
    Alarm,
    LedgerNote,
    Resumption,
    alarm_note,
    definition_note,
    definitions_by_digest,
    last_answer,
    newest_alarm,
    notes_of_kind,
    resumption_note,
)
from airflow_provider_connect.stage.spans import Restart, Span
from airflow_provider_connect.window import DaySet, reloadable_days

SAFE_REMEDIES = {
    True: "Set it as before, or give this task a target of its own",
    False: "Give this task a target of its own, or let one task load both",
}
"""Remedies that do not mix rows of two definitions. The key is True if this task published the newest day."""


@dataclass
class DefinitionGuard:
    """Decides whether a job's days may be polled with the stream's present definition. Thread-safe.

    :param earlier_definition: definition of days older than the ledger's definitions, if its key is known to differ.
    """

    definition: StreamDefinition
    source: Source
    sink: Sink
    publisher: Publisher
    intent: Intent
    earlier_definition: StreamDefinition | None = None
    warnings: list[str] = field(default_factory=list, init=False)
    _admitted_digests: set[str] = field(default_factory=set, init=False)
    _is_definition_kept: bool = field(default=False, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    @classmethod
    def of(cls, job: JobConfig, intake: Intake, outlet: Outlet) -> DefinitionGuard:
        """Create the guard of a job."""
        metadata = intake.source_schema.metadata
        definition = add_key(job.definition, metadata)
        earlier_definition = legacy_definition(definition, metadata)
        return cls(definition, intake.source, outlet.sink, outlet.publisher, job.intent, earlier_definition)

    def command(self, name: str, options: str = "") -> str:
        """Return an ``airflow connect`` command for this task. For a mapped task, it explains which task to name."""
        dag_id, _, task = self.intent.task.partition("/")
        if "[" not in task:
            return f"airflow connect {name} {dag_id} {task}{options}"
        return (
            f"airflow connect {name} DAG TASK{options}, where DAG TASK is a task that is not mapped, with the source "
            f"and the sink of {dag_id}.{task}"
        )

    def admit(self) -> Admission:
        """Compare the definition with the ledger's current one, and keep it in the ledger as a note.

        :raises ConfigError: a person must accept the difference, or answer an alarm.
        """
        if not isinstance(self.publisher, KeepsNotes):
            return NOT_COMPARED
        with self._lock:
            ledger, digest = self.publisher.ledger, self.definition.digest
            in_force = ledger.definition_in_force()
            is_known = in_force is not None and in_force.digest in (digest, *self._admitted_digests)
            follows = self.source.kind == "increment"
            notes = ledger.notes() if follows or not is_known else ()
            restart = self._restart(notes) if follows else None
            days_before = ledger.days() if in_force is None else None
            if days_before is not None:
                self._compare_with_days_before(days_before)
            elif in_force is not None and not is_known:
                self._compare(in_force, notes)
            if (in_force is None or in_force.digest != digest) and not self._is_definition_kept:
                self._keep_definition(notes)
            self._admitted_digests.add(digest if in_force is None else in_force.digest)
            is_first_load = days_before is not None and not len(days_before)
            return Admission(digest, in_force and in_force.digest, restart, is_first_load)

    def raise_alarm(self, span: Span, error: RowsLostError) -> None:
        """Keep an alarm about lost rows in the ledger."""
        alarm = Alarm(number=span.number, position=span.to, reason=str(error))
        self._write_note(alarm_note(alarm, self.intent.run))

    def _write_note(self, note: LedgerNote) -> None:
        if isinstance(self.publisher, KeepsNotes):
            self.publisher.note(note)

    def _restart(self, notes: Sequence[LedgerNote]) -> Restart | None:
        alarm = newest_alarm(notes)
        if alarm is None:
            return None
        answer = last_answer(notes, alarm)
        if answer is not None:
            return Restart(alarm.number, alarm.position, answer.position)
        if self.source.capability(ReloadsWhenLost) is None:
            raise ConfigError(
                f"{self.source.stream_key}: an alarm about lost rows stands since increment {alarm.number}: "
                f"{alarm.reason}. To load all rows again, set snapshot_mode='when_needed'. To go on without the lost "
                f"rows, run: {self.command('resume', ' --from now')}"
            )
        self._write_note(resumption_note(Resumption(alarm=alarm.id), self.intent.run))
        return Restart(alarm.number, alarm.position, None)

    def _compare_with_days_before(self, days: DaySet) -> None:
        """Compare the key with days older than the ledger's definitions. Warns that their options are unknown."""
        if len(days):
            if self.earlier_definition is not None:
                key = self._comparison(self.earlier_definition, is_same_task=True)
                self._require_admissible(key, SAFE_REMEDIES[True], is_accepted=False)
            self._warn(
                f"days published before the ledger kept definitions: {len(days):,}. Their options cannot be compared"
            )

    def _compare(self, in_force: DefinitionInForce, notes: Sequence[LedgerNote]) -> None:
        old_definition = definitions_by_digest(notes).get(in_force.digest)
        if old_definition is None:
            raise ConfigError(
                f"{self.source.stream_key}: the ledger names the definition {in_force.digest}, but its note is "
                "missing. Restore the notes, or load into a new target"
            )
        is_same_task = in_force.task == self.intent.task_digest
        comparison = self._comparison(old_definition, is_same_task=is_same_task)
        is_accepted = self._is_accepted(in_force.digest, notes)
        remedies = f"The target's days were loaded by {_last_run(notes, in_force)}. {SAFE_REMEDIES[is_same_task]}"
        self._require_admissible(comparison, remedies, is_accepted=is_accepted)
        changes = [*comparison.notices, *(comparison.acceptable if is_accepted else ())]
        if changes:
            self._warn(f"{'; '.join(changes)}. {self._loaded_otherwise(notes)}")
        if comparison.access:
            self._warn(
                f"{self.source.stream_key}: of the connection, {'; '.join(comparison.access)}. If this is another "
                "system, give the task a target of its own"
            )

    def _comparison(self, old_definition: StreamDefinition, *, is_same_task: bool) -> Comparison:
        by_key = self.sink.identifies_by_key(self.source.kind)
        return compare_definitions(old_definition, self.definition, is_same_task=is_same_task, identifies_by_key=by_key)

    def _is_accepted(self, published_digest: str, notes: Sequence[LedgerNote]) -> bool:
        acceptance = Acceptance(published=published_digest, accepted=self.definition.options_digest)
        return any(Acceptance.model_validate(note.content) == acceptance for note in notes_of_kind(notes, "acceptance"))

    def _require_admissible(self, comparison: Comparison, remedies: str, *, is_accepted: bool) -> None:
        subject = f"{self.source.stream_key} into this target"
        if comparison.refusals:
            raise ConfigError(f"{subject}: {'; '.join(comparison.refusals)}")
        if comparison.acceptable and not is_accepted:
            raise ConfigError(
                f"{subject}: {'; '.join(comparison.acceptable)}. {remedies}. If the change is intended and days may "
                f"differ, run: {self.command('accept')}"
            )

    def _loaded_otherwise(self, notes: Sequence[LedgerNote]) -> str:
        ledger = self.publisher.ledger
        days = reloadable_days(ledger.days(), replaces_whole=self.sink.replaces_whole(self.source.kind))
        if not len(days):
            return "No day is published yet"
        rows = ledger.between(min(days), max(days))
        changed_days = days_with_other_rows(rows, definitions_by_digest(notes), self.definition)
        plan = self.command("plan", f" --changed --days {min(days)}..{max(days)}")
        return (
            f"Loaded otherwise: {len(changed_days):,} of {len(days):,} published days. To list them and load "
            f"them again, run: {plan}"
        )

    def _keep_definition(self, notes: Sequence[LedgerNote]) -> None:
        if self.definition.digest not in definitions_by_digest(notes):
            self._write_note(definition_note(self.definition, self.intent.run))
        self._is_definition_kept = True

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)
            log_line(f"warning: {text}")


def _last_run(notes: Collection[LedgerNote], in_force: DefinitionInForce) -> str:
    runs = (note.run for note in notes_of_kind(notes, "definition"))
    return next((run for run in runs if digest_of(task_of(run)) == in_force.task), "another task")
