"""What ``make demo`` needs to know of a sink: one small class for each."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar


class Target(ABC):
    """The table that one run of the demo fills.

    :param folder: of the demo; the target writes its files there.
    """

    name: ClassVar[str]
    dag_id: ClassVar[str]
    reader: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def settings(self) -> dict[str, str]:
        """Environment variables by which the DAG file finds the table."""
        return {}

    @property
    def connections(self) -> list[dict[str, Any]]:
        """Airflow connections the sink needs, as the REST API takes them."""
        return []

    def as_kept(self, properties: str) -> str:
        """Return what the table keeps of the properties' JSON text; by default every byte."""
        return properties

    def where_to_look(self, dag_url: str) -> str:
        """Return where a person can see the results."""
        return f"the UI is at {dag_url}"

    @abstractmethod
    def start(self, environment: dict[str, str]) -> str:
        """Prepare the target; return one line that says what it is.

        :param environment: for every process it starts, so that they end with the demo.
        :raises RuntimeError: it cannot be prepared; the message says why.
        """

    @abstractmethod
    def rows(self) -> int:
        """Return how many rows a reader sees; 0 while there is no table."""

    @abstractmethod
    def events(self) -> Iterable[tuple[dt.date, str, str]]:
        """Return day, event and properties (JSON text) of every row."""

    @abstractmethod
    def sample(self) -> list[tuple[Any, ...]]:
        """Return the three oldest rows, shortened, by a query that a person would write."""

    def more(self) -> list[str]:
        """Return lines about anything else worth a look; [] if there are only rows."""
        return []
