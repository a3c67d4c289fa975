"""Capabilities of some sources, requested from a configured source: ``source.capability(HasQuota)``."""

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
    from airflow_provider_connect.source import ListedStream, Source, StreamListing


class HasQuota(ABC):
    """Source whose vendor limits requests."""

    if TYPE_CHECKING:
        parallel_days: int

    @abstractmethod
    def quota(self, connection: Connection) -> Quota | None:
        """Return the limit that all readers of a vendor's project share, None if unknown. No network."""

    def requests_for(self, days: Sequence[Day]) -> int:
        """Return the lowest number of requests for the days. A plan of several days costs as much as its first day."""
        return len(days)

    def requests_at_once(self, days: Sequence[Day]) -> int:
        """Return how many of the days' requests may run at the same time."""
        return min(self.parallel_days, len(days), max(1, self.requests_for(days)))


class Counts:
    """Source whose vendor counts a day's rows."""

    def count_problems(self) -> list[str]:
        """Return why these options do not allow to compare the vendor's count with the rows."""
        return []

    @property
    def counts_first(self) -> bool:
        """True if a plan needs the day's count, whatever ``reconcile`` is."""
        return False

    @property
    def parts_at_once(self) -> int:
        """Most partitions of a split day (:class:`.Splits`) to poll at the same time, else 1."""
        return 1

    def requests_to_count(self, days: Sequence[Day]) -> int:
        """Return the most requests of :meth:`count_quota` that counting each day once takes."""
        return len(days)

    def count_quota(self, connection: Connection) -> Quota | None:
        """Return the quota of counts if separate from the source's. No network."""
        return None


class NamesColumns(ABC):
    """Source that may know its column names from its options."""

    @abstractmethod
    def column_names(self) -> Sequence[str] | None:
        """Return the column names, or None if the options do not name all."""


class CountsLate:
    """Source whose polls count late rows (:func:`.polling.late.count_late`)."""


class ReloadsWhenLost:
    """Source of increments that reads all rows again if its position is lost."""


class ListsStreams(ABC):
    """A source whose options choose many streams, which are known at run time."""

    parallel_streams: int
    """Most streams that a job moves at the same time."""

    @abstractmethod
    def list_streams(self, connection: Connection) -> StreamListing:
        """Return the streams, sorted. Uses the network.

        :raises ConfigError: the options choose no stream.
        :raises RetriableError: the system is unreachable.
        """

    @abstractmethod
    def stream_source(self, choice: str) -> Source:
        """Return the source of one stream.

        :param choice: one of :attr:`ListedStream.choices`.
        :raises ConfigError: its name cannot be part of ledger and offset.
        """

    @abstractmethod
    def example_stream(self) -> ListedStream:
        """Return a stream that need not exist, to validate options without network."""

    @abstractmethod
    def recall_streams(self, stream_key: str, default_schema: str) -> Sequence[ListedStream]:
        """Return the streams that a key may name, whether they are listed or not. [] if the options choose none.

        :param default_schema: as :attr:`StreamListing.default_schema`. "" if unknown.
        """


def require_lister(source: Source) -> ListsStreams:
    """Return a source of many streams, typed as such."""
    lister = source.capability(ListsStreams)
    assert lister is not None
    return lister


class Inspects(ABC):
    """Source that can check over the network whether a run would work, for ``airflow connect check``."""

    @abstractmethod
    def inspect(self, connection: Connection, day: Day, store: KeyStore | None) -> Sequence[Finding]:
        """Return the findings of all checks, each problem with its remedy. Loads nothing.

        :param store: of the quota's counts. None counts no requests.
        :raises ConnectError: the system is unreachable.
        """


class Proposes(ABC):
    """Source that can propose its options, for ``airflow connect propose``."""

    proposal_fields: ClassVar[frozenset[str]]
    """Fields of :class:`.ProposalRequest` that this source uses."""

    @classmethod
    @abstractmethod
    def propose(cls, request: ProposalRequest, connection: Connection | None, store: KeyStore | None) -> str:
        """Return text to paste into a DAG or declaration file, without values of records.

        :param connection: None if the request names another input.
        :param store: see :meth:`Inspects.inspect`.
        :raises ConnectError: as a poll does.
        """
