"""How a target is made when it is missing, and what may change when it is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.clients.bigquery.sql import quoted
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery.columns.schema import Contract
from airflow_provider_connect.sinks._bigquery.names import DAY
from airflow_provider_connect.sinks._bigquery.partitions import INGESTION_TIME, NONE, RANGE, PartitionType

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.place import Place
    from airflow_provider_connect.sinks._bigquery.columns.types import Column


@dataclass(frozen=True)
class Layout:
    """How a target is made when it is missing, and what may change when it is there.

    :param partition_by: a column's name in the source, or ``day``, the sink's own, or a word for no column.
    :param cluster_by: up to four of them.
    :param labels: legal ones.
    :param staging_dataset: where staging tables lie, ``[project.]dataset``; None: beside the target.
    """

    create_disposition: Literal["if_needed", "never"] = "if_needed"
    partition_by: str = DAY
    partition_type: PartitionType = "day"
    partition_filter: Literal["optional", "required"] = "optional"
    partition_expiration_days: int | None = None
    cluster_by: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    kms_key: str | None = None
    location: str | None = None
    schema_contract: Contract = "evolve"
    staging_dataset: str | None = None

    def column(self, name: str, columns: Sequence[Column]) -> str:
        """Return the table's name of a column that an option names.

        :raises ConfigError: the source has no such column.
        """
        if name == DAY:
            return DAY
        for column in columns:
            if column.source == name:
                return column.name
        raise ConfigError(
            f"partition_by or cluster_by names {name!r}, which the source lacks; "
            f"it has {', '.join(sorted(column.source for column in columns))}"
        )

    def partitioning(self, columns: Sequence[Column]) -> tuple[str, str | None]:
        """Return what the table is to be divided by, as the table calls it, and by what size.

        :raises ConfigError: the source has no such column.
        """
        if self.partition_by == NONE:
            return NONE, None
        by = INGESTION_TIME if self.partition_by == INGESTION_TIME else self.column(self.partition_by, columns)
        return by, self.partition_type


def new_partitioning(target: Place, layout: Layout, columns: Sequence[Column]) -> Any:
    """Return how a new table is divided, None when it is not.

    :raises ConfigError: by ranges, which only a person can choose.
    """
    from google.cloud import bigquery

    by, size = layout.partitioning(columns)
    if size is None:
        return None
    if size == RANGE:
        raise ConfigError(ranges_by_hand(target, by))
    expiration_ms = layout.partition_expiration_days and layout.partition_expiration_days * 86_400_000
    field = None if by == INGESTION_TIME else by
    return bigquery.TimePartitioning(type_=size.upper(), field=field, expiration_ms=expiration_ms)


def ranges_by_hand(target: Place, column: str) -> str:
    """Say how a person makes a table that is divided by ranges."""
    return (
        f"table {target.id} does not exist, and one by ranges is not made here: CREATE TABLE {target.sql} ({DAY} DATE, "
        f"{quoted(column)} INT64) PARTITION BY RANGE_BUCKET({quoted(column)}, GENERATE_ARRAY(first, end, step)); the "
        "other columns are added then"
    )
