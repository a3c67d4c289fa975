"""What some sources know of their rows before they are asked."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from airflow_provider_connect.source import Source


class NamesColumns(ABC):
    """A source whose options may name the columns of its rows."""

    @abstractmethod
    def column_names(self) -> Sequence[str] | None:
        """Return the names; None if the options leave some to the source."""


class CountsLate:
    """A source whose polls count late rows (:func:`.polling.late.count_late`), because rows say when they arrived."""


def column_names(source: Source) -> Sequence[str] | None:
    """Return the names of the rows' columns if the options alone tell them; else None."""
    names = source.capability(NamesColumns)
    return None if names is None else names.column_names()
