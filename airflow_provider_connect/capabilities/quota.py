"""Limits on requests that all who read a project share."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.source import Source
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    from airflow_provider_connect.polling.quota.limits import Quota


class HasQuota(ABC):
    """A source whose vendor limits requests: the task reserves them before Spark starts, and waits without a worker."""

    if TYPE_CHECKING:
        parallel_days: int

    @abstractmethod
    def quota(self, connection: Connection) -> Quota | None:
        """Return the shared limit; None if none is known. No network."""

    def requests_for(self, days: Sequence[Day]) -> int:
        """Return how many requests days cost at least. Days of one plan cost as much as the first of them alone."""
        return len(days)

    def requests_at_once(self, days: Sequence[Day]) -> int:
        """Return how many requests for days may be under way at the same time."""
        return min(self.parallel_days, len(days), max(1, self.requests_for(days)))


def quota_of(source: Source, connection: Connection) -> Quota | None:
    """Return the limit on a source's requests; None if it has none."""
    limited = source.capability(HasQuota)
    return None if limited is None else limited.quota(connection)


def requests_for(source: Source, days: Sequence[Day], alone: Collection[dt.date] = ()) -> int:
    """Return how many requests days cost at least, one each for a source without a quota.

    :param alone: dates of days that share no request with another day.
    """
    limited = source.capability(HasQuota)
    if limited is None:
        return len(days)
    together = [day for day in days if day.date not in alone]
    costs = [limited.requests_for([day]) for day in days if day.date in alone]
    return sum(costs) + (limited.requests_for(together) if together else 0)
