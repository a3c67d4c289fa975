"""Tables made, changed, checked and swept, against the emulator."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from google.cloud import bigquery

from airflow_provider_connect.clients.bigquery import api as _bigquery_access
from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.errors import StaleError
from airflow_provider_connect.clients.bigquery.tables import drop_table
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sinks._bigquery.names import POSITION_COLUMN
from airflow_provider_connect.sinks._bigquery.problems import target_problems
from airflow_provider_connect.sinks._bigquery.rejects import ensure_rejects_table
from airflow_provider_connect.sinks._bigquery.staging import drop_abandoned_tables, staging_prefix, staging_tables
from airflow_provider_connect.sinks._bigquery.tables import TargetTables
from airflow_provider_connect.sinks._bigquery.target import has_schema_changed
from tests.equipment.bigquery.fixtures import options
from tests.equipment.bigquery.publish_bench import SCHEMA, Bench, row, with_field

pytestmark = pytest.mark.slow


def test_new_columns_are_added_and_old_rows_read_null(bench: Bench) -> None:
    bench.publish(1, 1, [row(1)])
    bench.schema = with_field(pa.field("extra", pa.string()), pa.field("amounts", pa.list_(pa.float64())))
    plan = bench.plan(2, 1, [])
    bench.query(
        f"INSERT INTO {plan.staging.sql} (id, extra, amounts, {POSITION_COLUMN}) VALUES (2, 'new', [1.5, 2.5], 0)"
    )
    bench.run(replace(plan, row=plan.row.model_copy(update={"rows": 1})))
    found = bench.query(f"SELECT id, extra, amounts FROM {bench.target.sql} ORDER BY id")
    assert [(r["id"], r["extra"]) for r in found] == [(1, None), (2, "new")]
    assert found[1]["amounts"] == [1.5, 2.5]
    described = bench.api.client.get_table(bench.target.id, timeout=20, retry=None)
    assert [f.name for f in described.schema][-2:] == ["extra", "amounts"]
    bench.schema = SCHEMA  # a column that went away is NULL from then on
    bench.publish(3, 1, [row(3)])
    assert [r["extra"] for r in bench.query(f"SELECT extra FROM {bench.target.sql} WHERE id = 3")] == [None]


def test_freeze_fails_a_day_with_new_columns_and_discard_leaves_them_out(bench: Bench) -> None:
    bench.publish(1, 1, [row(1)])
    bench.schema = with_field(pa.field("extra", pa.string()))
    bench.options = options(schema_contract="freeze")
    with pytest.raises(DataError, match="column 'extra' is new"):
        bench.prepare()
    bench.options = options(schema_contract="discard_columns")
    ready = bench.prepare()
    assert ready.discarded == ("extra",)
    bench.publish(2, 1, [row(2)])
    assert bench.rows() == [(1, 1, 1), (2, 2, 1)]


def test_a_changed_type_names_column_and_both_types(bench: Bench) -> None:
    bench.prepare()
    bench.schema = pa.schema([SCHEMA.field("id"), pa.field("version", pa.string())])
    with pytest.raises(DataError, match=r"'version' is INTEGER in the table and STRING now: cast it in the source"):
        bench.prepare()


def test_required_columns_are_relaxed_when_the_source_may_leave_them_null(bench: Bench) -> None:
    bench.schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("gone", pa.bool_())])
    bench.prepare()
    mode = {f.name: f.mode for f in bench.api.client.get_table(bench.target.id, timeout=20, retry=None).schema}
    assert mode["id"] == "REQUIRED"
    bench.schema = SCHEMA
    bench.prepare()
    mode = {f.name: f.mode for f in bench.api.client.get_table(bench.target.id, timeout=20, retry=None).schema}
    assert mode["id"] == "NULLABLE"


def test_a_missing_table_is_made_as_the_options_say(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.options = options(
        create_disposition="never",
    )
    with pytest.raises(ConfigError, match="does not exist and create_disposition='never'"):
        bench.prepare()
    bench.options = options(partition_type="month", partition_expiration_days=400, cluster_by=("id", "who's"))
    monkeypatch.setattr(bench.api, "labels", {"team": "x"})
    ready = bench.prepare()
    made = bench.api.client.get_table(bench.target.id, timeout=20, retry=None)
    assert made.time_partitioning.field == "day"
    assert made.time_partitioning.type_ == "MONTH"
    assert made.time_partitioning.expiration_ms == 400 * 86_400_000
    assert made.clustering_fields == ["id", next(c.name for c in ready.columns if c.source == "who's")]
    assert made.labels == {"team": "x", "connect_ledger": "connect_ledger"}


def test_a_view_is_refused_as_target(bench: Bench) -> None:
    bench.query(f"CREATE VIEW {bench.target.sql} AS SELECT 1 AS id")
    with pytest.raises(ConfigError, match="is a VIEW, which cannot be written"):
        bench.prepare()


def preflight(bench: Bench) -> list[str]:
    whole = f"{bench.target.project}.{bench.target.dataset}.{bench.target.table}"
    tables = TargetTables(bench.options.model_copy(update={"table": whole}), bench.target.project)
    return target_problems(bench.api, tables, bench.schema)


def test_preflight_finds_nothing_before_and_after_the_first_publish_and_leaves_nothing(bench: Bench) -> None:
    assert preflight(bench) == []
    assert [item.table_id for item in bench.api.client.list_tables(bench.target.dataset, timeout=20, retry=None)] == []
    bench.publish(1, 1, [row(1)])
    assert preflight(bench) == []
    assert bench.rows() == [(1, 1, 1)]


def test_preflight_names_a_missing_dataset(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bigquery_access, "SETTLE_SECONDS", 0.2)
    with BigQueryApi.open(bench.api.connection, timeout_seconds=20, retry_budget_seconds=20) as fresh:
        nowhere = replace(bench, api=fresh, target=replace(bench.target, dataset="connect_test_nowhere"))
        [problem] = preflight(nowhere)
    assert "dataset" in problem
    assert "connect_test_nowhere does not exist" in problem


def test_preflight_names_every_problem_of_a_table_at_once(bench: Bench) -> None:
    bench.query(f"CREATE TABLE {bench.target.sql} (id STRING, day DATE, version STRING)")
    [partitioning, types] = preflight(bench)
    assert "partitioned otherwise (not at all)" in partitioning
    assert "'id' is STRING in the table and INTEGER now" in types
    assert "'version' is STRING in the table and INTEGER now" in types


def test_nested_fields_only_the_table_has_are_null(bench: Bench) -> None:
    inner = pa.struct([("b", pa.string()), ("a", pa.int64())])
    bench.query(f"CREATE TABLE {bench.target.sql} (day DATE, s STRUCT<a INT64, old STRING, b STRING>) PARTITION BY day")
    bench.schema = pa.schema([pa.field("s", inner)])
    plan = bench.plan(1, 1, [])
    bench.query(f"INSERT INTO {plan.staging.sql} (s, {POSITION_COLUMN}) VALUES (STRUCT('x' AS b, 1 AS a), 0)")
    bench.run(replace(plan, row=plan.row.model_copy(update={"rows": 1})))
    assert bench.query(f"SELECT s FROM {bench.target.sql}") == [{"s": {"a": 1, "old": None, "b": "x"}}]


def test_sweep_drops_old_staging_tables_of_this_target_alone(bench: Bench) -> None:
    ready = bench.prepare()
    bench.stage(ready, "dead-1", [])
    bench.stage(ready, "dead-2", [])
    other = replace(bench, target=bench.target.sibling("events2"))
    other.stage(ready, "alive", [])
    bench.query(f"CREATE TABLE {bench.target.sibling('events__stage_mine').sql} (a INT64)")  # a person's, by its label
    found = sorted(place.table for place in staging_tables(bench.api, staging_prefix(bench.target)))
    assert found == ["events__stage_dead_1", "events__stage_dead_2"]
    now = dt.datetime.now(dt.UTC)
    assert drop_abandoned_tables(bench.api, staging_prefix(bench.target), now - dt.timedelta(minutes=10)) == 0
    assert drop_abandoned_tables(bench.api, staging_prefix(bench.target), now + dt.timedelta(minutes=10)) == 2
    assert staging_tables(bench.api, staging_prefix(bench.target)) == {}
    assert len(staging_tables(bench.api, staging_prefix(other.target))) == 1
    drop_table(bench.api, bench.target.sibling("never_was"))


def add_field_as_another_publisher(bench: Bench, column: str, name: str) -> None:
    table = bench.api.client.get_table(bench.target.id, timeout=20, retry=None)
    fields = [one.to_api_repr() for one in table.schema]
    struct = next(one for one in fields if one["name"] == column)
    struct["fields"].append({"name": name, "type": "STRING", "mode": "NULLABLE"})
    table.schema = [bigquery.SchemaField.from_api_repr(one) for one in fields]
    bench.api.client.update_table(table, ["schema"], timeout=20, retry=None)


def test_a_field_that_another_publisher_added_is_noticed(bench: Bench) -> None:
    bench.schema = with_field(pa.field("s", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])))
    ready = bench.prepare()
    assert not has_schema_changed(bench.api, bench.target, ready.columns)
    assert not has_schema_changed(bench.api, bench.target, bench.prepare().columns)
    other = replace(bench, schema=with_field(pa.field("one_more", pa.int64())))
    other.prepare()
    assert not has_schema_changed(bench.api, bench.target, ready.columns)  # INSERT names its columns
    add_field_as_another_publisher(bench, "s", "c")
    assert has_schema_changed(bench.api, bench.target, ready.columns)
    assert not has_schema_changed(bench.api, bench.target, bench.prepare().columns)
    drop_table(bench.api, bench.target)
    assert has_schema_changed(bench.api, bench.target, ready.columns)


class Contended(BigQueryApi):
    """Others are faster with their changes of the schema, so many times."""

    lost = 0

    def call(self, doing: str, *args: Any, **kwargs: Any) -> Any:
        if doing.startswith("change the schema") and self.lost:
            self.lost -= 1
            raise StaleError("412")
        return super().call(doing, *args, **kwargs)


def test_a_schema_that_others_change_too_gets_the_columns(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.prepare()
    bench.schema = with_field(pa.field("extra", pa.string()))
    busy = Contended(bench.api.connection, bench.api.project, bench.api.credentials)
    busy.lost = 8
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    assert "extra" in [column.name for column in replace(bench, api=busy).prepare().columns]
    assert busy.lost == 0
    assert len(set(slept)) >= 8  # not all of them come back at the same moment
    assert sum(slept) < 60


def test_numbers_in_arrays_and_structs_are_cast_to_a_wider_column(bench: Bench) -> None:
    bench.query(
        f"CREATE TABLE {bench.target.sql} (day DATE, n NUMERIC, a ARRAY<NUMERIC>, "
        "s STRUCT<x NUMERIC, l ARRAY<NUMERIC>>, r ARRAY<STRUCT<x NUMERIC>>) PARTITION BY day"
    )
    whole, struct = pa.int64(), pa.struct([("x", pa.int64()), ("l", pa.list_(pa.int64()))])
    bench.schema = pa.schema(
        [
            ("n", whole),
            ("a", pa.list_(whole)),
            ("s", struct),
            ("r", pa.list_(pa.struct([("x", whole)]))),
        ]
    )
    plan = bench.plan(1, 1, [])
    bench.query(
        f"INSERT INTO {plan.staging.sql} (n, a, s, r, {POSITION_COLUMN}) "
        "VALUES (1, [3, 1, 2], STRUCT(4 AS x, [6, 5] AS l), [STRUCT(8 AS x), STRUCT(7 AS x)], 0)"
    )
    bench.run(replace(plan, row=plan.row.model_copy(update={"rows": 1})))
    [found] = bench.query(f"SELECT n, a, s, r FROM {bench.target.sql}")
    assert found == {"n": 1, "a": [3, 1, 2], "s": {"x": 4, "l": [6, 5]}, "r": [{"x": 8}, {"x": 7}]}
    types = plan.expressions
    assert "CAST" in types["a"]
    assert "CAST" in types["s"]


def test_rejects_are_partitioned_by_day(bench: Bench) -> None:
    place = bench.target.sibling("events__rejects")
    ensure_rejects_table(bench.api, place, bench.target)
    made = bench.api.client.get_table(place.id, timeout=20, retry=None)
    assert made.time_partitioning.field == "day"
    assert made.clustering_fields == ["connector", "stream"]
