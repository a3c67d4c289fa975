"""What a reload changes, counted by one query: when it is asked, what it reads, and that it fails no day."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.errors import MissingError
from airflow_provider_connect.clients.bigquery.sql import any_partition
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from airflow_provider_connect.sinks._bigquery.columns.types import make_columns
from airflow_provider_connect.sinks._bigquery.differences import COUNT_SECONDS, count_differences, differences_query
from airflow_provider_connect.sinks._bigquery.plan import PublishPlan
from airflow_provider_connect.sinks._bigquery.staging import TableChange
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.stage.key_digest import RECORD_KEY
from airflow_provider_connect.stage.manifest import SeenPublish
from airflow_provider_connect.window import ONE_DAY
from tests.unit.sinks.bigquery.test_publish import DAY, SCHEMA, TARGET, merge, plan

KEYED = make_columns(SCHEMA.append(pa.field(RECORD_KEY, pa.string(), nullable=False)))
FOUND = {"added": 2, "changed": 0, "vanished": 1}


def reload(**changes: Any) -> PublishPlan:
    made = plan(columns=KEYED, **changes)
    return replace(made, row=made.row.model_copy(update={"counts": {"rows_read": 7}}))


def seeing(seen: SeenPublish) -> PublishPlan:
    made = reload()
    manifest = made.publish.manifest.model_copy(update={"seen": seen})
    return replace(made, publish=replace(made.publish, manifest=manifest))


@dataclass
class Service:
    """Knows one table, and answers queries about it.

    :param by: its partition column.
    :param error: the answer to every call.
    """

    by: str = "day"
    error: ConnectError | None = None
    queries: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    client: Any = field(default_factory=lambda: SimpleNamespace(get_table=None))

    def time_limit(self, seconds: float) -> Any:
        self.seconds.append(seconds)
        return nullcontext()

    def call(self, *_: Any, **__: Any) -> Any:
        partitioning = SimpleNamespace(field=self.by, type_="DAY")
        return SimpleNamespace(range_partitioning=None, time_partitioning=partitioning)

    def query(self, sql: str, **_: Any) -> Any:
        self.queries.append(sql)
        if self.error is not None:
            raise self.error
        return [FOUND], None


def counted(service: Service, made: PublishPlan) -> dict[str, int]:
    return dict(count_differences(cast(BigQueryApi, service), made, {}).row.counts)


def test_a_reloads_counts_are_added_to_those_of_the_poll() -> None:
    service = Service()
    assert counted(service, reload()) == {"rows_read": 7, **FOUND}
    assert (len(service.queries), service.seconds) == (1, [COUNT_SECONDS])


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(seeing(SeenPublish()), id="first publish"),
        pytest.param(seeing(SeenPublish(day=DAY - ONE_DAY, generation=1)), id="snapshot of another day"),
        pytest.param(plan(), id="rows without keys"),
        pytest.param(reload(write_mode="append"), id="append"),
        pytest.param(reload(write_mode="merge", merge=merge()), id="merge"),
    ],
)
def test_no_query_runs_without_an_earlier_publish_to_compare(made: PublishPlan) -> None:
    service = Service()
    assert count_differences(cast(BigQueryApi, service), made, {}) is made
    assert not service.queries


def test_no_query_runs_if_differences_are_off(caplog: pytest.LogCaptureFixture) -> None:
    service, made = Service(), reload()
    with caplog.at_level(logging.INFO):
        assert count_differences(cast(BigQueryApi, service), made, {}, "off") is made
    assert (service.queries, service.seconds) == ([], [])
    assert f"day {DAY}: its changed rows are not counted (differences='off')" in caplog.text


@pytest.mark.parametrize("mode", [{"write_mode": "append"}, {"write_mode": "merge", "key": ("id",)}])
def test_differences_are_refused_where_nothing_is_counted(mode: dict[str, Any]) -> None:
    BigQuerySink(table="d.events", differences="off")
    with pytest.raises(ConfigError, match="differences: only with write_mode='replace'"):
        BigQuerySink(table="d.events", differences="off", **mode)


def test_a_table_not_partitioned_by_day_is_not_read_for_counts() -> None:
    """Of a table of two years a reload of one day would read all."""
    service = Service(by="time")
    assert counted(service, reload()) == {"rows_read": 7}
    assert not service.queries
    assert counted(service, reload(replaces_whole=True)) == {"rows_read": 7, **FOUND}


@pytest.mark.parametrize(
    "error", [RetriableError("away"), ConfigError("more than maximum_bytes_billed"), MissingError("no staging table")]
)
def test_no_error_fails_the_day(error: ConnectError, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert counted(Service(error=error), reload()) == {"rows_read": 7}
    assert f"day {DAY}: its changed rows could not be counted: {error}" in caplog.text


def test_both_reads_of_the_table_filter_by_day_and_by_the_required_column() -> None:
    sql = differences_query(reload(filter_column="a b"))
    assert sql.count(TARGET.sql) == 2
    assert sql.count(f"connect_t.`day` = DATE '{DAY}' AND {any_partition('a b', 'connect_t')}") == 2


def test_a_template_is_read_only_if_all_its_tables_are_partitioned_by_day() -> None:
    parts = (
        TableChange("left", "at", True, False, True),
        TableChange("same", None, True, True, True),
        TableChange("new", None, False, True),
    )
    sql = differences_query(reload(table_changes=parts))
    read = {name: sql.count(TARGET.sibling(name).sql) for name in ("left", "same", "new", TARGET.table)}
    assert read == {"left": 2, "same": 2, "new": 0, TARGET.table: 0}
    assert sql.count(f"connect_t.`day` = DATE '{DAY}'") == 4
    assert counted(Service(by="time"), reload(table_changes=parts)) == {"rows_read": 7, **FOUND}, (
        "the head is not asked"
    )
    service = Service()
    assert counted(service, reload(table_changes=(*parts, TableChange("by time", None, True, True)))) == {
        "rows_read": 7
    }
    assert not service.queries
    assert TARGET.sql in differences_query(reload(table_changes=parts[2:])), "what was empty is compared with the head"


def test_a_table_with_only_a_key_column_is_compared() -> None:
    only = make_columns(pa.schema([pa.field(RECORD_KEY, pa.string(), nullable=False)]))
    assert "STRUCT(1 AS none)" in differences_query(plan(columns=only))
