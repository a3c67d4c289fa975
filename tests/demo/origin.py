"""What ``make demo`` needs to know of a source: one small class for each."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

from tests.demo.target import Target


class Served(Protocol):
    """What a stand-in serves."""

    def expected_rows(self, date: dt.date) -> Iterable[dict[str, Any]]:
        """Return what a table must hold of a day: ``event`` tells rows apart, ``properties`` is the document."""


class Origin(ABC):
    """The stand-in that one run of the demo reads.

    :cvar title: whom it stands in for.
    :cvar things: what it serves.
    :cvar zone: whose days are loaded.
    :cvar task_id: of the task in its DAGs.
    :cvar module: the stand-in's; it takes ``--port-file``.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    things: ClassVar[str]
    zone: ClassVar[str] = "UTC"
    task_id: ClassVar[str]
    module: ClassVar[str]

    @property
    @abstractmethod
    def targets(self) -> Mapping[str, type[Target]]:
        """The sinks that it is shown with, by name."""

    @property
    @abstractmethod
    def served(self) -> Served:
        """What the stand-in serves."""

    @abstractmethod
    def arguments(self, folder: Path, dates: Iterable[dt.date], secret_variable: str) -> list[str]:
        """Return the stand-in's arguments, beside the file for its port.

        :param folder: of the demo.
        :param secret_variable: the environment variable that holds the secret.
        """

    @abstractmethod
    def connection(self, port: int, secret: str) -> dict[str, Any]:
        """Return the Airflow connection to the stand-in, as the REST API takes it."""
