"""The life of a day: from the first look into the ledger to its row there, step by step."""

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
from airflow_provider_connect.spark.progress import log_line
from airflow_provider_connect.spark.states import NOT_COMPARED, DayStager, DayState, DaysToPoll, StagedDay, UnpolledDay
from airflow_provider_connect.window import Day, group_days


@dataclass(frozen=True)
class DayRunner:
    """Moves days from a source into a sink.

    :param task_lives: tells whether the Airflow task that wants these days is known to be alive.
    :param guard: compares the stream's definition with the ledger's; None to compare nothing.
    """

    context: JobContext
    stager: DayStager
    checker: DayChecker
    publisher: DayPublisher
    is_task_alive: Callable[[], bool]
    guard: DefinitionGuard | None = None

    @property
    def job(self) -> JobConfig:
        """The job whose days these are."""
        return self.context.job

    @cached_property
    def lookup(self) -> DayLookup:
        """The first step."""
        return DayLookup(self.context, self.stager)

    def run(self, days: Sequence[Day]) -> list[DayReport]:
        """Bring days into the sink: the days of one plan are polled together, and each is published alone.

        An error fails the days it concerns, and no others.
        """
        reports = []
        with KeepAlive(self.context.outlet.root) as waiting:
            states = self._freeze(days, self.job.attempt, waiting)
            failures = [state for state in states.values() if isinstance(state, Failure)]
            for day, state in states.items():
                if isinstance(state, StagedDay):
                    waiting.remove(state.manifest.attempt)
                # What one day was told holds for all: no other of them asks the source again.
                report = self._move(day, state, may_poll_again=not any(failure.forbids_more for failure in failures))
                reports.append(report := report.model_copy(update={"lookback": self._is_lookback(day)}))
                failures += [report.failure] if report.failure is not None else []
        return reports

    def _move(self, day: Day, state: DayState, *, may_poll_again: bool) -> DayReport:
        progress = self.context.progress
        try:
            report = self._publish_newest(day, state, may_poll_again=may_poll_again)
        except Exception as error:  # noqa: BLE001  # the report carries every error, by type, to Airflow
            status = _status_of(error, is_lookback=self._is_lookback(day))
            retries = 0 if status == "superseded" else progress.retries(day)
            report = DayReport.for_day(day, status, failure=Failure.from_error(error), retries=retries)
        if report.status != "not_started":
            progress.end_day(day, report_line(report, with_reason=self._shows_reasons or report.status != "failed"))
        return report

    def _is_lookback(self, day: Day) -> bool:
        return day in self.job.lookback

    @property
    def _shows_reasons(self) -> bool:
        """Whether the driver says why a day failed: for a single local day the task says it in the next line."""
        return len(self.job.all_days) > 1 or self.job.is_remote

    def _publish_newest(self, day: Day, state: DayState, *, may_poll_again: bool) -> DayReport:
        """Publish a day; poll it again for each other intent that published it meanwhile, while our task lives.

        A driver without its task does not poll again: nobody wants its answer.

        :param may_poll_again: false once the source has said stop.
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
                # Who has published a day of the lookback has looked at the source; who has erased has not.
                may_poll_again &= error.is_erase or not self._is_lookback(day)
                if not may_poll_again or not self.is_task_alive():
                    raise
                overtaken_by.add(error.by)
                log_line(f"day {day}: {error}; polling it again")
            state = self._freeze([day], f"{self.job.attempt}{'r' * len(overtaken_by)}")[day]

    def _freeze(self, days: Sequence[Day], attempt: str, waiting: KeepAlive | None = None) -> dict[Day, DayState]:
        """Return for each day its report if it is already published, else its frozen state or its failure.

        :param waiting: is given the frozen days.
        """
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
        _let_wait(states.values(), waiting)
        newest = {day: state.newest_row for day, state in states.items() if isinstance(state, UnpolledDay)}
        stops = False
        for group in group_days(list(newest), len(days)):
            if stops:
                states |= {day: DayReport.for_day(day, "not_started") for day in group}
                continue
            to_poll = DaysToPoll({day: newest[day] for day in group}, attempt, erased, admission.restart)
            polled = self._poll(to_poll)
            states |= polled
            stops = any(isinstance(state, Failure) and state.forbids_more for state in polled.values())
            _let_wait(states.values(), waiting)
        return {
            day: replace(state, admission=admission) if isinstance(state, StagedDay) else state
            for day, state in states.items()
        }

    def _poll(self, to_poll: DaysToPoll) -> dict[Day, StagedDay | Failure]:
        try:
            frozen = self.stager.stage(to_poll)
        except Exception as error:  # noqa: BLE001  # the report carries it to Airflow, by type
            return dict.fromkeys(to_poll.days, self._failure_of(error, to_poll))
        return {
            day: answer if isinstance(answer, Failure) else StagedDay(answer, to_poll.newest_rows[day])
            for day, answer in frozen.items()
        }

    def _failure_of(self, error: Exception, to_poll: DaysToPoll) -> Failure:
        """Return the failure of days; of lost rows after keeping an alarm in the ledger.

        If the ledger cannot keep it, that is the failure: the next try raises the alarm again.
        """
        newest = to_poll.newest_rows[to_poll.days[0]]
        span = None if newest is None else newest.span
        if isinstance(error, RowsLostError) and self.guard is not None and span is not None:
            try:
                self.guard.raise_alarm(span, error)
            except Exception as unkept:  # noqa: BLE001  # the report carries it to Airflow, by type
                return Failure.from_error(unkept)
        return Failure.from_error(error)


def _status_of(error: Exception, *, is_lookback: bool) -> DayStatus:
    if isinstance(error, SupersededError):
        return "superseded"
    if isinstance(error, QuotaError):
        return "not_started"
    # Who has published it meanwhile has looked at the source, too, as recently as the lookback wanted to.
    return "overtaken" if isinstance(error, OvertakenError) and is_lookback else "failed"


def _let_wait(states: Iterable[DayState], waiting: KeepAlive | None) -> None:
    if waiting is not None:
        waiting.add(state.manifest.attempt for state in states if isinstance(state, StagedDay))


def report_line(report: DayReport, *, with_reason: bool) -> str:
    """Return a day's report as a line for the log.

    :param with_reason: whether a failure's message is part of it.
    """
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
