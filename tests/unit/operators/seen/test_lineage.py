"""What a task tells OpenLineage, asked for by the real provider, and as its event stands in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException
from airflow.utils.state import TaskInstanceState

from airflow_provider_connect.connection import Connection, Dataset
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.sources.rest import Records, Request, RestSource, Single
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.sources.x_search import XSearchSource
from tests.equipment.airflow.connectors import TinyLedger
from tests.unit.operators.conftest import SECRET, SparkSubmit, Task

WORKED = """
publish("2026-10-05")
days = [dict(day="2026-10-05", status="published", generation=1, rows_read=12, rows_written=10, raw_bytes=900,
             stage_bytes=300)]
report(*days, columns={"id": "BIGINT", "name": "STRING"})
"""


def event_of(task: Task, state: TaskInstanceState, file: Path) -> dict[str, Any]:
    """Let Airflow's provider ask the task, and return the event that its client writes."""
    from airflow.providers.openlineage.extractors import ExtractorManager
    from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
    from openlineage.client import OpenLineageClient
    from openlineage.client.transport.file import FileConfig, FileTransport

    told = ExtractorManager().extract_metadata(task.context["dag_run"], task.operator, state, task.context["ti"])
    transport = FileTransport(FileConfig(log_file_path=str(file), append=True))
    adapter = OpenLineageAdapter(client=OpenLineageClient(transport=transport))
    about: dict[str, Any] = {"job_name": "dag.events", "end_time": "2026-10-06T00:00:00Z", "task": told}
    about |= {"run_facets": {}, "nominal_start_time": None, "nominal_end_time": None, "job_description": None}
    about |= {"owners": [], "tags": [], "run_id": "01999999-0000-7000-8000-000000000000"}
    adapter.complete_task(**about)
    return json.loads(file.read_text())


def test_the_event_has_datasets_columns_and_figures(task: Task, spark_submit: SparkSubmit, tmp_path: Path) -> None:
    spark_submit.does(WORKED)
    task.run()
    event = event_of(task, TaskInstanceState.SUCCESS, tmp_path / "events.json")
    [source], [target] = event["inputs"], event["outputs"]
    assert (source["namespace"], source["name"]) == ("tiny://tiny_default", "events")
    host, _, path = task.sink.table.lstrip("/").partition("/")
    assert (target["namespace"], target["name"]) == (f"tiny://{host}", path)
    for dataset in (source, target):
        types = {field["name"]: field["type"] for field in dataset["facets"]["schema"]["fields"]}
        assert types == {"id": "BIGINT", "name": "STRING"}
    assert [source["inputFacets"]["inputStatistics"][name] for name in ("rowCount", "size")] == [12, 900]
    assert [target["outputFacets"]["outputStatistics"][name] for name in ("rowCount", "size")] == [10, 300]
    [field] = target["facets"]["columnLineage"]["fields"]["name"]["inputFields"]
    assert (field["namespace"], field["name"], field["field"]) == ("tiny://tiny_default", "events", "name")
    assert SECRET not in json.dumps(event)
    assert SECRET not in str(vars(task.operator))  # the provider may show an operator's attributes


def test_the_lineage_of_columns_ends_at_a_transform(task: Task, spark_submit: SparkSubmit, tmp_path: Path) -> None:
    spark_submit.does(WORKED.replace("columns=", 'result_columns={"names": "BIGINT"}, columns='))
    task.run()
    event = event_of(task, TaskInstanceState.SUCCESS, tmp_path / "events.json")
    [source], [target] = event["inputs"], event["outputs"]
    assert [field["name"] for field in source["facets"]["schema"]["fields"]] == ["id", "name"]
    assert [field["name"] for field in target["facets"]["schema"]["fields"]] == ["names"]
    assert "columnLineage" not in target["facets"]
    assert target["outputFacets"]["outputStatistics"]["rowCount"] == 10


