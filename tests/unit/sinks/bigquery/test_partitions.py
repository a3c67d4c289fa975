"""Tables that are divided otherwise than by day: adopted by clear words, and a day is replaced in them all the same."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from google.cloud import bigquery

from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.clients.bigquery.tables import filter_column
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery.columns.types import make_columns
from airflow_provider_connect.sinks._bigquery.partitions import new_partitioning, row_partition_sql
from airflow_provider_connect.sinks._bigquery.problems import expiry_problem, new_table_problems, table_problems
from tests.equipment.bigquery.fixtures import options

TARGET = TableRef("some-project", "d", "events")
SCHEMA = pa.schema(
    [("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("größe", pa.int64()), ("$at", pa.timestamp("us"))]
)
MADE = make_columns(SCHEMA)


def table(**options: Any) -> bigquery.Table:
    found = bigquery.Table(TARGET.id, [bigquery.SchemaField(one.name, one.target["type"]) for one in MADE])
    for name, value in options.items():
        setattr(found, name, value)
    return found


def by_time(column: str | None, kind: str = "DAY") -> dict[str, Any]:
    return {"time_partitioning": bigquery.TimePartitioning(type_=kind, field=column)}


def by_range(column: str) -> dict[str, Any]:
    span = bigquery.PartitionRange(start=0, end=100, interval=10)
    return {"range_partitioning": bigquery.RangePartitioning(field=column, range_=span)}


CASES: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {"partition_by": "none"}),
    (by_time(None), {"partition_by": "ingestion_time"}),
    (by_time(None, "HOUR"), {"partition_by": "ingestion_time", "partition_type": "hour"}),
    (by_range("id"), {"partition_by": "id", "partition_type": "range"}),
    (by_range("größe"), {"partition_by": "größe", "partition_type": "range"}),
    (by_time("at", "MONTH"), {"partition_by": "at", "partition_type": "month"}),
    (by_time(MADE[3].name, "YEAR"), {"partition_by": "$at", "partition_type": "year"}),
    (by_time("day"), {}),
    (by_time("day", "YEAR"), {"partition_type": "year"}),
]


@pytest.mark.parametrize(("existing", "chosen"), CASES)
def test_the_options_named_by_the_refusal_adopt_the_table(existing: dict[str, Any], chosen: dict[str, str]) -> None:
    assert table_problems(table(**existing), TARGET, options(**chosen), MADE) == []
    [problem] = table_problems(table(**existing), TARGET, options(partition_by="at", partition_type="hour"), MADE)
    every = {"partition_by": "day", "partition_type": "day"} | chosen
    if chosen.get("partition_by") == "none":
        del every["partition_type"]
    assert f"Set {', '.join(f'{name}={value!r}' for name, value in every.items())}, or load into a new table" in problem


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"partition_by": "none", "partition_type": "month"}, "partition_type needs partitions"),
        ({"partition_by": "none", "partition_expiration_days": 3}, "partition_expiration_days needs partitions"),
        ({"partition_type": "range"}, "partition_type='range' needs partition_by=, an INTEGER column"),
        ({"partition_by": "ingestion_time", "partition_type": "range"}, "needs partition_by=, an INTEGER column"),
        ({"partition_by": "id", "partition_type": "range", "partition_expiration_days": 3}, "never expire"),
    ],
)
def test_options_that_contradict_each_other_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        options(**wrong)


def test_a_table_without_partitions_and_one_by_time_of_arrival_can_be_made() -> None:
    assert new_table_problems(TARGET, options(partition_by="none"), MADE) == []
    assert new_partitioning(TARGET, options(partition_by="none"), MADE) is None
    chosen = options(partition_by="ingestion_time", partition_type="hour", partition_expiration_days=2)
    assert new_table_problems(TARGET, chosen, MADE) == []
    made = new_partitioning(TARGET, chosen, MADE)
    assert (made.field, made.type_, made.expiration_ms) == (None, "HOUR", 2 * 86_400_000)


def test_a_missing_table_by_ranges_is_refused_with_the_statement_to_create_it() -> None:
    chosen = options(partition_by="größe", partition_type="range")
    [problem] = new_table_problems(TARGET, chosen, MADE)
    assert "CREATE TABLE `some-project.d.events`" in problem
    assert "RANGE_BUCKET(`größe`, GENERATE_ARRAY(" in problem
    with pytest.raises(ConfigError, match="RANGE_BUCKET"):
        new_partitioning(TARGET, chosen, MADE)
    [problem] = new_table_problems(TARGET, options(partition_by="at", partition_type="range"), MADE)
    assert "BigQuery makes ranges of INTEGER columns only" in problem


def test_a_day_does_not_vanish_from_partitions_by_time_of_arrival() -> None:
    by_arrival = bigquery.TimePartitioning(type_="DAY", field=None, expiration_ms=86_400_000)
    found = table(time_partitioning=by_arrival, require_partition_filter=True)
    assert expiry_problem(found, dt.date(1990, 1, 1), dt.date(2026, 11, 20)) is None
    assert filter_column(found) == "_PARTITIONTIME"


@pytest.mark.parametrize(
    ("existing", "sql"),
    [
        ({}, None),
        (by_time("day"), None),
        (by_time("at", "HOUR"), "TIMESTAMP_TRUNC(connect_t.`at`, HOUR)"),
        (by_time(MADE[3].name, "MONTH"), f"DATETIME_TRUNC(connect_t.`{MADE[3].name}`, MONTH)"),
        (by_time(None, "HOUR"), "connect_t._PARTITIONTIME"),
        (by_range("id"), "DIV(SAFE_SUBTRACT(connect_t.`id`, 0), 10)"),
    ],
)
def test_row_partition_sql_distinguishes_the_partitions_of_a_days_rows(
    existing: dict[str, Any], sql: str | None
) -> None:
    assert row_partition_sql(table(**existing)) == sql
