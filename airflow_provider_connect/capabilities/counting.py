"""The vendor's own count of a day, which the rows are compared with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.source import Source
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    from airflow_provider_connect.polling.quota.limits import Quota
    from airflow_provider_connect.polling.tally import Tally


@dataclass(frozen=True)
class VendorCount:
    """How many rows of a day the vendor counts.

    :param rows: without the duplicates that the vendor drops.
    :param is_least: the day may rightly have more: the vendor does not count all that it sends.
    :param is_most: the day may rightly have fewer: the vendor does not send all that it counts. It is compared only
        where ``reconcile`` asks for it.
    """

    rows: int
    is_least: bool = False
    is_most: bool = False


class Counts(ABC):  # noqa: B024  # every member has a default
    """A source whose vendor counts rows. Its poller is a :class:`CountsRows`."""

    def count_problems(self) -> list[str]:
        """Return the reasons why the options forbid to compare the count with the rows; [] if there is none."""
        return []

    @property
    def counts_first(self) -> bool:
        """True if a plan needs the count of its day: then each day is counted and compared in any case."""
        return False

    @property
    def parts_at_once(self) -> int:
        """How many partitions of a day that ran into its deadline may be polled at the same time.

        1 means that days are not split. Above 1 the poller is a :class:`.Splits`.
        """
        return 1

    def requests_to_count(self, days: Sequence[Day]) -> int:
        """Return how many requests of :meth:`count_quota` it takes at most to count days, each once."""
        return len(days)

    def count_quota(self, connection: Connection) -> Quota | None:
        """Return the limit on counts, if it is another than the source's quota; else None. No network."""
        return None


class CountsRows(ABC):
    """A poller that asks for the count."""

    @abstractmethod
    def count(self, day: Day, tally: Tally) -> VendorCount:
        """Ask the vendor for the count of a day. Driver, one day after the other, before ``plan`` if ``counts_first``.

        :param tally: counts requests, each as soon as it is sent.
        :raises ConfigError: the credentials, the role or the vendor's plan do not allow it.
        :raises RetriableError: the vendor is away, in trouble or busy.
        """


def count_problems(source: Source) -> list[str]:
    """Return the reasons why a source's rows cannot be compared with a count; [] if there is none."""
    counts = source.capability(Counts)
    if counts is None:
        return [f"source {source.name!r} knows no count of the vendor's own for {source.stream_key}"]
    return counts.count_problems()


def counts_first(source: Source) -> Counts | None:
    """Return the counts of a source whose plans need them; else None."""
    counts = source.capability(Counts)
    return counts if counts is not None and counts.counts_first else None


def count_quota(source: Source, connection: Connection) -> Quota | None:
    """Return the limit on a source's counts, if they have one of their own."""
    counts = source.capability(Counts)
    return None if counts is None else counts.count_quota(connection)


def parts_at_once(source: Source) -> int:
    """Return how many partitions of a split day may be polled at the same time; 1 if days are not split."""
    counts = source.capability(Counts)
    return 1 if counts is None else counts.parts_at_once
