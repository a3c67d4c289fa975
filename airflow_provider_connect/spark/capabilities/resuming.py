"""Resumes the plan of an earlier try: its complete partitions are reused, and only the missing ones are polled.

Both tries must have the same intent, source, target and schema, and follow the same publish and erase list. A clear, a
backfill and a reload have another intent, so they never resume.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.capabilities.poller import Resumes
from airflow_provider_connect.registry import resumes
from airflow_provider_connect.source import InputPartition, Poller
from airflow_provider_connect.spark.attempts import EarlierAttempts, KeepAlive
from airflow_provider_connect.spark.poll import PollOutcome
from airflow_provider_connect.spark.progress import log_line
from airflow_provider_connect.spark.source_checks import plan_days
from airflow_provider_connect.spark.states import DaysToPoll
from airflow_provider_connect.stage.manifest import SeenPublish, attempt_folder
from airflow_provider_connect.stage.poll_plans import (
    PLAN_NAME,
    PollPlan,
    complete_parts,
    plan_file,
    take_over_parts,
    write_part_record,
)
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.temporary import DEAD_AFTER
from airflow_provider_connect.window import Day

MAX_SILENCE = DEAD_AFTER / 2
"""Longest time since the last sign of life of a try that is resumed. A sweep may delete an older try's files."""


@dataclass(frozen=True)
class PlanResumer:
    """Plans a job's days, and resumes plans of earlier tries."""

    poller: Poller
    earlier_attempts: EarlierAttempts
    plans: dict[Day, PollPlan] = field(default_factory=dict, init=False)

    @property
    def root(self) -> Folder:
        """The stage's folder, which all attempts share."""
        return self.earlier_attempts.root

    def plan(self, days: DaysToPoll, *, is_split: bool) -> list[InputPartition]:
        """Return the partitions of days: an earlier try's if its plan can be resumed, else new ones.

        :param is_split: the day needs other partitions, because it exceeded its deadline.
        :raises ConnectError: the source cannot plan the days, or plans other days.
        """
        day, *other_days = days.days
        attempt, seen_publish = days.attempt_of(day), days.seen_publish(day)
        self.plans.pop(day, None)
        if other_days or is_split or not isinstance(self.poller, Resumes):
            return plan_days(self.poller, days.days)
        plan = self._adopt_plan(day, attempt, seen_publish)
        if plan is None:
            started_at = dt.datetime.now(dt.UTC)
            parts = plan_days(self.poller, days.days)
            if len(parts) < 2:  # the only one is all or nothing
                return parts
            plan = PollPlan(
                day=day,
                attempt=attempt,
                identity=self.earlier_attempts.fingerprint,
                seen=seen_publish,
                begun=started_at,
                resumes=resumes(self.poller),
                parts=_partition_documents(parts),
            )
        plan.write(self.root)
        self.plans[day] = plan
        return _partitions(plan)

    def started_at(self, day: Day) -> dt.datetime | None:
        """Return when the poll of a day's reused partitions began, or None."""
        plan = self.plans.get(day)
        return plan.begun if plan is not None and plan.taken else None

    def reused_outcomes(self, days: Sequence[Day]) -> dict[int, PollOutcome]:
        """Return the reused outcomes of a plan, by partition index."""
        plan = self.plans.get(days[0])
        if plan is None or len(days) > 1:
            return {}
        return {index: PollOutcome(polled={plan.day.date: polled}) for index, polled in plan.taken.items()}

    def note_partition(self, part: InputPartition, outcome: PollOutcome) -> None:
        """Record a complete partition for later tries."""
        plan = self.plans.get(part.days[0])
        if plan is not None and plan.resumes and outcome.polled is not None:
            write_part_record(self.root, plan, part.index, outcome.polled[plan.day.date])

    def _adopt_plan(self, day: Day, attempt: str, seen_publish: SeenPublish) -> PollPlan | None:
        """Return the last try's plan under this attempt, or None if the day must be polled from the beginning."""
        plan = self._last_plan(day)
        if plan is None:
            return None
        subject = f"day {day}: an earlier try was reading it in {len(plan.parts):,} partitions"
        if (plan.identity, plan.seen) != (self.earlier_attempts.fingerprint, seen_publish):
            reason = "options or columns have changed, or rows were published or erased meanwhile"
            log_line(f"{subject}, and all of them are read again: {reason}")
            return None
        if not plan.resumes or not resumes(self.poller):
            reason = self.poller.begins_anew if isinstance(self.poller, Resumes) else ""
            log_line(f"{subject}, and all of them are read again: {reason}")
            return None
        entries = self.root.files(attempt_folder(plan.attempt))
        last_sign = max((entry.modified for entry in entries), default=None)
        if last_sign is None or self.root.storage_time() - last_sign > MAX_SILENCE:
            log_line(f"{subject}, and all of them are read again: its last sign of life is too old")
            return None
        if _partition_documents(self.poller.resume(day, _partitions(plan))) != plan.parts:
            log_line(f"{subject}, and all of them are read again: the source plans other partitions now")
            return None
        with KeepAlive(self.root) as keep_alive:
            # A sweep must find a sign of this attempt as soon as it finds a file.
            keep_alive.add_with_sign(attempt)
            reused_parts = take_over_parts(
                self.root, day, attempt, complete_parts(self.root, plan, {file_entry.name for file_entry in entries})
            )
        log_line(f"{subject}, and this one goes on: {len(reused_parts):,} are there already")
        update = {"attempt": attempt, "taken": reused_parts, "follows": (plan.attempt, *plan.follows)}
        return plan.model_copy(update=update)

    def _last_plan(self, day: Day) -> PollPlan | None:
        for attempt in self.earlier_attempts.attempts_with(PLAN_NAME):
            if not attempt.endswith(f"-{day.date:%Y%m%d}"):
                continue
            try:
                plan = PollPlan.read(self.root.read(plan_file(attempt)), day, attempt)
                _require_partitions_of_day(plan)
            except FileNotFoundError:
                continue  # a sweep has just deleted it
            except ValueError:
                name = f"{self.root.url}/{plan_file(attempt)}"
                log_line(f"{name} is ignored: another version of this package wrote it, or somebody changed it")
                continue
            return plan
        return None


def _partition_documents(parts: Sequence[InputPartition]) -> dict[int, dict[str, Any]]:
    return {part.index: part.model_dump(mode="json") for part in parts}


def _partitions(plan: PollPlan) -> list[InputPartition]:
    return [InputPartition.model_validate(part) for part in plan.parts.values()]


def _require_partitions_of_day(plan: PollPlan) -> None:
    parts = _partitions(plan)
    if any(part.days != (plan.day,) for part in parts) or [part.index for part in parts] != [*plan.parts]:
        raise ValueError("its partitions are not those of the day")
