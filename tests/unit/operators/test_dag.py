from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, Asset
from airflow.sdk.definitions.retry_policy import ExceptionRetryPolicy
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.operators.retry import ConnectRetryPolicy
from airflow_provider_connect.timetables import daily, every
from tests.equipment.airflow.connectors import TinySink, TinySource

DAGS = Path(__file__).parents[3] / "dags"
WHERE = 'properties["x"] == "{{ params.x }}"'


def make(**dag_options: Any) -> DAG:
    start = dt.datetime(2026, 10, 1, tzinfo=dt.UTC)
    with DAG("d", schedule=daily("US/Pacific"), start_date=start, **dag_options) as dag:
        source, sink = TinySource(conn_id="c", where=WHERE), TinySink(table="t")
        ConnectOperator(
            task_id="one", source=source, sink=sink, days="{{ params.days }}", params={"days": "2026-10-05"}
        )
        ConnectOperator.partial(task_id="many", source=source, sink=sink).expand(days=["2026-10-05", "2026-10-06"])
    return dag


@pytest.mark.parametrize("path", sorted([*DAGS.glob("*.py"), *DAGS.glob("recipes/*.py")]), ids=lambda path: path.stem)
def test_example_dags_import(path: Path) -> None:
    bag = DagBag(dag_folder=path)
    assert bag.import_errors == {}
    files = sorted(file.stem for file in (DAGS / path.stem).glob("*.yaml"))  # where DAGs are declared in files
    assert sorted(bag.dags) == (files or [path.stem])
    assert all(dag.doc_md for dag in bag.dags.values())


def test_round_trip_shows_options_and_keeps_the_outlet() -> None:
    dag = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(make()))))
    one, many = dag.get_task("one"), dag.get_task("many")
    assert (one.source["where"], one.sink["table"], one.days) == (WHERE, "t", "{{ params.days }}")
    assert [asset.uri for asset in one.outlets] == [Asset(uri="tiny://t").uri]
    assert one.has_retry_policy
    assert many.has_retry_policy


def test_the_schedule_of_increments_survives_the_database() -> None:
    dag = DAG("d", schedule=every("15 minutes", "Europe/Berlin"), start_date=dt.datetime(2026, 10, 1, tzinfo=dt.UTC))
    stored = json.loads(json.dumps(DagSerialization.to_dict(dag)))
    assert stored["dag"]["timetable"]["__type"] == "airflow_provider_connect.timetables.EveryTimetable"
    timetable = DagSerialization.from_dict(stored).timetable
    assert timetable.serialize() == {"period": "15 minutes", "timezone": "Europe/Berlin"}


def test_the_default_is_three_retries() -> None:
    assert [task.retries for task in make().tasks] == [3, 3]
    assert [task.retries for task in make(default_args={"retries": 0}).tasks] == [0, 0]
    assert all(isinstance(task.retry_policy, ConnectRetryPolicy) for task in make().tasks)
    own = ExceptionRetryPolicy(rules=[])
    assert all(task.retry_policy is own for task in make(default_args={"retry_policy": own}).tasks)


def test_mapped_task_gets_its_own_days() -> None:
    mapped: Any = make().get_task("many")
    assert [asset.uri for asset in mapped.outlets] == [Asset(uri="tiny://t").uri]
    one = mapped.unmap({"days": "2026-10-06"})
    assert (one.days, one.source.where, one.retries) == ("2026-10-06", WHERE, 3)
    assert [asset.uri for asset in one.outlets] == [Asset(uri="tiny://t").uri]


def test_an_outlet_of_the_user_s_own_is_not_doubled() -> None:
    own = Asset(name="events", uri="tiny://t")
    operator = ConnectOperator(task_id="a", source=TinySource(conn_id="c"), sink=TinySink(table="t"), outlets=own)
    assert operator.outlets == [own]
