"""How long a poll still takes: from its pace, and from how much is known, or guessed, to come.

No estimate is better than a wrong one. There is none before the pace is known, none beyond what was expected, and each
names what it goes by.
"""

from __future__ import annotations

from typing import NamedTuple

_LEAST_SECONDS = 5.0


class ProgressPoint(NamedTuple):
    """How much was done at a moment.

    :param seconds: since whenever.
    """

    seconds: float
    done: float


class ExpectedTotal(NamedTuple):
    """How much there will be.

    :param why: what follows "about 4 min left, as".
    """

    total: float
    reason: str


def seconds_left(first: ProgressPoint, latest: ProgressPoint, total: float) -> float | None:
    """Return how long the rest takes at the pace since ``first``; None if that cannot be told."""
    seconds, done = latest.seconds - first.seconds, latest.done - first.done
    if seconds < _LEAST_SECONDS or done <= 0 or latest.done >= total:
        return None
    return seconds * (total - latest.done) / done


def rough_time(seconds: float) -> str:
    """Return a time as roughly as it is known."""
    if seconds < 95:
        return f"about {max(10, round(seconds, -1)):.0f} s"
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 90 else f"about {seconds / 3600:.1f} h"


class PollPace:
    """The pace of one poll from its first rows on: what a source takes to begin says nothing about the rest."""

    def __init__(self) -> None:
        self._first: ProgressPoint | None = None
        self._last = 0.0

    def time_left_text(self, latest: ProgressPoint, expected: ExpectedTotal | None) -> str:
        """Return the time left, and why; "" if that cannot be told."""
        if latest.done < self._last:  # a retry begins again
            self._first = None
        self._last = latest.done
        if self._first is None and latest.done:
            self._first = latest
        if self._first is None or expected is None:
            return ""
        time_left = seconds_left(self._first, latest, expected.total)
        return "" if time_left is None else f"{rough_time(time_left)} left, as {expected.reason}"
