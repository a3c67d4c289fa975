"""Estimates how long a poll still takes, from its pace and the expected total."""

from __future__ import annotations

from typing import NamedTuple

_LEAST_SECONDS = 5.0


class ProgressPoint(NamedTuple):
    """Amount done at a time, in seconds of a monotonic clock."""

    seconds: float
    done: float


class ExpectedTotal(NamedTuple):
    """Amount that a poll is expected to reach."""

    total: float
    reason: str


def seconds_left(first: ProgressPoint, latest: ProgressPoint, total: float) -> float | None:
    """Return the time left at the average pace. None if the pace is unknown or the total is reached."""
    seconds, done = latest.seconds - first.seconds, latest.done - first.done
    if seconds < _LEAST_SECONDS or done <= 0 or latest.done >= total:
        return None
    return seconds * (total - latest.done) / done


def rough_time(seconds: float) -> str:
    """Return a duration as rounded text, such as "about 4 min"."""
    if seconds < 95:
        return f"about {max(10, round(seconds, -1)):.0f} s"
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 90 else f"about {seconds / 3600:.1f} h"


class PollPace:
    """Pace of one poll, measured from its first rows."""

    def __init__(self) -> None:
        self._first: ProgressPoint | None = None
        self._last = 0.0

    def time_left_text(self, latest: ProgressPoint, expected: ExpectedTotal | None) -> str:
        """Return the time left and its basis as text, or "" without an estimate."""
        if latest.done < self._last:  # a retry begins again
            self._first = None
        self._last = latest.done
        if self._first is None and latest.done:
            self._first = latest
        if self._first is None or expected is None:
            return ""
        time_left = seconds_left(self._first, latest, expected.total)
        return "" if time_left is None else f"{rough_time(time_left)} left, as {expected.reason}"
