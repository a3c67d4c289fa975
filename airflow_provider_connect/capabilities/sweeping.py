"""Deleting what dead attempts left in the sink."""

from abc import ABC, abstractmethod


class Sweeps(ABC):
    """A publisher of which an attempt that dies leaves something behind."""

    @abstractmethod
    def sweep(self) -> int:
        """Delete what attempts left that are long dead; return how many files. Driver, once a job, last."""

    @abstractmethod
    def leftovers(self) -> list[str]:
        """Return the names of what :meth:`sweep` would delete now. Changes nothing."""
