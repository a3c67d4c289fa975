"""Goes on where an earlier try ended: partitions that are whole are taken over, and only the rest is polled.

Only a try of the same intent does so, of the same source, target and schema, that found the same publish and the same
erase list before it polled. A clear, a backfill and a reload have an intent of their own, and so begin anew.
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
"""A try whose last sign of life is older is not gone on with: what it read is too old, and a sweep comes for it."""


@dataclass(frozen=True)
class PlanResumer:
    """The plans of a job's days, those that earlier tries left among them."""

    poller: Poller
    earlier_attempts: EarlierAttempts
    plans: dict[Day, PollPlan] = field(default_factory=dict, init=False)

    @property
    def root(self) -> Folder:
        """Root of the stage."""
        return self.earlier_attempts.root

    def plan(self, days: DaysToPoll, *, is_split: bool) -> list[InputPartition]:
        """Return the partitions of some days: those that an earlier try left, or new ones.

        :param is_split: whether the day ran into its deadline, so that other partitions are wanted than before.
        :raises ConnectError: the source cannot plan the days, or plans others.
        """
        day, *others = days.days
        attempt, seen = days.attempt_of(day), days.seen_publish(day)
        self.plans.pop(day, None)
        if others or is_split or not isinstance(self.poller, Resumes):
            return plan_days(self.poller, days.days)
        found = self._resumed(day, attempt, seen)
        if found is None:
            begun = dt.datetime.now(dt.UTC)
            parts = plan_days(self.poller, days.days)
            if len(parts) < 2:  # the only one is all or nothing
                return parts
            found = PollPlan(
                day=day,
                attempt=attempt,
                identity=self.earlier_attempts.fingerprint,
                seen=seen,
                begun=begun,
                resumes=resumes(self.poller),
                parts=_documents(parts),
            )
        found.write(self.root)
        self.plans[day] = found
        return _partitions(found)

    def started_at(self, day: Day) -> dt.datetime | None:
        """Return when the first row of a day may have been read; None if nothing of it was taken over."""
        plan = self.plans.get(day)
        return plan.begun if plan is not None and plan.taken else None

    def reused_outcomes(self, days: Sequence[Day]) -> dict[int, PollOutcome]:
        """Return what is there already of the plan of some days, by the partition's index."""
        plan = self.plans.get(days[0])
        if plan is None or len(days) > 1:
            return {}
        return {index: PollOutcome(polled={plan.day.date: polled}) for index, polled in plan.taken.items()}

    def note_partition(self, part: InputPartition, outcome: PollOutcome) -> None:
        """Record a partition that is whole, where a later try may take it over."""
        plan = self.plans.get(part.days[0])
        if plan is not None and plan.resumes and outcome.polled is not None:
            write_part_record(self.root, plan, part.index, outcome.polled[plan.day.date])

    def _resumed(self, day: Day, attempt: str, seen: SeenPublish) -> PollPlan | None:
        """Return the plan of the last try as this one goes on with it; None to begin anew."""
        plan = self._left(day)
        if plan is None:
            return None
        what = f"day {day}: an earlier try was reading it in {len(plan.parts):,} partitions"
        if (plan.identity, plan.seen) != (self.earlier_attempts.fingerprint, seen):
            why = "options or columns have changed, or somebody has published or erased rows since"
            log_line(f"{what}, and all of them are read again: {why}")
            return None
        if not plan.resumes or not resumes(self.poller):
            why = self.poller.begins_anew if isinstance(self.poller, Resumes) else ""
            log_line(f"{what}, and all of them are read again: {why}")
            return None
        entries = self.root.files(attempt_folder(plan.attempt))
        last_sign = max((entry.modified for entry in entries), default=None)
        if last_sign is None or self.root.storage_time() - last_sign > MAX_SILENCE:
            log_line(f"{what}, and all of them are read again: its last sign of life is too old")
            return None
        if _documents(self.poller.resume(day, _partitions(plan))) != plan.parts:
            log_line(f"{what}, and all of them are read again: the source has others now")
            return None
        with KeepAlive(self.root) as alive:
            # A sweep must find a sign of this attempt beside its first file.
            alive.add_with_sign(attempt)
            taken = take_over_parts(
                self.root, day, attempt, complete_parts(self.root, plan, {each.name for each in entries})
            )
        log_line(f"{what}, and this one goes on: {len(taken):,} are there already")
        update = {"attempt": attempt, "taken": taken, "follows": (plan.attempt, *plan.follows)}
        return plan.model_copy(update=update)

    def _left(self, day: Day) -> PollPlan | None:
        """Return the plan of the last try that left one."""
        for attempt in self.earlier_attempts.attempts_with(PLAN_NAME):
            if not attempt.endswith(f"-{day.date:%Y%m%d}"):
                continue
            try:
                plan = PollPlan.read(self.root.read(plan_file(attempt)), day, attempt)
                _require_own(plan)
            except FileNotFoundError:
                continue  # a sweep has just deleted it
            except ValueError:
                name = f"{self.root.url}/{plan_file(attempt)}"
                log_line(f"{name} is ignored: another version of this package wrote it, or somebody changed it")
                continue
            return plan
        return None


def _documents(parts: Sequence[InputPartition]) -> dict[int, dict[str, Any]]:
    return {part.index: part.model_dump(mode="json") for part in parts}


def _partitions(plan: PollPlan) -> list[InputPartition]:
    return [InputPartition.model_validate(part) for part in plan.parts.values()]


def _require_own(plan: PollPlan) -> None:
    """Refuse a plan whose partitions are not those of its day.

    :raises ValueError: they are not.
    """
    parts = _partitions(plan)
    if any(part.days != (plan.day,) for part in parts) or [part.index for part in parts] != [*plan.parts]:
        raise ValueError("its partitions are not those of the day")
