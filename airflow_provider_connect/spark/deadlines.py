"""Remembers which days ran into the deadline of a request, so that they are asked for in more partitions next time.

Days that shared the request are asked for one by one, each as a day that nobody has asked for yet. An hour's request
that failed at its deadline would fail there again. What is kept of it lies in the stage, beside the
rest of its attempt: the next job of the same intent reads it there, be it another try of Airflow or one after a wait
for quota. It is advice only. If the stage is gone, the day is asked for as it was at first.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

from airflow_provider_connect.errors import ConnectError, DeadlineError
from airflow_provider_connect.spark.poll import PollOutcome
from airflow_provider_connect.spark.progress import say
from airflow_provider_connect.stage.manifest import day_of, deadline_file
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day
from airflow_provider_connect.wire import Wire


class _Note(Wire):
    """What is kept of a day.

    :param fingerprint: as a manifest's: what other options led to says nothing.
    :param parts: in how many partitions the day was asked for; 0 if together with others.
    """

    fingerprint: str
    parts: int


class Deadlines:
    """The days of a job that ran into a deadline, in this job or in an earlier one of the same intent.

    :param fingerprint: of what decides how a day is asked for.
    :ivar left_whole: the days that cannot be split.
    :ivar late_now: those that ran into one in this job: what else they cost was not expected when it began.
    """

    def __init__(self, root: Folder, fingerprint: str) -> None:
        self._root = root
        self._fingerprint = fingerprint
        self._parts: dict[dt.date, int] = {}
        self.left_whole: set[dt.date] = set()
        self.late_now: set[dt.date] = set()

    def read(self, attempts: Iterable[str]) -> None:
        """Read what earlier attempts of the same intent have noted."""
        for attempt in attempts:
            try:
                note = _Note.model_validate_json(self._root.read(deadline_file(attempt)))
            except (FileNotFoundError, ValueError):  # swept, or another version's
                continue
            date = day_of(attempt)
            if note.fingerprint == self._fingerprint and date is not None:
                self._parts[date] = max(note.parts, self._parts.get(date, 0))

    def tried(self, day: Day) -> int:
        """Return in how many partitions a day alone ran into its deadline; 0 if it did not, or cannot be split."""
        return 0 if day.date in self.left_whole else self._parts.get(day.date, 0)

    def is_together(self, day: Day) -> bool:
        """Whether a day may be asked for together with others: none of its requests ran into a deadline."""
        return day.date not in self._parts

    def note(self, day: Day, attempt: str, parts: int) -> None:
        """Keep that a day in so many partitions ran into its deadline; in 0, together with others."""
        self._parts[day.date] = parts
        self.late_now.add(day.date)
        note = _Note(fingerprint=self._fingerprint, parts=parts)
        try:
            self._root.write(deadline_file(attempt), note.model_dump_json().encode())
        except ConnectError as error:  # it must not hide the deadline
            say(f"day {day}: the next try will not know that it ran into its deadline: {error}")

    @property
    def alone(self) -> tuple[dt.date, ...]:
        """The days that are asked for alone, because they ran into a deadline together with others."""
        return tuple(sorted(date for date, parts in self._parts.items() if not parts))

    @property
    def dates(self) -> tuple[dt.date, ...]:
        """The days that are to be split."""
        return tuple(sorted({date for date, parts in self._parts.items() if parts} - self.left_whole))


def is_late(outcomes: Sequence[PollOutcome]) -> bool:
    """Whether a partition ran into its deadline."""
    return DeadlineError.__name__ in _failures(outcomes)


def is_only_late(outcomes: Sequence[PollOutcome]) -> bool:
    """Whether nothing else went wrong, which smaller partitions would meet as well."""
    return _failures(outcomes) == {DeadlineError.__name__}


def _failures(outcomes: Sequence[PollOutcome]) -> set[str]:
    return {outcome.failure.type for outcome in outcomes if outcome.failure is not None}
