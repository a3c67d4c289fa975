"""Taking people's rows out of what is published."""

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Sequence

from airflow_provider_connect.stage.erasing import Erasure, ShapingDigest, unshaped
from airflow_provider_connect.window import SourceKind


class Erases(ABC):
    """A publisher that keeps an erase list and takes the rows of its values out of the target."""

    @abstractmethod
    def find(self, column: str, values: Sequence[str]) -> dict[dt.date, int]:
        """Count the rows that :meth:`erase` would take out, by day. Changes nothing; no job is running."""

    @abstractmethod
    def erase(self, column: str, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest = unshaped) -> Erasure:
        """Put values on the erase list, then take their rows out of every day that has some. No job need stand still.

        Safe to repeat, also after a kill: values that are on the list already are searched for again.

        :param shaping: digests of the shapes that made the values, which the list keeps.
        :raises ConfigError: the target has no such column, or its list is full, of another column or of other shapes.
        :raises RetriableError: the sink is away, or others kept winning the race: the rest is to be erased yet.
        """

    def copies(self) -> list[str]:
        """Return the places whose rows :meth:`erase` does not delete, such as rejects, and how to clear each."""
        return []
