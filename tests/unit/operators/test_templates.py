from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from tests.equipment.airflow.connectors import TinyLedger, TinySink, TinySource
from tests.unit.operators.conftest import SparkSubmit, Supervisor, dag_run, task_instance

LAKE = Asset(name="lake", uri="x-lake://all")
DONE = 'publish("2026-10-05"); report(dict(day="2026-10-05", status="published", generation=1, rows_written=10))'


def make(**options: Any) -> Any:
    start = dt.datetime(2026, 10, 1, tzinfo=dt.UTC)
    with DAG("d", schedule=None, start_date=start) as dag:
        ConnectOperator(task_id="one", **({"source": TinySource(conn_id="c"), "sink": TinySink()} | options))
    return dag.get_task("one")


def rendered(operator: Any, **params: Any) -> Any:
    operator.render_template_fields({"params": params})
    operator._validate_rendered()
    return operator


def test_templates_in_source_and_sink_are_rendered() -> None:
    source = TinySource(conn_id="{{ params.conn }}", where='properties["x"] == "{{ params.x }}"')
    operator = rendered(make(source=source, days="{{ params.day }}"), conn="c", x="a{{b", day="2026-10-07")
    assert (operator.source.conn_id, operator.source.where) == ("c", 'properties["x"] == "a{{b"')
    assert operator.days == "2026-10-07"


@pytest.mark.parametrize(
    ("sink", "shown"),
    [
        (DeltaSink(path="{{ params.where }}/events"), "/lake/events"),
        (DeltaSink(path="/lake/{{ params.name }}"), "/lake/events"),
        (BigQuerySink(table="{{ params.data }}.events"), "bigquery://google_cloud_default.data.events"),
        (KafkaSink(topic="{{ params.name }}_{event}"), "kafka://kafka_default/events_{event}"),
    ],
    ids=["path", "end of a path", "table", "topic"],
)
def test_paths_tables_and_topics_are_rendered(sink: Any, shown: str) -> None:
    operator = rendered(make(sink=sink, asset=LAKE), where="/lake/", name="events", data="data")
    assert operator.sink.target == shown
    assert type(sink).from_options(operator.sink.serialize()) == operator.sink


def test_a_source_s_texts_in_lists_are_rendered() -> None:
    source = MixpanelSource(event=["{{ params.name }}", "b"], parallel_days="{{ params.n }}")
    operator = rendered(make(source=source), name="a", n=2)
    assert (list(operator.source.event), operator.source.parallel_days) == (["a", "b"], 2)


def test_rendered_options_are_checked_and_all_errors_reported_together(
    supervisor: Supervisor, spark_submit: SparkSubmit
) -> None:
    source, sink = MixpanelSource(zone="{{ params.x }}"), DeltaSink(path="{{ params.x }}")
    operator = make(source=source, sink=sink, asset=LAKE)
    context: Any = {"params": {"x": "no/where"}, "dag_run": dag_run(), "ti": task_instance()}
    operator.render_template_fields(context)
    with pytest.raises(AirflowFailException, match=r"(?s)MixpanelSource: .*zone.*DeltaSink: path: .*relative"):
        operator.execute(context)
    assert not (spark_submit.folder / "seen.json").exists()


def test_a_mapped_task_renders_its_own_sink(supervisor: Supervisor) -> None:
    with DAG("d", schedule=None, start_date=dt.datetime(2026, 10, 1, tzinfo=dt.UTC)) as dag:
        sinks = [DeltaSink(path=f"/lake/{name}/{{{{ dag_run.conf.x }}}}") for name in ("a", "b")]
        partial = ConnectOperator.partial(task_id="many", source=TinySource(conn_id="c"), asset=LAKE)
        mapped: Any = partial.expand(sink=sinks)
    DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))
    context: Any = {"dag": dag, "dag_run": dag_run(conf={"x": "y"}), "ti": task_instance(map_index=1)}
    mapped.render_template_fields(context)
    one = context["task"]
    one._validate_rendered()
    assert one.sink.path == "/lake/b/y"


def test_rendered_options_are_published(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger, tmp_path: Path
) -> None:
    operator = make(
        source=TinySource(conn_id="tiny_default", where="{{ params.x }}"),
        sink=TinySink(table="{{ params.ledger }}"),
        asset=LAKE,
    )
    context: Any = {
        "params": {"x": "a > {{ 1 }}", "ledger": str(ledger.path)},
        "dag": operator.dag,
        "dag_run": dag_run(),
        "ti": task_instance(),
        "outlet_events": OutletEventAccessors(),
    }
    spark_submit.does(DONE)
    operator.render_template_fields(context)
    summary = operator.execute(context)
    assert spark_submit.seen["job"]["source"]["where"] == "a > {{ 1 }}"
    assert context["outlet_events"][LAKE].extra == summary


def test_a_template_in_another_option_leaves_the_asset_s_name_as_it_is() -> None:
    for path, sweep_after in (("s3a://b/x", "{{ params.wait }}"), ("s3a://b/x", dt.timedelta(hours=1))):
        [outlet] = make(sink=DeltaSink(path=path, sweep_after=sweep_after)).outlets
        assert outlet.uri == "s3://b/x"
    operator = rendered(make(sink=DeltaSink(path="s3a://b/x", sweep_after="{{ params.wait }}")), wait="PT1H")
    assert (operator.sink.target, operator.sink.sweep_after) == ("s3://b/x", dt.timedelta(hours=1))


def test_a_sink_whose_name_is_a_template_needs_an_asset() -> None:
    with pytest.raises(ConfigError, match=r"'/lake/\{\{ ds \}\}' is a template.*Pass asset="):
        make(sink=DeltaSink(path="/lake/{{ ds }}"))
    assert [outlet.uri for outlet in make(sink=DeltaSink(path="/lake/{{ ds }}"), asset=LAKE).outlets] == [LAKE.uri]
