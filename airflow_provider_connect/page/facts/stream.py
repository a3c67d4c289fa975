"""Settled days, lag and state of one stream."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.page.facts.connectors import ConnectorPair
from airflow_provider_connect.page.facts.reports import RunDayReport, newest_by_day, parse_instant
from airflow_provider_connect.page.facts.runs import DayRange, TaskRun, expected_days, next_run_days, schedule_of
from airflow_provider_connect.window import ONE_DAY, DaySet, Settled, zone

StateName = Literal["running", "waiting", "failed", "gap", "catching_up", "late", "ok", "new", "paused"]
_OVERDUE = dt.timedelta(hours=1)
_RECENT = dt.timedelta(days=1)
_MOMENT = "%Y-%m-%d %H:%M UTC"
_QUOTA = "QuotaTrigger"
_WITHOUT_DAYS = ("@once", "@continuous")


class StreamName(NamedTuple):
    """A task, an instance of a mapped task, or a stream of a task with many. ``map_index`` is -1 for an unmapped task.

    :param key: the stream's key. "" for the only stream of a task, or any of many.
    """

    dag_id: str
    task_id: str
    map_index: int
    key: str = ""

    def __str__(self) -> str:
        instance = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}/{self.task_id}{instance}" + (f"#{self.key}" if self.key else "")


class TaskInstanceName(NamedTuple):
    """Run and map index of one of the stream's task instances."""

    run_id: str
    map_index: int


class StreamState(NamedTuple):
    """State of a stream, with a sentence for the viewer."""

    name: StateName
    text: str


