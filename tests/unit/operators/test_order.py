"""The column that decides which of two rows of increments is newer, where the sink's options do not name it."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.shapes.choice import Drop
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource

BOTH = {"mode": "timestamp+incrementing", "timestamp_column": "at", "incrementing_column": "id"}
TIME = {"mode": "timestamp", "timestamp_column": "at"}
NUMBER = {"mode": "incrementing", "incrementing_column": "id"}
DAY = {"day_column": "at"}


def delta(key: str, **options: Any) -> DeltaSink:
    return DeltaSink(path="/data/t", write_mode="merge", key=[key], **options)


def bigquery(key: str, **options: Any) -> BigQuerySink:
    return BigQuerySink(conn_id="g", table="a.b", write_mode="merge", key=[key], **options)


def newest_by(sink: Any, way: dict[str, Any], **more: Any) -> str | None:
    source = SqlSource(conn_id="shop", table="t", **way | more.pop("source", {}))
    operator = ConnectOperator(task_id="t", source=source, sink=sink, **more)
    column: str | None = operator.sink.newest_by  # type: ignore[attr-defined]
    return column


@pytest.mark.parametrize("make", [delta, bigquery])
@pytest.mark.parametrize(
    ("way", "key", "column"),
    [
        (BOTH, "id", "at"),
        (BOTH, "at", "id"),
        (TIME, "id", "at"),
        (NUMBER, "id", "id"),
        (NUMBER, "no", "id"),
        (DAY, "id", None),
    ],
)
def test_increments_are_ordered_by_their_cursor_and_days_by_the_day(
    make: Any, way: dict[str, Any], key: str, column: str | None
) -> None:
    assert newest_by(make(key), way) == column
    assert newest_by(make(key, newest_by="version"), way) == "version"


def test_names_in_the_rows_count() -> None:
    assert newest_by(delta("id"), TIME, source={"rename": {"at": "changed"}}) == "changed"


def test_nothing_is_guessed() -> None:
    with pytest.raises(ConfigError, match="Name the column that decides in newest_by"):
        newest_by(delta("customer"), BOTH)
    with pytest.raises(ConfigError, match="Name the column that decides in newest_by"):
        newest_by(delta("id"), TIME, shape=[Drop(columns=["ip"])])
    with pytest.raises(ConfigError, match="Name the column that decides in newest_by"):
        newest_by(delta("id"), TIME | {"timestamp_column": "{{ params.at }}"})
    plain = DeltaSink(path="/data/t")
    assert newest_by(plain, TIME) is None
