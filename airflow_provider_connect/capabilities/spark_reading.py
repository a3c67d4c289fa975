"""Rows that Spark itself reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.source import InputPartition
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.polling.tally import Tally


class ReadBySpark(ABC):
    """A poller whose ``poll`` is never called in a job: :meth:`frame` and :meth:`rows_of` take its place."""

    @abstractmethod
    def frame(self, part: InputPartition) -> Any:
        """Return a partition as a Spark DataFrame of one partition, before any row is read. Driver.

        :raises ConnectError: it cannot be read.
        """

    @abstractmethod
    def rows_of(
        self, part: InputPartition, batches: Iterator[pa.RecordBatch], tally: Tally
    ) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield the rows of a partition from the batches that Spark has read. Executor, without secrets.

        :raises DataError: the data is bad.
        """

    @abstractmethod
    def error_of(self, error: Exception) -> ConnectError:
        """Return our error for one of Spark's, without a text that may hold a value. Driver."""