@dataclass(frozen=True)
class Stream:
    """A ConnectOperator task, or one instance of a mapped one, as the viewer may see it.

    :param dag: the DAG as Airflow's API returns it.
    :param offset: None if there is none, or the viewer may not read Variables.
    :param reports: of the requested period. In a list of streams, only the newest.
    :param message: error message of the newest failed run.
    :param key: the stream's key if its task has many streams, else "".
    :param end_date: the task's or its DAG's, whichever is earlier.
    """

    dag: Mapping[str, Any]
    task_id: str
    map_index: int
    connectors: ConnectorPair
    offset: Offset | None
    reports: Sequence[RunDayReport]
    runs: Sequence[TaskRun]
    has_run: bool
    can_edit: bool
    as_of: dt.datetime
    message: str | None = None
    end_date: dt.datetime | None = None
    key: str = ""

    @property
    def id(self) -> str:
        """Unique name, such as ``dag/task[index]``."""
        return str(StreamName(self.dag["dag_id"], self.task_id, self.map_index, self.key))

    def owns(self, report: RunDayReport) -> bool:
        """Return True if a report of the task is one of this stream."""
        sink = self.connectors.sink
        return not self.key or (sink is not None and report.target == sink.target)

    @property
    def zone(self) -> str:
        """Zone of the stream's days. UTC if unknown."""
        return self.connectors.timezone or "UTC"

    @property
    def yesterday(self) -> dt.date:
        """Last complete day in the stream's zone."""
        return self.as_of.astimezone(zone(self.zone)).date() - ONE_DAY

    @cached_property
    def newest_reports(self) -> dict[dt.date, RunDayReport]:
        """Report of each day's newest publish."""
        if self.connectors.follows:  # each run of a day has generations of its own
            return newest_by_day(self.reports, attrgetter("reported_at"))
        return newest_by_day(self.reports)

    @cached_property
    def settled(self) -> Settled:
        """Settled days, from the offset and newer reports."""
        days = DaySet.from_dates(self.newest_reports)
        if self.offset is not None:
            has_news = set(days) - set(self.offset.done)
            days = DaySet.from_dates([*self.offset.done, *days]) if has_news else self.offset.done
        origin = None if self.offset is None else self.offset.origin
        return Settled.from_published(days, origin, replaces_whole=self.connectors.replaces_whole)

    @property
    def settled_days(self) -> DaySet:
        """Settled days as a set."""
        return self.settled.days

    @cached_property
    def last_day(self) -> dt.date | None:
        """Last settled day."""
        return self.settled.last_day

    @property
    def position(self) -> dt.date | None:
        """Last day that is settled without a gap before it."""
        return None if self.offset is None else self.settled.position

    @property
    def lag_days(self) -> int | None:
        """Number of scheduled days after the position, up to yesterday. None without a settled day."""
        # Without an offset gaps are unknown.
        settled = self.settled if self.offset is not None else Settled(self.settled_days, self.last_day)
        return settled.lag_days(self.yesterday, schedule_of(self.dag, self.end_date, self.zone))

    @property
    def days_behind(self) -> int | None:
        """Like :attr:`lag_days`, but 0 if no day is overdue. None if unknown."""
        if self.state.name != "ok":
            return self.lag_days
        return 0 if self._days_due is not None or self.lag_days == 0 else None

    @property
    def read_at(self) -> dt.datetime | None:
        """Time at which the newest increment was read. None for other kinds."""
        return None if self.offset is None else self.offset.read_at

    @property
    def first_day(self) -> dt.date | None:
        """First wanted day: the origin or an earlier known day, else the next run's first day, or None."""
        origin = None if self.offset is None else self.offset.origin
        known_days = [*(day_range[0] for day_range in self.settled_days.ranges[:1]), *([origin] if origin else [])]
        known_days += [run.days[0] for run in (*self.failed_runs, *self.active_runs) if run.days is not None]
        next_run = next_run_days(self.dag, self.connectors.timezone)
        return min(known_days, default=None if next_run is None else next_run[0][0])

    @property
    def resumes_at(self) -> dt.datetime | None:
        """Earliest time at which a run waiting for ``ready_after`` resumes, or None."""
        times = (run.resumes_at(self.zone) for run in self.active_runs)
        return min((time for time in times if time is not None), default=None)

    @property
    def newest_instance(self) -> TaskInstanceName | None:
        """The task instance that reported or changed its state last."""
        instances = [(report.reported_at, report.run_id, report.map_index) for report in self.reports]
        instances += [
            (time, run.run_id, run.map_index) for run in self.runs if (time := run.state_since or run.run_after)
        ]
        return TaskInstanceName(*max(instances)[1:]) if instances else None

    @cached_property
    def gaps(self) -> DaySet:
        """Unsettled days between the origin and the last settled day."""
        return DaySet() if self.offset is None else self.settled.gaps

    @cached_property
    def missing_days(self) -> DaySet:
        """Days that a backfill would add: the gaps, and the days behind if Airflow plans no run for them."""
        by_day = not (self.connectors.follows or self.connectors.replaces_whole)
        if self.offset is None or not by_day or self._days_due or self.active_runs or not self._is_stalled:
            return self.gaps
        return self.settled.unsettled_days(self.yesterday, schedule_of(self.dag, self.end_date, self.zone))

    @cached_property
    def failed_runs(self) -> list[TaskRun]:
        """Failed task instances, newest first, without those with days that were loaded since."""
        runs = [run for run in self.runs if run.phase == "failed" and not self._is_repaired(run)]
        return sorted(runs, key=lambda run: (run.days or (dt.date.min,), run.run_id), reverse=True)

    @cached_property
    def active_runs(self) -> list[TaskRun]:
        """Running and waiting task instances."""
        return [run for run in self.runs if run.phase in ("running", "waiting")]

    @property
    def reported_at(self) -> dt.datetime | None:
        """Time of the newest report, state change or offset, or None."""
        times = [report.reported_at for report in self.reports] + [
            run.state_since for run in self.runs if run.state_since is not None
        ]
        return max([*times, *([self.offset.updated_at] if self.offset else [])], default=None)

    @property
    def state(self) -> StreamState:
        """The first state that applies: an active run, a failed run, paused, new, a gap, catching up, late, or ok."""
        return self._active_state() or self._failed_state() or self._lag_state() or self._ok_state()

    def _is_repaired(self, run: TaskRun) -> bool:
        if self.connectors.follows:  # any later run has read its rows
            times = [report.reported_at for report in self.reports if report.is_settled]
            return run.state_since is not None and max(times, default=run.state_since) > run.state_since
        if run.days is None:
            return False
        if self.connectors.replaces_whole and self.last_day is not None and run.days[1] < self.last_day:
            return True  # superseded: a reload cannot publish them
        span = DaySet(ranges=(run.days,))
        reloaded_days = {
            day
            for day in span
            if (report := self.newest_reports.get(day)) and run.state_since and report.reported_at > run.state_since
        }
        # Settled days without a report were loaded by another task, not before a failed reload.
        foreign_days = {
            day for day in span if day not in self.newest_reports and self.offset and day in self.offset.done
        }
        return len(reloaded_days | foreign_days) == len(span)

    def _active_state(self) -> StreamState | None:
        running = [run for run in self.active_runs if run.phase == "running"]
        if running:
            retries = [run for run in running if run.state == "up_for_retry"]
            if retries and len(retries) == len(running):
                return StreamState("running", f"A try failed and will be repeated: {_days_text(retries)}")
            are_queued = all(run.state in ("none", "queued", "scheduled") for run in running)
            backlog = f". {self._catch_up_text()}" if self._is_catching_up(least_days=2) else ""
            return StreamState("running", f"{'Queued' if are_queued else 'Loading'}: {_days_text(running)}{backlog}")
        if not self.active_runs:
            return None
        if any(run.trigger.endswith(_QUOTA) for run in self.active_runs):
            return StreamState("waiting", f"Waiting for room in the source's quota: {_days_text(self.active_runs)}")
        if self.resumes_at is None:
            return StreamState("waiting", f"Waiting for ready_after: {_days_text(self.active_runs)}")
        moment = f"{self.resumes_at.astimezone(zone(self.zone)):%Y-%m-%d %H:%M} {self.zone}"
        return StreamState("waiting", f"Waiting until {moment} (ready_after): {_days_text(self.active_runs)}")

    def _failed_state(self) -> StreamState | None:
        if not self.failed_runs:
            return None
        days = _days_text(self.failed_runs)
        # Most messages begin with the day.
        reason = f": {self.message.removeprefix(f'day {days}: ')}" if self.message else ""
        return StreamState("failed", f"Failed: {days}{reason}")

    def _lag_state(self) -> StreamState | None:
        if self.dag.get("is_paused"):
            return StreamState("paused", "The DAG is paused")
        if not self.has_run and self.last_day is None:
            return StreamState("new", "Has not run yet")
        if self.gaps.ranges:
            spans = ", ".join(_range_text(*day_range) for day_range in self.gaps.ranges[-3:])
            more = f" and {len(self.gaps.ranges) - 3} earlier gaps" if len(self.gaps.ranges) > 3 else ""
            return StreamState("gap", f"{_count_text(len(self.gaps))} missing: {spans}{more}")
        return self._late_state()

    def _late_state(self) -> StreamState | None:
        if (due_at := self._increment_due) is not None:
            return StreamState("late", f"Last read {self.read_at:{_MOMENT}}. A run was due at {due_at:{_MOMENT}}")
        days = self._days_due
        if days is None:
            return self._stalled_state()
        # For snapshots that replace the target, any one day of the run's interval is enough.
        due = days[0] if self.connectors.replaces_whole else days[1]
        if self.last_day is not None and self.last_day >= due:
            return None
        if self._is_catching_up(least_days=1):
            return StreamState("catching_up", self._catch_up_text())
        count = self.lag_days
        lag = "" if count is None else f"{_plural_days(count)} behind. "
        return StreamState("late", f"{lag}By its schedule {due} should be done")

    def _stalled_state(self) -> StreamState | None:
        if not self._is_stalled:
            return None
        return StreamState("late", f"{_plural_days(self.lag_days or 0)} behind. Airflow plans no run")

    @property
    def _is_stalled(self) -> bool:
        """True for a DAG that has a schedule, days behind and no next run, such as while other runs wait."""
        summary = self.dag.get("timetable_summary") or ""
        return bool(self.lag_days) and "Asset" not in summary and summary not in _WITHOUT_DAYS

    @property
    def _increment_due(self) -> dt.datetime | None:
        due = parse_instant(self.dag.get("next_dagrun_run_after"))
        is_overdue = self.read_at is not None and due is not None and due + _OVERDUE < self.as_of
        return due if is_overdue else None

    @cached_property
    def _days_due(self) -> DayRange | None:
        return expected_days(self.dag, self.connectors.timezone, self.as_of, _OVERDUE)

    def _is_catching_up(self, least_days: int) -> bool:
        if (self.lag_days or 0) < least_days:
            return False
        next_run = next_run_days(self.dag, self.connectors.timezone)
        is_continuing = bool(self.active_runs) or (next_run is not None and next_run[1] < self.as_of)
        return is_continuing and self._count_loaded_within(_OVERDUE) > 0

    def _catch_up_text(self) -> str:
        days_left = self.lag_days or 0
        return f"Catching up: {days_left} of {_plural_days(days_left + self._count_loaded_within(_RECENT))} left"

    def _count_loaded_within(self, period: dt.timedelta) -> int:
        return sum(self.as_of - report.reported_at < period for report in self.newest_reports.values())

    def _ok_state(self) -> StreamState:
        if self.last_day is None:
            return StreamState("ok", "No day has been reported as done yet")
        if self.read_at is not None:
            return StreamState("ok", f"All rows up to {self.read_at:{_MOMENT}} are loaded")
        return StreamState("ok", f"Every day up to {self.last_day} is done")


def _days_text(runs: Sequence[TaskRun]) -> str:
    ranges = sorted(run.days for run in runs if run.days is not None)
    if not ranges:
        return f"{len(runs)} runs" if len(runs) > 1 else "one run"
    text = ", ".join(_range_text(*days) for days in ranges[:3])
    return text if len(runs) <= 3 else f"{text} and {len(runs) - 3} more runs"


def _range_text(first: dt.date, last: dt.date) -> str:
    return str(first) if first == last else f"{first}..{last}"


def _plural_days(count: int) -> str:
    return f"{count} day" if count == 1 else f"{count} days"


def _count_text(days: int) -> str:
    return "One day is" if days == 1 else f"{days} days are"
