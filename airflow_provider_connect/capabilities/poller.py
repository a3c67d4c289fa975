"""Capabilities of some pollers, tested with ``isinstance``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.source import InputPartition
from airflow_provider_connect.stage.counts import VendorCount
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.polling.tally import Tally


class CountsRows(ABC):
    """Poller that requests the vendor's own count of a day."""

    @abstractmethod
    def count(self, day: Day, tally: Tally) -> VendorCount:
        """Request the vendor's count of one day. Runs on the driver, before ``plan`` if ``counts_first`` is True.

        :raises ConfigError: no counts are allowed.
        """


Sizes = Callable[[], Sequence[int]]
"""Returns the known sizes, in decoded bytes, of the days nearest to the next day to plan."""


class Together(NamedTuple):
    """Number of days in the next plan, and the reason for the log, or ""."""

    days: int
    why: str = ""


class SeveralDaysARequest:
    """Poller whose plan may span consecutive days, because one request returns them all."""

    days_per_plan: int
    """Largest number of days in a plan."""

    def days_together(self, days: Sequence[Day], sizes: Sizes) -> Together:
        """Return how many days the next plan should span. Defaults to :attr:`days_per_plan`. Runs on the driver."""
        return Together(self.days_per_plan)


class Splits(ABC):
    """Poller that can split a day into more partitions after an exceeded deadline."""

    @abstractmethod
    def split(self, day: Day, more_than: int) -> None:
        """Make the day's next plan exceed ``more_than`` partitions. 0 restores the first plan. Runs on the driver."""


class AcceptsParts(ABC):
    """Poller that checks a day once all its partitions are polled."""

    @abstractmethod
    def accept(self, day: Day, counts: Mapping[str, int]) -> None:
        """Check all partitions of a day together, and release their resources. Runs on the driver.

        :raises DataError: they do not fit together.
        """


class LimitsPartitions:
    """Poller with a limit (None for none) on a plan's partitions that are polled at the same time."""

    partitions_at_once: int | None = None


class LimitsPolls:
    """Poller with a limit (None for none) on a job's partitions that are polled at the same time."""

    max_polls: int | None = None


class Follows(ABC):
    """Poller of increments: each day begins where the previous day ended."""

    @abstractmethod
    def follow(self, day: Day, after: str | None, to: str | None) -> str:
        """Fix the rows that the day's next plans read, and return the position where they end.

        Runs on the driver, before ``plan``.

        :param after: position after which the rows begin, or None.
        :param to: position where an earlier load of the day ended, or None.
        :return: ``to`` if given, else the last position. ``after`` without rows. At most
            :data:`.stage.spans.MAX_KEPT_CHARACTERS` characters, no secret.
        :raises ConfigError: the position does not belong to this source.
        :raises RowsLostError: new rows would be skipped.
        """


class Resumes(ABC):
    """Poller whose complete partitions survive the death of a driver.

    Each partition must be correct by itself, whenever it is polled.
    """

    begins_anew: str = ""
    """Reason why this stream cannot resume, with the remedy, or ""."""

    @abstractmethod
    def resume(self, day: Day, parts: Sequence[InputPartition]) -> Sequence[InputPartition]:
        """Plan a day as an earlier try did. Runs on the driver. If the returned partitions differ, all are polled.

        :param parts: the earlier try's partitions. Check them: others may write there.
        """


class ReadBySpark(ABC):
    """Poller whose rows Spark reads, by :meth:`frame` and :meth:`rows_of` instead of ``poll``."""

    @abstractmethod
    def frame(self, part: InputPartition) -> Any:
        """Return a partition as a DataFrame with one Spark partition, without reading. Runs on the driver."""

    @abstractmethod
    def rows_of(
        self, part: InputPartition, batches: Iterator[pa.RecordBatch], tally: Tally
    ) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield a partition's days and rows from the batches. Runs on an executor, without secrets."""

    @abstractmethod
    def error_of(self, error: Exception) -> ConnectError:
        """Convert an error of Spark to one of this package, without values of rows. Runs on the driver."""
