"""Preflight: a source looks at its system over the network, before the first run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    from airflow_provider_connect.polling.findings import Finding
    from airflow_provider_connect.polling.quota.turns import Store


class Inspects(ABC):
    """A source that can tell over the network whether a run would work. ``airflow connect check`` asks it."""

    @abstractmethod
    def inspect(self, connection: Connection, day: Day, store: Store | None) -> Sequence[Finding]:
        """Return the findings, problems with their remedies among them. Loads nothing.

        :param day: the day that a run would load.
        :param store: where the requests of all tasks are counted. With None they are not counted.
        :raises ConnectError: the system cannot be reached.
        """
