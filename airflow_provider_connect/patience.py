"""Waits with a time limit, a number of tries, and pauses between tries.

* After a failed operation, :meth:`Patience.wait_and_retry` begins no pause longer than the remaining time.
* For an expected event, :meth:`Patience.wait_and_poll` shortens the last pause, to check last at the end.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from typing import Protocol

# Jitter: which part of a pause is slept. Those who failed together must not come back together.
FROM_HALF = (0.5, 1.0)
FROM_NONE = (0.0, 1.0)
_ASKED_FOR = (1.0, 1.5)


class Clock(Protocol):
    """The clock of a wait."""

    def now(self) -> float:
        """Return seconds since a fixed instant. Never decreases."""

    def sleep(self, seconds: float) -> None:
        """Return after this time."""


class SystemClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        """Return :func:`time.monotonic`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)


CLOCK: Clock = SystemClock()


def doubling_pauses(first_seconds: float, most_seconds: float) -> tuple[float, ...]:
    """Return pauses in seconds that double from the first to the longest."""
    pauses = [first_seconds]
    while pauses[-1] < most_seconds:
        pauses.append(min(2 * pauses[-1], most_seconds))
    return tuple(pauses)


class Patience:
    """One wait, begun on construction.

    :param seconds: limit of tries and pauses together.
    :param pauses: seconds between tries. The last one repeats.
    :param jitter: range of a random factor.
    :param tries: most tries, including the first.
    """

    def __init__(
        self,
        seconds: float = math.inf,
        pauses: Sequence[float] = (0.0,),
        *,
        jitter: tuple[float, float] = (1.0, 1.0),
        tries: float = math.inf,
        clock: Clock | None = None,
        chance: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._seconds = seconds
        self._pauses = pauses
        self._jitter = jitter
        self._most_tries = tries
        self._clock = clock or CLOCK
        self._chance = chance
        self.restart()

    def restart(self) -> None:
        """Restart time and number of tries, after progress."""
        self.tries = 1
        self._started = self._clock.now()
        self._ends = self._started + self._seconds

    def shorten(self, seconds: float) -> None:
        """Limit the remaining time to this number of seconds."""
        self._ends = min(self._ends, self._clock.now() + seconds)

    @property
    def spent_seconds(self) -> float:
        """Seconds since the start."""
        return self._clock.now() - self._started

    @property
    def left_seconds(self) -> float:
        """Remaining seconds. Negative after the end."""
        return self._ends - self._clock.now()

    @property
    def is_over(self) -> bool:
        """True if no time or no try is left."""
        return self.left_seconds <= 0 or self.tries >= self._most_tries

    def next_pause(self, requested_seconds: float | None = None) -> float | None:
        """Return the seconds before the next try, None if no time is left.

        :param requested_seconds: the least pause.
        """
        requested, remaining = requested_seconds or 0.0, self.left_seconds
        pause = self._pause()
        if self.is_over or max(pause, requested) >= remaining:
            return None
        # The try that follows needs time too: chance adds at most half of what the asked pause leaves.
        return max(pause, self._chance(requested, min(requested * _ASKED_FOR[1], (requested + remaining) / 2)))

    def pause_as_requested(self, seconds: float) -> float:
        """Return a pause between the requested seconds and one and a half times as many."""
        return seconds * self._chance(*_ASKED_FOR)

    def sleep(self, seconds: float) -> None:
        """Sleep, and count one more try."""
        self.tries += 1
        if seconds > 0:
            self._clock.sleep(seconds)

    def wait_and_retry(self, requested_seconds: float | None = None) -> bool:
        """Pause before another try. Returns False, without a pause, if no time is left for a try."""
        pause = self.next_pause(requested_seconds)
        if pause is None:
            return False
        self.sleep(pause)
        return True

    def wait_and_poll(self) -> bool:
        """Pause before another check. Returns False, without a pause, if the time was up at the previous check."""
        if self.is_over:
            return False
        self.sleep(min(self._pause(), self.left_seconds))
        return True

    def _pause(self) -> float:
        return self._pauses[min(self.tries, len(self._pauses)) - 1] * self._chance(*self._jitter)