def test_a_failures_lineage_has_the_days_published_before(
    task: Task, spark_submit: SparkSubmit, tmp_path: Path
) -> None:
    spark_submit.does(
        WORKED.replace(
            "report(*days",
            'failure = dict(type="DataError", message="bad")\n'
            'days.append(dict(day="2026-10-06", status="failed", rows_written=7, failure=failure))\n'
            'days.append(dict(day="2026-10-04", status="already_published", generation=1, rows_read=5))\n'
            "report(*days, failure=failure",
        )
    )
    with pytest.raises(AirflowException, match="bad"):
        task.run()
    event = event_of(task, TaskInstanceState.FAILED, tmp_path / "events.json")
    assert event["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 12
    assert event["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 10


def test_a_starting_task_has_its_asset_by_the_same_name(ledger: TinyLedger, tmp_path: Path) -> None:
    task = Task(ledger, sink=DeltaSink(path="/data/lake/events"))
    event = event_of(task, TaskInstanceState.RUNNING, tmp_path / "events.json")
    [target] = event["outputs"]
    assert Dataset(target["namespace"], target["name"]) == task.operator.sink.dataset({})


def test_shapes_give_the_origins_of_columns(task: Task, spark_submit: SparkSubmit, tmp_path: Path) -> None:
    told = 'staged_columns={"who": "STRING", "loaded": "DATE"}, made_of={"who": ["id", "name"], "loaded": []}'
    spark_submit.does(WORKED.replace('"name": "STRING"})', f'"name": "STRING"}}, {told})'))
    task.run()
    [target] = event_of(task, TaskInstanceState.SUCCESS, tmp_path / "events.json")["outputs"]
    assert [field["name"] for field in target["facets"]["schema"]["fields"]] == ["who", "loaded"]
    fields = target["facets"]["columnLineage"]["fields"]
    assert [each["field"] for each in fields["who"]["inputFields"]] == ["id", "name"]
    assert fields["loaded"]["inputFields"] == []


def connection(kind: str, **fields: Any) -> Connection:
    return Connection(**{"conn_id": "c", "conn_type": kind, "login": "me", "password": SECRET} | fields)


SHOP = SqlSource(conn_id="c", table="sales.orders", day_column="created_at")
QUERY = SqlSource(conn_id="c", query="SELECT 1 AS id", stream="ones", key=["id"], snapshot="replace")
RECORDS = Records(key=("id",), columns={"id": "bigint"})
ISSUES = Request(path="/repos/i", params={"from": "{day.start}", "to": "{day.end}"})
GITHUB = RestSource(conn_id="c", stream="i", request=ISSUES, paging=Single(), records=RECORDS)


@pytest.mark.parametrize(
    ("source", "given", "name"),
    [
        (SHOP, connection("postgres", host="db", path="shop"), ("postgres://db:5432", "shop.sales.orders")),
        (SHOP, connection("postgres", host="a,b", port=1, path="shop"), ("postgres://a:1", "shop.sales.orders")),
        (SHOP, connection("mysql", host="db", path="shop"), ("mysql://db:3306", "sales.orders")),
        (SHOP, connection("sqlite", host="/data/shop.db"), ("sqlite:///data/shop.db", "orders")),
        (
            SHOP,
            connection("jdbc", host=f"jdbc:sqlserver://db:1433;databaseName=shop;password={SECRET}"),
            ("sqlserver://db:1433", "sales.orders"),
        ),
        (SHOP, connection("jdbc", host=f"jdbc:db2://me:{SECRET}@db:1/x"), ("jdbc://c", "sales.orders")),
        (SHOP, connection("jdbc", host="jdbc:db2://me:s3/cret@db:1/x"), ("jdbc://c", "sales.orders")),
        (SHOP, connection("jdbc", host=f"jdbc:oracle:thin:me/{SECRET}@db:1521:x"), ("jdbc://c", "sales.orders")),
        (QUERY, connection("postgres", host="db", path="shop"), ("postgres://db:5432", "shop.query/ones")),
        (GITHUB, connection("http", host="https://api.github.com/v3"), ("https://api.github.com", "/v3/repos/i")),
        (
            MixpanelSource(conn_id="c", stream="export", zone="UTC"),
            connection("mixpanel", extra={"project_id": "12", "region": "eu"}),
            ("https://data-eu.mixpanel.com", "12/export"),
        ),
        (
            XSearchSource(conn_id="c", queries=["airflow"]),
            connection("x"),
            ("https://api.x.com", "/2/tweets/search/all"),
        ),
    ],
)
def test_sources_are_named_as_openlineage_names_them(source: Any, given: Connection, name: tuple[str, str]) -> None:
    assert source.dataset(given) == Dataset(*name)
    assert SECRET not in "".join(source.dataset(given))


BROKERS = {"bootstrap.servers": "SASL_SSL://k1:9093,k2:9093"}


@pytest.mark.parametrize(
    ("sink", "given", "name"),
    [
        (DeltaSink(path="/data/lake/a b"), None, ("file", "/data/lake/a b")),
        (DeltaSink(path="s3://lake/events"), None, ("s3://lake", "events")),
        (DeltaSink(path="gs://lake/{event}"), None, ("gs://lake", "{event}")),
        (KafkaSink(conn_id="c", topic="t"), connection("kafka", extra=BROKERS), ("kafka://k1:9093", "t")),
        (
            BigQuerySink(conn_id="c", table="d.t"),
            connection("google_cloud_platform", extra={"project": "my-project"}),
            ("bigquery", "my-project.d.t"),
        ),
        (
            BigQuerySink(conn_id="c", table="other-project.d.t"),
            connection("google_cloud_platform"),
            ("bigquery", "other-project.d.t"),
        ),
    ],
)
def test_sinks_are_named_as_openlineage_names_them(sink: Any, given: Connection, name: tuple[str, str]) -> None:
    assert sink.dataset({"c": given}) == Dataset(*name)
