"""Polls days in more partitions if a request exceeded its deadline, because the same request would fail again.

Days that shared the request are polled one by one. A note in the attempt's folder keeps the number of partitions for
the next job of the same intent.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from functools import cached_property

from airflow_provider_connect.capabilities.poller import AcceptsParts, Splits
from airflow_provider_connect.capabilities.source import Counts
from airflow_provider_connect.errors import ConnectError, DeadlineError, Failure
from airflow_provider_connect.registry import days_per_plan, requests_for, require_capability
from airflow_provider_connect.spark.attempts import EarlierAttempts
from airflow_provider_connect.spark.context import Intake
from airflow_provider_connect.spark.poll import PollOutcome
from airflow_provider_connect.spark.progress import days_label, log_line
from airflow_provider_connect.spark.states import DaysToPoll, PolledDays
from airflow_provider_connect.stage.manifest import DEADLINE_NAME, PollResult, day_of_attempt, deadline_file
from airflow_provider_connect.window import Day
from airflow_provider_connect.wire import Wire

PolledByDay = dict[Day, PollResult | Failure]


class _Note(Wire):
    """The note that a day exceeded a deadline.

    :param fingerprint: as in a manifest. A note with another one is ignored.
    :param parts: number of partitions of the day, or 0 if it shared a plan with other days.
    """

    fingerprint: str
    parts: int


class DaySplitter:
    """Splits days that exceeded a deadline, in this job or in an earlier one of the same intent."""

    def __init__(self, intake: Intake, leftovers: EarlierAttempts) -> None:
        self._source, self._poller, self._leftovers = intake.source, intake.poller, leftovers
        self._parts_at_once = (intake.source.capability(Counts) or Counts()).parts_at_once
        self._unsplit_dates: set[dt.date] = set()
        self._late_in_this_job: set[dt.date] = set()

    @cached_property
    def _parts(self) -> dict[dt.date, int]:
        """Number of partitions in :class:`_Note` by date, for days that exceeded a deadline."""
        parts: dict[dt.date, int] = {}
        if self._parts_at_once == 1 and days_per_plan(self._poller) == 1:
            return parts
        for attempt in self._leftovers.attempts_with(DEADLINE_NAME):
            try:
                note = _Note.model_validate_json(self._leftovers.root.read(deadline_file(attempt)))
            except (FileNotFoundError, ValueError):  # swept, or another version's
                continue
            date = day_of_attempt(attempt)
            if note.fingerprint == self._leftovers.fingerprint and date is not None:
                parts[date] = max(note.parts, parts.get(date, 0))
        return parts

    @property
    def dates_to_poll_alone(self) -> tuple[dt.date, ...]:
        """Days to poll alone, because a request for several days exceeded its deadline."""
        return tuple(sorted(date for date, parts in self._parts.items() if not parts))

    @property
    def dates_to_split(self) -> tuple[dt.date, ...]:
        """Days to split into more partitions."""
        return tuple(sorted({date for date, parts in self._parts.items() if parts} - self._unsplit_dates))

    @property
    def _splitter(self) -> Splits:
        return require_capability(self._poller, Splits, "its source splits days")

    def is_split(self, day: Day) -> bool:
        """Return whether a day is polled in more partitions than before."""
        return self._tried_parts(day) > 0

    def split(self, day: Day) -> bool:
        """Have the poller split a day that exceeded a deadline before. Returns whether it did."""
        if tried_parts := self._tried_parts(day):
            self._splitter.split(day, tried_parts)
        return tried_parts > 0

    def stop_splitting(self, day: Day, error: ConnectError) -> None:
        """Plan a day as a whole, because it cannot be split."""
        log_line(f"day {day}: ran into its deadline, but cannot be split. It is requested as a whole again: {error}")
        self._unsplit_dates.add(day.date)
        self._splitter.split(day, 0)

    def reserved_requests(self, days: Sequence[Day]) -> int:
        """Return how many requests the task reserved for a plan: 0 after a deadline in this job."""
        return 0 if days[0].date in self._late_in_this_job else requests_for(self._source, days[:1])

    def can_split(self, days: Sequence[Day], parts: int) -> bool:
        """Return whether the days can be planned in more requests after another deadline."""
        if len(days) > 1:
            return True
        may_split = self._parts_at_once > 1 and days[0].date not in self._unsplit_dates
        return may_split and parts > self._tried_parts(days[0])

    def poll_days(self, days: DaysToPoll, poll: Callable[[DaysToPoll], PolledDays]) -> PolledByDay:
        """Poll days. A day that exceeds its deadline is polled again in more partitions, several such days one by one.

        :raises ConnectError: the plan names other days, or Spark lost a task.
        :raises QuotaError: the job may not send enough requests.
        """
        planned_days = days.days
        if len(planned_days) > 1 and any(day.date in self._parts for day in planned_days):
            return self._poll_one_by_one(days, poll)
        started, requests_sent = time.monotonic(), 0
        while True:
            polled_days = poll(days)
            answers = {day: self._validate_polled(day, polled_days.result_of(day)) for day in planned_days}
            failures = _failure_types(polled_days.outcomes)
            if not polled_days.planned.ends_at_deadline or DeadlineError.__name__ not in failures:
                return answers
            parts = len(polled_days.planned.partitions)
            for day in planned_days:
                self._write_note(day, days.attempt_of(day), parts if len(planned_days) == 1 else 0)
            requests_sent += sum(len(outcome.sent) for outcome in polled_days.outcomes)
            is_spent = (
                time.monotonic() - started >= self._source.retry_budget_seconds
                or requests_sent >= self._source.retry_budget_requests
            )
            # Whatever else went wrong, smaller partitions would meet as well.
            if is_spent or failures != {DeadlineError.__name__}:
                return {day: _announce_split(answer) for day, answer in answers.items()}
            if len(planned_days) > 1:
                log_line(f"{days_label(planned_days)}: a request ran into its deadline. Each day is requested alone")
                return self._poll_one_by_one(days, poll)
            log_line(
                f"day {planned_days[0]}: a request ran into its deadline. It is requested "
                f"again in more than {parts} partitions"
            )

    def _poll_one_by_one(self, days: DaysToPoll, poll: Callable[[DaysToPoll], PolledDays]) -> PolledByDay:
        answers: PolledByDay = {}
        for day in days.days:
            try:
                answers |= self.poll_days(days.single(day), poll)
            except Exception as error:  # noqa: BLE001  # the days before have come, and are published
                answers[day] = Failure.from_error(error)
            result = answers[day]
            if isinstance(result, Failure) and result.forbids_more:
                return dict.fromkeys(days.days, result) | answers
        return answers

    def _validate_polled(self, day: Day, answer: PollResult | Failure) -> PollResult | Failure:
        if isinstance(answer, PollResult) and answer.parts > 1 and isinstance(self._poller, AcceptsParts):
            try:
                self._poller.accept(day, answer.counts)
            except ConnectError as error:
                return Failure.from_error(error)
        return answer

    def _tried_parts(self, day: Day) -> int:
        return 0 if day.date in self._unsplit_dates else self._parts.get(day.date, 0)

    def _write_note(self, day: Day, attempt: str, parts: int) -> None:
        self._parts[day.date] = parts
        self._late_in_this_job.add(day.date)
        note = _Note(fingerprint=self._leftovers.fingerprint, parts=parts)
        try:
            self._leftovers.root.write(deadline_file(attempt), note.model_dump_json().encode())
        except ConnectError as error:  # it must not hide the deadline
            log_line(f"day {day}: its deadline could not be noted for the next try: {error}")


def _failure_types(outcomes: Sequence[PollOutcome]) -> set[str]:
    return {outcome.failure.type for outcome in outcomes if outcome.failure is not None}


def _announce_split(answer: PollResult | Failure) -> PollResult | Failure:
    if not isinstance(answer, Failure) or answer.type != DeadlineError.__name__:
        return answer
    return answer.model_copy(update={"message": f"{answer.message}. The next try splits the day into more requests"})
