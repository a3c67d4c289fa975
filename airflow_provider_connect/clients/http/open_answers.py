"""The answers that a poll's threads are reading: whoever gives the poll up ends them, and the pauses between them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from airflow_provider_connect.errors import RetriableError


class Interruptible(Protocol):
    """An answer, or the connection over which it is to come."""

    def interrupt(self) -> None:
        """End it now, with an error in its reader."""


class OpenAnswers:
    """Answers under way. For several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[Interruptible] = set()
        self._over = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether the poll was given up."""
        return self._over.is_set()

    def require(self) -> None:
        """Make sure that the poll goes on.

        :raises RetriableError: it was given up.
        """
        if self.is_over:
            raise RetriableError("the poll was given up")

    @contextmanager
    def reading(self, answer: Interruptible) -> Iterator[None]:
        """Let :meth:`end` end an answer, with an error in its reader, while the block runs."""
        with self._lock:
            self._open.add(answer)
            if self.is_over:
                answer.interrupt()
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(answer)

    def sleep(self, seconds: float) -> None:
        """Pause; not longer than until :meth:`end`."""
        self._over.wait(seconds)

    def end(self) -> None:
        """Give the poll up."""
        with self._lock:
            self._over.set()
            for answer in self._open:
                answer.interrupt()
