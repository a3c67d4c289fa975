"""Capabilities of some pollers. A caller tests for them with ``isinstance``."""

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
    """A poller that requests the vendor's own count of a day, to compare with the rows."""

    @abstractmethod
    def count(self, day: Day, tally: Tally) -> VendorCount:
        """Request the vendor's count of a day. Driver, day after day, before ``plan`` if ``counts_first``.

        :param tally: counts requests, each as soon as it is sent.
        :raises ConfigError: the credentials or the vendor's plan lack a permission, for all days.
        """


Sizes = Callable[[], Sequence[int]]
"""Returns the known sizes of the days nearest to the next one, in decoded bytes."""


class Together(NamedTuple):
    """Number of days of the next plan, and the reason for the log, or "" for none."""

    days: int
    why: str = ""


class SeveralDaysARequest:
    """A poller whose plan may span consecutive days, because one request serves them."""

    days_per_plan: int
    """The most days of one plan."""

    def days_together(self, days: Sequence[Day], sizes: Sizes) -> Together:
        """Return how many of the job's days the next plan should span, by default :attr:`days_per_plan`. Driver."""
        return Together(self.days_per_plan)


class Splits(ABC):
    """A poller that plans a day in more partitions after a request exceeded its deadline."""

    @abstractmethod
    def split(self, day: Day, more_than: int) -> None:
        """Make a day's next plan have more than ``more_than`` partitions, if possible. 0 restores the first plan.

        Driver.
        """


class AcceptsParts(ABC):
    """A poller with a final check or release once all partitions of a day are polled."""

    @abstractmethod
    def accept(self, day: Day, counts: Mapping[str, int]) -> None:
        """Refuse partitions that are valid singly but not together (DataError), and release their resources. Driver."""


class LimitsPartitions:
    """A poller that limits how many partitions of a plan are polled at the same time, or None for no limit."""

    partitions_at_once: int | None = None


class Follows(ABC):
    """A poller of a stream of kind ``increment``: each day begins where the previous one ended."""

    @abstractmethod
    def follow(self, day: Day, after: str | None, to: str | None) -> str:
        """Fix the rows that the next plans of a day read, and return the position where they end.

        Driver, before ``plan``.

        Without this call, as for ``spark.read``, a plan reads from the beginning of the stream.

        :param after: position after which the rows begin, or None for the beginning of the stream.
        :param to: position where an earlier load of the day ended, or None to read to the source's end.
        :return: ``to``, or the increment's last position. ``after`` if there are no rows. The ledger keeps it: at most
            :data:`.stage.spans.MAX_POSITION_CHARACTERS` characters, no secret.
        :raises ConfigError: the position does not belong to this source.
        :raises RowsLostError: new rows would be skipped, and the source is not a :class:`.ReloadsWhenLost`.
        """


class Resumes(ABC):
    """A poller whose complete partitions are kept after a driver died, so that the next try does not poll them again.

    Each partition must be correct by itself, whenever it is polled, and must not need anything of the driver that
    planned it, such as a session.
    """

    begins_anew: str = ""
    """Reason and remedy, for the log, if this stream cannot resume, or "" if it can."""

    @abstractmethod
    def resume(self, day: Day, parts: Sequence[InputPartition]) -> Sequence[InputPartition]:
        """Plan a day as an earlier try did. Driver. If the partitions differ, all of them are polled.

        :param parts: partitions of the earlier try, from the stage. Others may write there: check them.
        """


class ReadBySpark(ABC):
    """A poller whose rows Spark reads: jobs call :meth:`frame` and :meth:`rows_of` instead of ``poll``."""

    @abstractmethod
    def frame(self, part: InputPartition) -> Any:
        """Return a partition as a Spark DataFrame of one partition, without reading rows yet. Driver."""

    @abstractmethod
    def rows_of(
        self, part: InputPartition, batches: Iterator[pa.RecordBatch], tally: Tally
    ) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield a partition's rows from the batches that Spark has read. Executor, without secrets."""

    @abstractmethod
    def error_of(self, error: Exception) -> ConnectError:
        """Convert Spark's error to ours, without a text that may hold a value. Driver."""
