"""What only some sources can do. Asked of the configured stream: ``source.capability(HasQuota)``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    from airflow_provider_connect.polling.findings import Finding, ProposalRequest
    from airflow_provider_connect.polling.quota.limits import Quota
    from airflow_provider_connect.polling.quota.turns import Store


class HasQuota(ABC):
    """A source whose vendor limits requests: the task reserves them before Spark starts, and waits without a worker."""

    if TYPE_CHECKING:
        parallel_days: int

    @abstractmethod
    def quota(self, connection: Connection) -> Quota | None:
        """Return the limit that all who read a project share; None if none is known. No network."""

    def requests_for(self, days: Sequence[Day]) -> int:
        """Return how many requests days cost at least. Days of one plan cost as much as the first of them alone."""
        return len(days)

    def requests_at_once(self, days: Sequence[Day]) -> int:
        """Return how many requests for days may be under way at the same time."""
        return min(self.parallel_days, len(days), max(1, self.requests_for(days)))


class Counts:
    """A source whose vendor counts rows, which the answer is compared with. Its poller is a :class:`.CountsRows`."""

    def count_problems(self) -> list[str]:
        """Return the reasons why the options forbid to compare the count with the rows; [] if there is none."""
        return []

    @property
    def counts_first(self) -> bool:
        """True if a plan needs the count of its day: then each day is counted and compared in any case."""
        return False

    @property
    def parts_at_once(self) -> int:
        """How many partitions of a day that is split (:class:`.Splits`) may be polled at once. 1: no day is split."""
        return 1

    def requests_to_count(self, days: Sequence[Day]) -> int:
        """Return how many requests of :meth:`count_quota` it takes at most to count days, each once."""
        return len(days)

    def count_quota(self, connection: Connection) -> Quota | None:
        """Return the limit on counts, if it is another than the source's quota; else None. No network."""
        return None


class NamesColumns(ABC):
    """A source whose options may name the columns of its rows."""

    @abstractmethod
    def column_names(self) -> Sequence[str] | None:
        """Return the names; None if the options leave some to the source."""


class CountsLate:
    """A source whose polls count late rows (:func:`.polling.late.count_late`), because rows say when they arrived."""


class ReloadsWhenLost:
    """A source that reads all rows again when its stream of increments cannot be followed any more."""


class Inspects(ABC):
    """A source that can tell over the network whether a run would work. ``airflow connect check`` asks it."""

    @abstractmethod
    def inspect(self, connection: Connection, day: Day, store: Store | None) -> Sequence[Finding]:
        """Return the findings, problems with their remedies among them. Loads nothing.

        :param day: the day that a run would load.
        :param store: where the requests of all tasks are counted. With None they are not counted.
        :raises ConnectError: the system cannot be reached.
        """


class Proposes(ABC):
    """A source class that suggests options for a person to read and set. ``airflow connect propose`` asks it."""

    proposal_fields: ClassVar[frozenset[str]]
    """Fields of :class:`.ProposalRequest` that this source takes."""

    @classmethod
    @abstractmethod
    def propose(cls, request: ProposalRequest, connection: Connection | None, store: Store | None) -> str:
        """Return text to paste into a DAG or declaration file. It shows no value of a record.

        :param connection: None if the request has a document in its place.
        :param store: where the requests of all tasks are counted. With None they are not counted.
        :raises ConnectError: as a poll does.
        """
