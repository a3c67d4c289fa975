"""Days that ran into the deadline of a request: they are asked for in more partitions.

Days that shared the request are asked for one by one, each as a day that nobody has asked for yet. An hour's request
that failed at its deadline would fail there again. What is kept of it lies in the stage, beside the
rest of its attempt: the next job of the same intent reads it there, be it another try of Airflow or one after a wait
for quota. It is advice only. If the stage is gone, the day is asked for as it was at first.
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
from airflow_provider_connect.spark.progress import log_line
from airflow_provider_connect.spark.states import DaysToPoll, PolledDays
from airflow_provider_connect.stage.manifest import DEADLINE_NAME, PollResult, day_of_attempt, deadline_file
from airflow_provider_connect.window import Day
from airflow_provider_connect.wire import Wire

PolledByDay = dict[Day, PollResult | Failure]


class _Note(Wire):
    """What is kept of a day.

    :param fingerprint: as a manifest's: what other options led to says nothing.
    :param parts: in how many partitions the day was asked for; 0 if together with others.
    """

    fingerprint: str
    parts: int


class DaySplitter:
    """The days of a job that ran into a deadline, in this job or in an earlier one of the same intent."""

    def __init__(self, intake: Intake, leftovers: EarlierAttempts) -> None:
        self._source, self._poller, self._leftovers = intake.source, intake.poller, leftovers
        self._parts_at_once = (intake.source.capability(Counts) or Counts()).parts_at_once
        self._left_whole: set[dt.date] = set()
        self._late_now: set[dt.date] = set()

    @cached_property
    def _parts(self) -> dict[dt.date, int]:
        """By day, in how many partitions it ran into its deadline, as far as earlier attempts have noted it."""
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
        """The days that are asked for alone, because they ran into a deadline together with others."""
        return tuple(sorted(date for date, parts in self._parts.items() if not parts))

    @property
    def dates_to_split(self) -> tuple[dt.date, ...]:
        """The days that are to be split."""
        return tuple(sorted({date for date, parts in self._parts.items() if parts} - self._left_whole))

    @property
    def _splitter(self) -> Splits:
        return require_capability(self._poller, Splits, "its source splits days")

    def is_split(self, day: Day) -> bool:
        """Whether a day is asked for in more partitions than before."""
        return self._tried(day) > 0

    def split(self, day: Day) -> bool:
        """Have the poller plan a day in more partitions, if it ran into its deadline; return whether it did."""
        if tried := self._tried(day):
            self._splitter.split(day, tried)
        return tried > 0

    def stop_splitting(self, day: Day, error: ConnectError) -> None:
        """Have a day planned as if nothing had happened: it cannot be split."""
        log_line(f"day {day}: ran into its deadline, but is asked for in one request again: {error}")
        self._left_whole.add(day.date)
        self._splitter.split(day, 0)

    def reserved_requests(self, days: Sequence[Day]) -> int:
        """Return how many requests were reserved for a plan: none after a deadline in this job."""
        return 0 if days[0].date in self._late_now else requests_for(self._source, days[:1])

    def can_split(self, days: Sequence[Day], parts: int) -> bool:
        """Whether the next plan may have more partitions: this one has more than the one that was late."""
        if len(days) > 1:
            return True
        may = self._parts_at_once > 1 and days[0].date not in self._left_whole
        return may and parts > self._tried(days[0])

    def poll_days(self, days: DaysToPoll, poll: Callable[[DaysToPoll], PolledDays]) -> PolledByDay:
        """Poll days; a day that ran into its deadline again, in more partitions.

        Days that ran into a deadline together are asked for one by one.

        :param poll: plans days and polls them once.
        :raises ConnectError: the plan is of other days, or Spark lost a task.
        :raises QuotaError: the job may not send as many requests any more.
        """
        together = days.days
        if len(together) > 1 and any(day.date in self._parts for day in together):
            return self._polled_singly(days, poll)
        began, spent = time.monotonic(), 0
        while True:
            polled = poll(days)
            answers = {day: self._accepted(day, polled.result_of(day)) for day in together}
            failures = _failures(polled.outcomes)
            if not polled.planned.ends_at_deadline or DeadlineError.__name__ not in failures:
                return answers
            parts = len(polled.planned.partitions)
            for day in together:
                self._note(day, days.attempt_of(day), parts if len(together) == 1 else 0)
            spent += sum(len(outcome.sent) for outcome in polled.outcomes)
            is_spent = (
                time.monotonic() - began >= self._source.retry_budget_seconds
                or spent >= self._source.retry_budget_requests
            )
            # Whatever else went wrong, smaller partitions would meet as well.
            if is_spent or failures != {DeadlineError.__name__}:
                return {day: _to_be_split(answer) for day, answer in answers.items()}
            if len(together) > 1:
                log_line(
                    f"days {together[0]}..{together[-1]}: a request ran into its deadline: each day is asked for alone"
                )
                return self._polled_singly(days, poll)
            log_line(f"day {together[0]}: a request ran into its deadline: the day is asked for in more than {parts}")

    def _polled_singly(self, days: DaysToPoll, poll: Callable[[DaysToPoll], PolledDays]) -> PolledByDay:
        """Poll days one after the other; after a failure that concerns all, the rest is not asked for."""
        answers: PolledByDay = {}
        for day in days.days:
            try:
                answers |= self.poll_days(days.single(day), poll)
            except Exception as error:  # noqa: BLE001  # the days before have come, and are published
                answers[day] = Failure.from_error(error)
            last = answers[day]
            if isinstance(last, Failure) and last.forbids_more:
                return dict.fromkeys(days.days, last) | answers
        return answers

    def _accepted(self, day: Day, answer: PollResult | Failure) -> PollResult | Failure:
        if isinstance(answer, PollResult) and answer.parts > 1 and isinstance(self._poller, AcceptsParts):
            try:
                self._poller.accept(day, answer.counts)
            except ConnectError as error:
                return Failure.from_error(error)
        return answer

    def _tried(self, day: Day) -> int:
        """Return in how many partitions a day alone ran into its deadline; 0 if it did not, or cannot be split."""
        return 0 if day.date in self._left_whole else self._parts.get(day.date, 0)

    def _note(self, day: Day, attempt: str, parts: int) -> None:
        """Keep that a day in so many partitions ran into its deadline; in 0, together with others."""
        self._parts[day.date] = parts
        self._late_now.add(day.date)
        note = _Note(fingerprint=self._leftovers.fingerprint, parts=parts)
        try:
            self._leftovers.root.write(deadline_file(attempt), note.model_dump_json().encode())
        except ConnectError as error:  # it must not hide the deadline
            log_line(f"day {day}: the next try will not know that it ran into its deadline: {error}")


def _failures(outcomes: Sequence[PollOutcome]) -> set[str]:
    return {outcome.failure.type for outcome in outcomes if outcome.failure is not None}


def _to_be_split(answer: PollResult | Failure) -> PollResult | Failure:
    """Say of a failure at the deadline what comes next."""
    if not isinstance(answer, Failure) or answer.type != DeadlineError.__name__:
        return answer
    return answer.model_copy(update={"message": f"{answer.message}; the next try asks for the day in more requests"})
