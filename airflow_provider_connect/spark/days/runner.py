"""Runs days: all steps from the first ledger lookup to the ledger row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from airflow_provider_connect.errors import Failure, OvertakenError, QuotaError, RowsLostError, SupersededError
from airflow_provider_connect.job import DayReport, DayStatus, JobConfig
from airflow_provider_connect.spark.attempts import KeepAlive
from airflow_provider_connect.spark.capabilities.definitions import DefinitionGuard
from airflow_provider_connect.spark.context import JobContext
from airflow_provider_connect.spark.days.check import DayChecker
from airflow_provider_connect.spark.days.lookup import DayLookup
from airflow_provider_connect.spark.days.publish import DayPublisher
from airflow_provider_connect.spark.first_load import ask_again
from airflow_provider_connect.spark.progress import log_line
from airflow_provider_connect.spark.states import NOT_COMPARED, DayStager, DayState, DaysToPoll, StagedDay, UnpolledDay
from airflow_provider_connect.window import Day, group_days


@dataclass(frozen=True)
class DayRunner:
    """Moves days from a source into a sink.

    :param is_task_alive: returns whether the days' Airflow task is known to be alive.
    """

    context: JobContext
    stager: DayStager
    checker: DayChecker
    publisher: DayPublisher
    is_task_alive: Callable[[], bool]
    guard: DefinitionGuard | None = None

    @property
    def job(self) -> JobConfig:
        """The job of these days."""
        return self.context.job

    @cached_property
    def lookup(self) -> DayLookup:
        """The step that looks days up in ledger and stage."""
        return DayLookup(self.context, self.stager)

    def run(self, days: Sequence[Day]) -> list[DayReport]:
        """Poll the days of one plan together, and publish them singly. An error fails only the days it concerns."""
        reports = []
        with KeepAlive(self.context.outlet.root) as keep_alive:
            states = self._stage(days, self.job.attempt, keep_alive)
            failures = [state for state in states.values() if isinstance(state, Failure)]
            for day, state in states.items():
                if isinstance(state, StagedDay):
                    keep_alive.remove(state.manifest.attempt)
                # An error that forbids requests holds for all days of the plan.
                report = self._run_day(day, state, may_poll_again=not any(failure.forbids_more for failure in failures))
                reports.append(report := report.model_copy(update={"lookback": self._is_lookback(day)}))
                failures += [report.failure] if report.failure is not None else []
        return reports

    def _run_day(self, day: Day, state: DayState, *, may_poll_again: bool) -> DayReport:
        progress = self.context.progress
        try:
            report = self._publish_or_repoll(day, state, may_poll_again=may_poll_again)
        except Exception as error:  # noqa: BLE001  # the report carries every error, by type, to Airflow
            status = _failed_status(error, is_lookback=self._is_lookback(day))
            retries = 0 if status == "superseded" else progress.retries(day)
            report = DayReport.for_day(day, status, failure=Failure.from_error(error), retries=retries)
        if report.status != "not_started":
            progress.end_day(day, report_line(report, with_reason=self._shows_reasons or report.status != "failed"))
        return report

    def _is_lookback(self, day: Day) -> bool:
        return day in self.job.lookback

    @property
    def _shows_reasons(self) -> bool:
        """Whether the driver logs why a day failed. For a single local day the task's next line has the reason."""
        return len(self.job.all_days) > 1 or self.job.is_remote

    def _publish_or_repoll(self, day: Day, state: DayState, *, may_poll_again: bool) -> DayReport:
        """Publish a day. If another intent published it meanwhile, poll it again, once for each of these intents.

        Without its Airflow task the driver does not poll again: the answer would be discarded.
        """
        overtaken_by: set[str] = set()
        while True:
            if isinstance(state, DayReport):
                return state
            if isinstance(state, Failure):
                raise state.error()
            assert isinstance(state, StagedDay)
            try:
                return self.publisher.publish(self.checker.check(state))
            except OvertakenError as error:
                may_poll_again &= error.may_poll_again and error.by not in overtaken_by
                # The publisher of a lookback day has read the source. An erase has not.
                may_poll_again &= error.is_erase or not self._is_lookback(day)
                if not may_poll_again or not self.is_task_alive():
                    raise
                overtaken_by.add(error.by)
                log_line(f"day {day}: {error}. Polling it again")
            state = self._stage([day], f"{self.job.attempt}{'r' * len(overtaken_by)}")[day]

    def _stage(self, days: Sequence[Day], attempt: str, keep_alive: KeepAlive | None = None) -> dict[Day, DayState]:
        try:
            erased = self.lookup.read_erase_list()
        except Exception as error:  # noqa: BLE001  # the report carries it to Airflow, by type
            return dict.fromkeys(days, Failure.from_error(error))
        states = self.lookup.look_up(days, erased)
        if all(isinstance(state, DayReport | Failure) for state in states.values()):
            return states
        try:
            admission = self.guard.admit() if self.guard is not None else NOT_COMPARED
        except Exception as error:  # noqa: BLE001
            return {
                day: state if isinstance(state, DayReport) else Failure.from_error(error)
                for day, state in states.items()
            }
        _keep_waiting_alive(states.values(), keep_alive)
        newest = {day: state.newest_row for day, state in states.items() if isinstance(state, UnpolledDay)}
        is_stopped = False
        for group in group_days(list(newest), len(days)):
            if is_stopped:
                states |= {day: DayReport.for_day(day, "not_started") for day in group}
                continue
            to_poll = DaysToPoll(
                {day: newest[day] for day in group}, attempt, erased, admission.restart, admission.is_first_load
            )
            polled_states = self._poll(to_poll)
            states |= polled_states
            is_stopped = any(isinstance(state, Failure) and state.forbids_more for state in polled_states.values())
            _keep_waiting_alive(states.values(), keep_alive)
        return {
            day: replace(state, admission=admission) if isinstance(state, StagedDay) else state
            for day, state in states.items()
        }

    def _poll(self, to_poll: DaysToPoll) -> dict[Day, StagedDay | Failure]:
        try:
            answers = ask_again(lambda: self.stager.stage(to_poll), is_first_load=lambda: to_poll.is_first_load)
        except Exception as error:  # noqa: BLE001  # the report carries it to Airflow, by type
            return dict.fromkeys(to_poll.days, self._failure_of(error, to_poll))
        return {
            day: answer if isinstance(answer, Failure) else StagedDay(answer, to_poll.newest_rows[day])
            for day, answer in answers.items()
        }

    def _failure_of(self, error: Exception, to_poll: DaysToPoll) -> Failure:
        """Return the failure of days after an error. For lost rows, first keep an alarm in the ledger.

        If the ledger cannot keep the alarm, its error is the failure, and the next try raises the alarm again.
        """
        newest = to_poll.newest_rows[to_poll.days[0]]
        span = None if newest is None else newest.span
        if isinstance(error, RowsLostError) and self.guard is not None and span is not None:
            try:
                self.guard.raise_alarm(span, error)
            except Exception as alarm_error:  # noqa: BLE001  # the report carries it to Airflow, by type
                return Failure.from_error(alarm_error)
        return Failure.from_error(error)


