"""Faults of a stand-in, in order. Each serves a number of requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar


class Counted(Protocol):
    """A fault."""

    @property
    def times(self) -> int | None:
        """Number of requests. None for all."""


AnyFault = TypeVar("AnyFault", bound=Counted)


class Schedule(Generic[AnyFault]):
    """Remaining faults in order. Each request takes the first that fits."""

    def __init__(self, faults: Iterable[AnyFault] = ()) -> None:
        self._lock = threading.Lock()
        self.replace(faults)

    def replace(self, faults: Iterable[AnyFault]) -> None:
        """Forget the old schedule and start a new one."""
        with self._lock:
            self._faults: list[tuple[AnyFault, int | None]] = [(fault, fault.times) for fault in faults]

    def remaining(self) -> list[AnyFault]:
        """Return the faults that no request has taken yet."""
        with self._lock:
            return [fault for fault, times in self._faults if times is None or times > 0]

    def take_first(self, fits: Callable[[AnyFault], bool]) -> AnyFault | None:
        """Return the first fault that fits a request, and count it as spent."""
        with self._lock:
            for index, (fault, times) in enumerate(self._faults):
                if times != 0 and fits(fault):
                    self._faults[index] = (fault, None if times is None else times - 1)
                    return fault
        return None
