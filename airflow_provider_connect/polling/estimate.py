"""How long a poll still takes: from its pace, and from how much is known, or guessed, to come.

No estimate is better than a wrong one. There is none before the pace is known, none beyond what was expected, and each
names what it goes by.
"""

from __future__ import annotations

from typing import NamedTuple

_LEAST_SECONDS = 5.0


class Point(NamedTuple):
    """How much was done at a moment.

    :param seconds: since whenever.
    """

    seconds: float
    done: float


class Expected(NamedTuple):
    """How much there will be.

    :param why: what follows "about 4 min left, as".
    """

    total: float
    why: str


def seconds_left(first: Point, now: Point, total: float) -> float | None:
    """Return how long the rest takes at the pace since ``first``; None if that cannot be told."""
    seconds, done = now.seconds - first.seconds, now.done - first.done
    if seconds < _LEAST_SECONDS or done <= 0 or now.done >= total:
        return None
    return seconds * (total - now.done) / done


def about(seconds: float) -> str:
    """Return a time as roughly as it is known."""
    if seconds < 95:
        return f"about {max(10, round(seconds, -1)):.0f} s"
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 90 else f"about {seconds / 3600:.1f} h"


class Pace:
    """The pace of one poll from its first rows on: what a source takes to begin says nothing about the rest."""

    def __init__(self) -> None:
        self._first: Point | None = None
        self._last = 0.0

    def told(self, now: Point, expected: Expected | None) -> str:
        """Return the time left, and why; "" if that cannot be told."""
        if now.done < self._last:  # a retry begins again
            self._first = None
        self._last = now.done
        if self._first is None and now.done:
            self._first = now
        if self._first is None or expected is None:
            return ""
        left = seconds_left(self._first, now, expected.total)
        return "" if left is None else f"{about(left)} left, as {expected.why}"
