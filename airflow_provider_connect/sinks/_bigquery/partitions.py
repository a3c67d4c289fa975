"""How a table is divided into partitions, in words: what it is, and the options that say so.

Whatever they are, a day is the rows whose column ``day`` has its date. Partitions decide only what a query reads.

Vendor facts: https://cloud.google.com/bigquery/docs/partitioned-tables (2026-11).
"""

from __future__ import annotations

from typing import Any, Literal

NONE = "none"
INGESTION_TIME = "ingestion_time"
RANGE = "range"
PartitionType = Literal["hour", "day", "month", "year", "range"]


def partitioning_of(table: Any) -> tuple[str, str | None]:
    """Return the options that a table has been made with: what it is divided by, and by what size."""
    if table.range_partitioning is not None:
        return str(table.range_partitioning.field), RANGE
    if table.time_partitioning is None:
        return NONE, None
    return table.time_partitioning.field or INGESTION_TIME, table.time_partitioning.type_.lower()


def spoken(by: str, size: str | None) -> str:
    """Return a partitioning for people."""
    if by == NONE:
        return "not at all"
    if size == RANGE:
        return f"{by} by ranges of whole numbers"
    return f"{'time of arrival' if by == INGESTION_TIME else by} by {size}"


def as_options(by: str, size: str | None) -> str:
    """Return a partitioning as a sink's options."""
    return f"partition_by={by!r}" + (f", partition_type={size!r}" if size else "")


def contradictions(partition_by: str, partition_type: str, of_partitions: dict[str, bool]) -> list[str]:
    """Return what options of one sink do not go together.

    :param of_partitions: options that say something about partitions, and whether each is set.
    """
    if partition_by == NONE:
        return [
            f"{name}: only with partitions, and partition_by='none'" for name, is_set in of_partitions.items() if is_set
        ]
    if partition_type == RANGE and partition_by in ("day", INGESTION_TIME):
        return ["partition_type='range' needs partition_by=, an INTEGER column"]
    if partition_type == RANGE and of_partitions["partition_expiration_days"]:
        return ["partition_expiration_days: partitions by ranges never expire"]
    if partition_type == "hour" and partition_by == "day":
        return ["partition_type='hour' needs partition_by=, a TIMESTAMP column"]
    return []
