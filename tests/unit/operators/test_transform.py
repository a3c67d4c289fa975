"""``transform=`` on its way from a DAG file to the job."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, task

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.pipelines import dags_from
from airflow_provider_connect.pipelines.schema import schema
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from tests.equipment.airflow.connectors import TinyLedger, TinySink, TinySource
from tests.unit.operators.conftest import SparkSubmit, Supervisor, Task
from tests.unit.operators.test_connect_operator import DONE

FUNCTION = "transforms:daily"


def test_sql_is_rendered_and_travels_as_text(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger
) -> None:
    spark_submit.does(DONE)
    made = Task(ledger, transform="SELECT *, '{{ ti.task_id }}' AS task FROM polled")
    made.operator.render_template_fields(made.context)
    made.run()
    sent = spark_submit.seen["job"]["transform"]
    assert sent == {"sql": "SELECT *, 'events' AS task FROM polled", "reference": None}
    assert spark_submit.seen["mode"] == "0o600"


def test_the_unrendered_transform_is_part_of_the_definition(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger
) -> None:
    spark_submit.does(DONE)
    parts = []
    for day in ("2026-10-05", "2026-10-06"):
        made = Task(ledger, transform="SELECT * FROM polled WHERE seen_on = '{{ ds }}'")
        made.operator.render_template_fields({**made.context, "ds": day})
        made.run()
        assert day in spark_submit.seen["job"]["transform"]["sql"]
        parts.append(spark_submit.seen["job"]["definition"]["shapes"]["transform"])
    assert parts[0] == parts[1]
    assert parts[0].startswith("SELECT * FROM polled WHERE seen_on = … #")
    Task(ledger, transform="transforms:daily").run()
    assert spark_submit.seen["job"]["definition"]["shapes"]["transform"].startswith("transforms:daily")


def test_a_function_s_name_travels_as_such(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger
) -> None:
    spark_submit.does(DONE)
    Task(ledger, transform="my_project.transforms:daily").run()
    assert spark_submit.seen["job"]["transform"]["reference"] == "my_project.transforms:daily"


def test_a_mistake_is_refused_when_the_dag_file_is_read() -> None:
    source, sink = SqlSource(conn_id="x", table="t", day_column="d"), DeltaSink(path="/lake/t")
    with pytest.raises(ConfigError, match=r"transform: must be one query.*but begins with 'DELETE'"):
        ConnectOperator(task_id="a", source=source, sink=sink, transform="DELETE FROM polled")
    ConnectOperator(task_id="b", source=source, sink=sink, transform="{# the day's #} {{ var.value.query }}")
    ConnectOperator(task_id="c", source=source, sink=sink, transform="{# the day's #} SELECT * FROM polled")
    with pytest.raises(ConfigError, match="transform: must be SQL or the name of a function"):
        ConnectOperator.partial(task_id="a", source=source, sink=sink, transform=3)
    with pytest.raises(ConfigError, match=r"not a function\. Put the function into a module"):
        ConnectOperator(task_id="d", source=source, sink=sink, transform=lambda frame: frame)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"@task\.connect: transform: is empty"):
        task.connect(transform=" ")


def test_mapped_and_decorated_tasks_accept_a_transform() -> None:
    source, sink = TinySource(conn_id="tiny_default"), TinySink(table="/t")
    with DAG("d", schedule=None, start_date=dt.datetime(2026, 10, 5, tzinfo=dt.UTC)) as dag:
        ConnectOperator.partial(task_id="mapped", source=source, sink=sink, transform=FUNCTION).expand(
            days=["2026-10-05", "2026-10-06"]
        )

        @task.connect(transform=FUNCTION)
        def load() -> Any:
            return source, sink

        load()
    mapped: Any = dag.get_task("mapped")
    assert str(mapped.unmap({"days": "2026-10-05"}).transform) == FUNCTION
    decorated: Any = dag.get_task("load")
    assert str(decorated._build_operator({}).transform) == FUNCTION


def test_a_pipeline_file_takes_text_alone(tmp_path: Path) -> None:
    text = (
        "name: {name}\nsource: {{sql: {{conn_id: x, table: t, day_column: d}}}}\nsink: {{delta: {{path: /lake/t}}}}\n"
    )
    (tmp_path / "right.yaml").write_text(text.format(name="right") + "transform: SELECT * FROM polled\n")
    code = compile("made = dags_from('right.yaml')", str(tmp_path / "all.py"), "exec")
    names: dict[str, Any] = {"dags_from": dags_from}
    exec(code, names)
    assert names["made"]["right"].get_task("load").transform == "SELECT * FROM polled"
    (tmp_path / "right.yaml").write_text(text.format(name="wrong") + "transform: {sql: SELECT 1}\n")
    with pytest.raises(ConfigError, match="transform: must be text"):
        exec(code, names)
    assert schema()["properties"]["transform"]["anyOf"] == [{"type": "string"}, {"type": "null"}]
