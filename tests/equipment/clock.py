"""A clock for waits that take no time."""

from __future__ import annotations


class NoTime:
    """Goes on by what is slept, at once.

    :param look_seconds: by how much it goes on whenever somebody looks at it.
    """

    def __init__(self, look_seconds: float = 0.0) -> None:
        self.seconds = 0.0
        self.look_seconds = look_seconds
        self.pauses: list[float] = []

    def now(self) -> float:
        """Return the seconds slept and looked away so far."""
        self.seconds += self.look_seconds
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Note the pause."""
        self.pauses.append(seconds)
        self.seconds += seconds
