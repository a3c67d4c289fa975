"""Showing what was set aside."""

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterator

from airflow_provider_connect.stage.rejects import DayRejects


class KeepsRejects(ABC):
    """A publisher whose sink keeps the rejects of published days."""

    @abstractmethod
    def rejects(self, first: dt.date, last: dt.date, records: int) -> Iterator[DayRejects]:
        """Yield what was set aside of each published day's newest answer, the oldest day first; read anew.

        :param records: of how many rejects a day the record itself is wanted.
        """
