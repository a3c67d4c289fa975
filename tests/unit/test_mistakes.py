"""Mistakes that people make in DAG files: what Airflow shows names the mistake, its place and the remedy, once.

The mistakes that only a connection or a server shows are in ``tests/integration/cli/test_mistakes.py``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

HEAD = """\
import datetime as dt
from airflow.sdk import DAG
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.pipelines.dags import dags_from
from airflow_provider_connect.shapes import Drop
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.sources.rest import RestSource
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.sources.x_search import XSearchSource
from airflow_provider_connect.timetables import daily
"""
ORDERS = "SqlSource(conn_id='shop', table='orders', day_column='created')"
LAKE = "DeltaSink(path='/lake/orders')"
PAGES = "paging={'kind': 'page_number', 'ends': 'empty_page'}, snapshot='replace'"
RECORDS = "records={'key': ['id'], 'columns': {'id': 'bigint'}}"
WRONG_KEY = (
    f"RestSource(conn_id='api', stream='a', request={{'path': '/a'}}, {PAGES}, {RECORDS.replace('id', 'di', 1)})"
)
OPEN_SECRET = WRONG_KEY.replace("'path': '/a'", "'path': '/a', 'headers': {'authorization': 'Bearer x9f'}")


def operator(arguments: str = "", source: str = ORDERS, sink: str = LAKE, schedule: str = "daily()") -> str:
    """A DAG file's last line."""
    more = f", {arguments}" if arguments else ""
    return (
        f"with DAG('orders_daily', schedule={schedule}, start_date=dt.datetime(2026, 11, 1)): "
        f"ConnectOperator(task_id='orders', source={source}, sink={sink}{more})"
    )


MISTAKES = {
    "argument_typo": (operator("on_empti='fail'"), "'orders': on_empti: unknown argument; did you mean 'on_empty'?"),
    "argument_value": (operator("on_shrink='fial'"), "on_shrink: cannot be 'fial'; did you mean 'fail'?"),
    "bare_daily": (operator(schedule="'@daily'"), r"no data interval.*Set schedule=daily\('UTC'\)"),
    "other_zone": (
        operator(schedule="daily('US/Pacific')"),
        r"midnight in UTC. Set schedule=daily\('UTC'\) .*or zone='US/Pacific' of the source",
    ),
    "unknown_zone": (operator(schedule="daily('Europe/Berln')"), "did you mean 'Europe/Berlin'?"),
    "impossible_day": (operator("days='2026-13-01'"), "days: '2026-13-01' is neither 'YYYY-MM-DD'"),
    "days_as_date": (operator("days=dt.date(2026, 11, 1)"), "days: must be text such as '2026-10-05'"),
    "memory": (operator("driver_memory='2 GB'"), "driver_memory: must be a size such as '2g' or '512m'"),
    "ready_after": (operator("ready_after=7200"), "ready_after: must be a datetime.timedelta"),
    "asset": (operator("asset='x-lake://orders'"), "asset: must be an airflow.sdk.Asset, not a str"),
    "shape_alone": (operator("shape=Drop(columns=['ip'])"), "shape: must be a list of shapes"),
    "shape_option": (operator("shape=[Drop(colums=['ip'])]"), "colums: unknown option; did you mean 'columns'?"),
    "application": (operator("application='job.py'"), "application: set by ConnectOperator itself. Remove it"),
    "lookback_of_snapshots": (
        operator("lookback_days=1", source="SqlSource(conn_id='shop', table='orders', snapshot='replace')"),
        "Remove lookback_days",
    ),
    "swapped": (operator(source=LAKE, sink=ORDERS), "source: must be a Source.*sink: must be a Sink"),
    "option_typo": (
        operator(source="SqlSource(conn_id='shop', tabel='orders')"),
        "tabel: unknown option; did you mean 'table'?",
    ),
    "option_of_another_tool": (
        operator(source="SqlSource(conn_id='shop', table='orders', day_column='created', timezone='UTC')"),
        "timezone: unknown option; did you mean 'zone'?",
    ),
    "zone_of_a_source": (
        operator(source="SqlSource(conn_id='shop', table='orders', day_column='created', zone='US/Pacifik')"),
        "zone: unknown time zone 'US/Pacifik': did you mean 'US/Pacific'?",
    ),
    "no_way_to_read": (operator(source="SqlSource(conn_id='shop', table='orders')"), "day_column|snapshot|mode"),
    "table_and_query": (
        operator(source="SqlSource(conn_id='shop', table='orders', query='SELECT 1', day_column='created')"),
        "table.*query",
    ),
    "no_options": (operator(source="SqlSource()"), "conn_id: required"),
    "stream_typo": (operator(source="MixpanelSource(stream='exports')"), "stream: .*'export'"),
    "path_missing": (operator(sink="DeltaSink()"), "path: required"),
    "table_without_dataset": (operator(sink="BigQuerySink(table='orders')"), "table: .*dataset"),
    "topic_with_a_blank": (operator(sink="KafkaSink(topic='my topic')"), "topic: "),
    "key_column": (operator(source=WRONG_KEY), "'di' is not a column; did you mean 'id'?"),
    "secret_in_a_header": (operator(source=OPEN_SECRET), "authorization"),
    "queries_as_text": (
        operator(source="XSearchSource(query='cats')"),
        "query: unknown option; did you mean 'queries'?",
    ),
    "transform": (operator("transform='DELETE FROM polled'"), "transform: "),
    "no_pipeline_file": ("dags_from('pipelines/*.yml')", r"no file matches 'pipelines/\*.yml' in folder"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_shown_once_with_its_line_and_remedy(name: str, tmp_path: Path) -> None:
    line, text = MISTAKES[name]
    (tmp_path / "orders.py").write_text(f"{HEAD}{line}\n")
    (error,) = DagBag(dag_folder=tmp_path).import_errors.values()
    message = error.partition("errors.ConfigError: ")[2].strip()
    assert re.search(text, message), message
    assert f'orders.py", line {HEAD.count(chr(10)) + 1}' in error, "the DAG file's line"
    assert line in error
    assert error.count("errors.ConfigError: ") == 1
    assert "x9f" not in message, "a secret"
    assert len(message) < 600
    frames = re.findall(r'File "([^"]+)", line', error)
    assert len(frames) <= 2
