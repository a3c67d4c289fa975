"""Trying again: for how long, how often, and with which pauses between.

Whatever waits here waits with a :class:`Patience`, in one of two ways:

* **An operation failed** and may succeed later: :meth:`Patience.again`. A pause that would outlast the time allowed is
  not begun, for no try could follow it.
* **Something is expected to happen**: :meth:`Patience.look_again`. The last pause is cut short, so that the last look
  comes when the time is up.

Which errors are worth another try is the caller's to know.

Not tenacity's: its clock is fixed to ``time.monotonic``, and it has neither a restart after progress nor a last look
when the time is up.
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
    """What a wait is measured with. Tests pass one that takes no time."""

    def now(self) -> float:
        """Return seconds since some fixed instant. They never go back."""

    def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Return the seconds of :func:`time.monotonic`."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)


CLOCK: Clock = SystemClock()
"""The clock of every wait that is given no other."""


def doubling(first_seconds: float, most_seconds: float) -> tuple[float, ...]:
    """Return pauses that double from the first until they reach the longest."""
    pauses = [first_seconds]
    while pauses[-1] < most_seconds:
        pauses.append(min(2 * pauses[-1], most_seconds))
    return tuple(pauses)


class Patience:
    """One wait, from the moment it is made; ``tries`` counts the tries so far, the one under way included.

    :param seconds: how long it may take, tries and pauses together.
    :param pauses: the seconds between tries, in order; the last one repeats.
    :param jitter: each pause is multiplied by a random number between these two.
    :param tries: how many tries there may be, the first included.
    :param clock: :data:`CLOCK` if None.
    :param chance: returns a random number between two others.
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
        """Begin anew, because there was progress."""
        self.tries = 1
        self._started = self._clock.now()
        self._ends = self._started + self._seconds

    def shorten(self, seconds: float) -> None:
        """Allow no more than so many seconds from now on."""
        self._ends = min(self._ends, self._clock.now() + seconds)

    @property
    def spent_seconds(self) -> float:
        """How long it has taken so far."""
        return self._clock.now() - self._started

    @property
    def left_seconds(self) -> float:
        """How long it may still take; negative once the time is up."""
        return self._ends - self._clock.now()

    @property
    def is_over(self) -> bool:
        """Whether the time is up, or the tries are used up."""
        return self.left_seconds <= 0 or self.tries >= self._most_tries

    def next_pause(self, asked_seconds: float | None = None) -> float | None:
        """Return how long to pause before the next try; None if there is no time for one.

        :param asked_seconds: how long the other side asked to be left alone. If that fits, what chance adds does too.
        """
        asked, left = asked_seconds or 0.0, self.left_seconds
        pause = self._pause()
        if self.is_over or max(pause, asked) >= left:
            return None
        # The try that follows needs time too: chance adds at most half of what the asked pause leaves.
        return max(pause, self._chance(asked, min(asked * _ASKED_FOR[1], (asked + left) / 2)))

    def as_asked(self, seconds: float) -> float:
        """Return how long to pause where the other side asked for so long.

        Never shorter, and up to half as long again: others were asked the same, and must not come back all at once.
        """
        return seconds * self._chance(*_ASKED_FOR)

    def sleep(self, seconds: float) -> None:
        """Pause; a try follows."""
        self.tries += 1
        if seconds > 0:
            self._clock.sleep(seconds)

    def again(self, asked_seconds: float | None = None) -> bool:
        """Pause before another try, and return True; return False at once if there is no time for one."""
        pause = self.next_pause(asked_seconds)
        if pause is None:
            return False
        self.sleep(pause)
        return True

    def look_again(self) -> bool:
        """Pause before another look, and return True; return False at once if the time was up at the last one."""
        if self.is_over:
            return False
        self.sleep(min(self._pause(), self.left_seconds))
        return True

    def _pause(self) -> float:
        return self._pauses[min(self.tries, len(self._pauses)) - 1] * self._chance(*self._jitter)