def _failed_status(error: Exception, *, is_lookback: bool) -> DayStatus:
    if isinstance(error, SupersededError):
        return "superseded"
    if isinstance(error, QuotaError):
        return "not_started"
    # The other publisher has read the source as recently as the lookback requires.
    return "overtaken" if isinstance(error, OvertakenError) and is_lookback else "failed"


def _keep_waiting_alive(states: Iterable[DayState], keep_alive: KeepAlive | None) -> None:
    if keep_alive is not None:
        keep_alive.add(state.manifest.attempt for state in states if isinstance(state, StagedDay))


def report_line(report: DayReport, *, with_reason: bool) -> str:
    """Return a day's report as a line for the log."""
    if report.failure is not None:
        return f"{report.status}: {report.failure.message}" if with_reason else report.status
    text = f"{report.status} as generation {report.generation}, {report.rows_written:,} rows"
    if report.status == "unchanged":
        text += f", {report.raw_bytes / 1e6:,.1f} MB, {report.poll_seconds:.1f} s to poll"
    if report.status == "published":
        text += (
            f" ({report.duplicates:,} duplicates dropped, {report.rejected:,} rejected), "
            f"{report.raw_bytes / 1e6:,.1f} MB, {report.poll_seconds:.1f} s to poll, "
            f"{report.publish_seconds:.2f} s to publish"
        )
    if report.link is not None:
        text += f"; {report.reference}: {report.link}"
    return text
