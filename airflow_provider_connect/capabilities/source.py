"""Capabilities of some sources, requested from the configured stream: ``source.capability(HasQuota)``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    from airflow_provider_connect.polling.findings import Finding, ProposalRequest
    from airflow_provider_connect.polling.quota.limits import Quota
    from airflow_provider_connect.polling.quota.turns import KeyStore


class HasQuota(ABC):
    """A source whose vendor limits requests.

    The task reserves them before Spark starts, and waits without a worker slot.
    """

    if TYPE_CHECKING:
        parallel_days: int

    @abstractmethod
    def quota(self, connection: Connection) -> Quota | None:
        """Return the limit that all readers of a project share, or None if none is known. No network."""

    def requests_for(self, days: Sequence[Day]) -> int:
        """Return the fewest requests that days cost. Days of one plan cost as much as the first of them alone."""
        return len(days)

    def requests_at_once(self, days: Sequence[Day]) -> int:
        """Return how many requests for days may run at the same time."""
        return min(self.parallel_days, len(days), max(1, self.requests_for(days)))


class Counts:
    """A source whose vendor counts rows, to compare with the answer. Its poller is a :class:`.CountsRows`."""

    def count_problems(self) -> list[str]:
        """Return the reasons why the options do not allow a comparison of count and rows, or [] if there are none."""
        return []

    @property
    def counts_first(self) -> bool:
        """True if a plan needs its day's count. Then each day is counted and compared in any case."""
        return False

    @property
    def parts_at_once(self) -> int:
        """Number of partitions of a split day (:class:`.Splits`) that may be polled at the same time.

        1: no day is split.
        """
        return 1

    def requests_to_count(self, days: Sequence[Day]) -> int:
        """Return the most requests of :meth:`count_quota` that it takes to count each day once."""
        return len(days)

    def count_quota(self, connection: Connection) -> Quota | None:
        """Return the limit on counts if it differs from the source's quota, else None. No network."""
        return None


class NamesColumns(ABC):
    """A source whose options may name the columns of its rows."""

    @abstractmethod
    def column_names(self) -> Sequence[str] | None:
        """Return the names, or None if the options leave some to the source."""


class CountsLate:
    """A source whose polls count late rows (:func:`.polling.late.count_late`), because rows have an arrival time."""


class ReloadsWhenLost:
    """A source that reads all rows again when its stream of increments cannot be followed any more."""


class Inspects(ABC):
    """A source that checks over the network whether a run would work, for ``airflow connect check``."""

    @abstractmethod
    def inspect(self, connection: Connection, day: Day, store: KeyStore | None) -> Sequence[Finding]:
        """Return findings, including problems with remedies. Loads nothing.

        :param day: the day that a run would load.
        :param store: counter of the requests of all tasks, or None to count none.
        :raises ConnectError: the system is unreachable.
        """


class Proposes(ABC):
    """A source class that suggests options for a person to review, for ``airflow connect propose``."""

    proposal_fields: ClassVar[frozenset[str]]
    """Fields of :class:`.ProposalRequest` that this source uses."""

    @classmethod
    @abstractmethod
    def propose(cls, request: ProposalRequest, connection: Connection | None, store: KeyStore | None) -> str:
        """Return text to paste into a DAG or declaration file. It shows no value of a record.

        :param connection: None if the request contains a document instead.
        :param store: counter of the requests of all tasks, or None to count none.
        :raises ConnectError: as a poll does.
        """
