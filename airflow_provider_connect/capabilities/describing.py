"""What some sources know of their rows before they are asked."""

from abc import ABC, abstractmethod
from collections.abc import Sequence


class NamesColumns(ABC):
    """A source whose options may name the columns of its rows."""

    @abstractmethod
    def column_names(self) -> Sequence[str] | None:
        """Return the names; None if the options leave some to the source."""


class CountsLate:
    """A source whose polls count late rows (:func:`.polling.late.count_late`), because rows say when they arrived."""
