"""What ``make demo`` needs to know of a sink; one small class for each sink says it."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar


class Target(ABC):
    """The table that one run of the demo fills.

    :param folder: of the demo; whatever the target writes goes there.
    """

    name: ClassVar[str]
    dag_id: ClassVar[str]
    reader: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def settings(self) -> dict[str, str]:
        """Environment variables for Airflow, by which the DAG file finds the table."""
        return {}

    @property
    def connections(self) -> list[dict[str, Any]]:
        """Airflow connections the sink needs, as the REST API takes them."""
        return []

    def as_kept(self, properties: str) -> str:
        """Return what the table keeps of the properties' JSON text: every byte, unless a sink says otherwise."""
        return properties

    def look(self, dag_url: str) -> str:
        """Tell where a person can look at what happened."""
        return f"the UI is at {dag_url}"

    @abstractmethod
    def start(self, environment: dict[str, str]) -> str:
        """Make ready what the DAG writes to; return one line that says what it is.

        :param environment: for every process it starts, so that the demo's end is theirs.
        :raises RuntimeError: it cannot be made ready; the message says why.
        """

    @abstractmethod
    def rows(self) -> int:
        """Return how many rows a reader sees; 0 while there is no table."""

    @abstractmethod
    def events(self) -> Iterable[tuple[dt.date, str, str]]:
        """Return day, event and properties (JSON text) of every row."""

    @abstractmethod
    def sample(self) -> list[tuple[Any, ...]]:
        """Return the three oldest rows, shortened for people, by a query that a person would write."""

    def more(self) -> list[str]:
        """Return lines that tell what else a person would look at; [] where rows are all there is."""
        return []
