"""What a source answers, held against what it was asked, so that no other day is taken for one that is wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.spark.progress import days_label
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.polling.tally import Tally
    from airflow_provider_connect.source import InputPartition, Poller


def plan_days(poller: Poller, days: Sequence[Day]) -> list[InputPartition]:
    """Return the partitions of some days. Driver.

    :raises ConnectError: a partition names another day, or none names one of several.
    """
    parts = poller.plan(days)
    found = {day for part in parts for day in part.days}
    for stray in found.difference(days):
        raise ConnectError(f"the source planned day {stray}, but was asked for {days_label(days)}")
    forgotten = [str(day) for day in days if day not in found]
    if forgotten and len(days) > 1:
        # It would be taken for an empty day, which is what no partition means where a plan is for one day.
        raise ConnectError(
            f"the source planned nothing for {', '.join(forgotten)}, but was asked for {days_label(days)}"
        )
    return parts


def poll_rows(poller: Poller, partition: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
    """Yield the rows of a partition, each batch with its day. Executor.

    :raises ConnectError: the partition does not name the day of a batch.
    """
    for day, batch in poller.poll(partition, tally):
        if day not in partition.days:
            raise ConnectError(f"the source sent rows of day {day}, which its partition does not name")
        yield day, batch
