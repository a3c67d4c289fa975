"""What only some pollers can do. Asked with ``isinstance``."""

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
    """A poller that asks for the vendor's own count of a day, which the rows are compared with."""

    @abstractmethod
    def count(self, day: Day, tally: Tally) -> VendorCount:
        """Ask the vendor for the count of a day. Driver, one day after the other, before ``plan`` if ``counts_first``.

        :param tally: counts requests, each as soon as it is sent.
        :raises ConfigError: such as a right that the credentials or the vendor's plan lack: it holds for all days.
        """


Sizes = Callable[[], Sequence[int]]
"""Asks for the sizes of the days nearest to the next one, in bytes after decoding, as far as they are known."""


class Together(NamedTuple):
    """How many days the next plan takes, and the reason for the log; "" for none."""

    days: int
    why: str = ""


class SeveralDaysARequest:
    """A poller whose plan may take consecutive days together, because one request serves them."""

    days_per_plan: int
    """The most days that one plan may take."""

    def days_together(self, wanted: Sequence[Day], sizes: Sizes) -> Together:
        """Return how many of the job's days the next plan should take; by default all that it may. Driver."""
        return Together(self.days_per_plan)


class Splits(ABC):
    """A poller that plans a day in more partitions after a request ran into its deadline."""

    @abstractmethod
    def split(self, day: Day, more_than: int) -> None:
        """Have a day's next plan take more partitions than so many, if it can; 0: as at first. Driver."""


class AcceptsParts(ABC):
    """A poller with something to do once all partitions of a day are polled."""

    @abstractmethod
    def accept(self, day: Day, counts: Mapping[str, int]) -> None:
        """Refuse partitions that are good each and not together (DataError); close what was open for them. Driver."""


class LimitsPartitions:
    """A poller that says how many partitions of a plan are polled at the same time; None for as many as have room."""

    partitions_at_once: int | None = None


class Follows(ABC):
    """A poller of a stream whose ``kind`` is ``increment``: each day begins where the last one ended."""

    @abstractmethod
    def follow(self, day: Day, after: str | None, to: str | None) -> str:
        """Fix which rows the next plans of a day read; return where they end. Driver, before ``plan``.

        A plan without it, as for ``spark.read``, reads from the beginning of the stream.

        :param after: the position behind which they begin; None at the beginning of the stream.
        :param to: the position up to which an earlier load of the day has read; None to read up to the source's end.
        :return: ``to``, or the last position of the increment; ``after`` if nothing came behind it. At most
            :data:`.stage.spans.MOST_CHARACTERS` characters, which the ledger keeps: no secret.
        :raises ConfigError: the position is none of this source's.
        :raises RowsLostError: rows to come would be skipped, and the source is no :class:`.ReloadsWhenLost`.
        """


class Resumes(ABC):
    """A poller whose whole partitions need not be polled again by the next try, after a driver died.

    Each partition must be right by itself, whenever it is polled, and need nothing that only the driver that planned it
    had, such as a session.
    """

    begins_anew: str = ""
    """For the log, the reason why this stream cannot do so, and the remedy; "" if it can."""

    @abstractmethod
    def resume(self, day: Day, parts: Sequence[InputPartition]) -> Sequence[InputPartition]:
        """Plan a day as an earlier try did. Driver; unless the partitions are the same, all of them are polled.

        :param parts: the earlier try's, from the stage, where others may write: check them.
        """


class ReadBySpark(ABC):
    """A poller whose ``poll`` is never called in a job: :meth:`frame` and :meth:`rows_of` take its place."""

    @abstractmethod
    def frame(self, part: InputPartition) -> Any:
        """Return a partition as a Spark DataFrame of one partition, before any row is read. Driver."""

    @abstractmethod
    def rows_of(
        self, part: InputPartition, batches: Iterator[pa.RecordBatch], tally: Tally
    ) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield the rows of a partition from the batches that Spark has read. Executor, without secrets."""

    @abstractmethod
    def error_of(self, error: Exception) -> ConnectError:
        """Return our error for one of Spark's, without a text that may hold a value. Driver."""
