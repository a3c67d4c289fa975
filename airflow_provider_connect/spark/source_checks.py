"""Checks that a source plans and polls only the requested days."""

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
    """Return the source's partitions of the days. Driver.

    :raises ConnectError: a partition names a day that was not requested, or one of several days has no partition.
    """
    parts = poller.plan(days)
    planned_days = {day for part in parts for day in part.days}
    for stray_day in planned_days.difference(days):
        raise ConnectError(f"the source planned day {stray_day}, but the job requested {days_label(days)}")
    missing_days = [str(day) for day in days if day not in planned_days]
    if missing_days and len(days) > 1:
        # A plan of one day without partitions means an empty day.
        raise ConnectError(
            f"the source planned no partition for {', '.join(missing_days)}, but the job requested {days_label(days)}"
        )
    return parts


def poll_rows(poller: Poller, partition: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
    """Yield the rows of a partition, each batch with its day. Executor.

    :raises ConnectError: a batch belongs to a day that the partition does not name.
    """
    for day, batch in poller.poll(partition, tally):
        if day not in partition.days:
            raise ConnectError(f"the source sent rows of day {day}, which its partition does not name")
        yield day, batch
