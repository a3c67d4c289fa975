"""Shapes as the operator has them: checked with the DAG file, rendered for the run, sent with the job."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.shapes import Condition, Constant, Drop, Filter, Mask
from tests.equipment.airflow.connectors import TinyLedger, TinySource
from tests.unit.operators.conftest import DONE, SparkSubmit, Supervisor, Task

pytestmark = pytest.mark.usefixtures("weak_key_digests")
BIG = Filter(where=Condition(column="amount", operator="at_least", value=100))
MASK = Mask(columns=["email"], conn_id="mask_key")
KEY = "a-key-that-nobody-guesses-0123456789"


@pytest.fixture
def ready(supervisor: Supervisor, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch) -> SparkSubmit:
    spark_submit.does(DONE)
    monkeypatch.setenv("AIRFLOW_CONN_MASK_KEY", json.dumps({"conn_type": "generic", "password": KEY}))
    return spark_submit


@pytest.mark.parametrize(
    ("options", "keep"),
    [
        ({}, "record"),
        ({"shape": [BIG]}, "record"),
        ({"shape": [BIG, Drop(columns=["ip"])]}, "digest"),
        ({"shape": [Drop(columns=["ip"])], "rejects_keep": "record"}, "record"),
        ({"rejects_keep": "digest"}, "digest"),
    ],
)
def test_the_job_gets_the_shapes_and_no_reject_has_hidden_columns(
    ready: SparkSubmit, ledger: TinyLedger, options: dict[str, Any], keep: str
) -> None:
    Task(ledger, **options).run()
    job = ready.seen["job"]
    assert job["shape"] == [shape.serialize() for shape in options.get("shape", ())]
    assert job["rejects_keep"] == keep


def test_the_key_of_a_mask_goes_with_the_connections_alone(
    ready: SparkSubmit, ledger: TinyLedger, supervisor: Supervisor
) -> None:
    Task(ledger, shape=[MASK]).run()
    assert ready.seen["connections"]["mask_key"]["password"] == KEY
    assert KEY not in json.dumps([ready.seen["job"], ready.seen["argv"]])
    assert KEY in supervisor.masked


def test_a_missing_connection_is_reported_with_the_others(
    ready: SparkSubmit, ledger: TinyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_MASK_KEY")
    monkeypatch.delenv("AIRFLOW_CONN_TINY_DEFAULT")
    with pytest.raises(AirflowFailException, match=r"'tiny_default'(.|\n)*'mask_key'"):
        Task(ledger, shape=[MASK]).run()


def test_shapes_may_have_templates_and_the_run_shows_the_rendered_text(ready: SparkSubmit, ledger: TinyLedger) -> None:
    task = Task(ledger, shape=[Constant(column="loaded_by", value="{{ run_id }}", type="STRING"), BIG])
    task.operator.render_template_fields({**task.context, "run_id": "scheduled__2026-10-06"})
    shown = _serialize_rendered_fields(task.operator)["shape"]
    task.run()
    assert ready.seen["job"]["shape"][0]["constant"]["value"] == "scheduled__2026-10-06"
    assert isinstance(shown, list)
    assert shown[0]["constant"]["value"] == "scheduled__2026-10-06"


def test_templates_are_the_same_part_of_the_definition_each_day(ready: SparkSubmit, ledger: TinyLedger) -> None:
    parts = []
    for day in ("2026-10-05", "2026-10-06"):
        source = TinySource(conn_id="tiny_default", where="day = '{{ ds }}'")
        task = Task(ledger, source=source, shape=[Constant(column="day", value="{{ ds }}", type="STRING"), MASK])
        task.operator.render_template_fields({**task.context, "ds": day})
        task.run()
        assert ready.seen["job"]["source"]["where"] == f"day = '{day}'"
        parts.append(ready.seen["job"]["definition"])
    assert parts[0] == parts[1]
    assert parts[0]["narrowing"]["where"].startswith("day = … #")
    assert parts[0]["shapes"]["shape"].startswith("constant → mask #")
    assert parts[0]["shapes"]["mask keys"] not in ("none", "", KEY)


def test_another_key_of_a_mask_is_another_part_of_the_definition(
    ready: SparkSubmit, ledger: TinyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = []
    for key in (KEY, KEY[::-1]):
        monkeypatch.setenv("AIRFLOW_CONN_MASK_KEY", json.dumps({"conn_type": "generic", "password": key}))
        Task(ledger, shape=[MASK]).run()
        parts.append(ready.seen["job"]["definition"]["shapes"])
    assert parts[0]["shape"] == parts[1]["shape"]
    assert parts[0]["mask keys"] != parts[1]["mask keys"]


def test_a_rendered_shape_is_checked_with_source_and_sink(ready: SparkSubmit, ledger: TinyLedger) -> None:
    task = Task(ledger, shape=[Mask(columns=["email"], mode="{{ mode }}")])
    task.operator.render_template_fields({**task.context, "mode": "hsh"})
    with pytest.raises(AirflowFailException, match=r"shape\[0\]: Mask: mode"):
        task.run()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"shape": Drop(columns=["a"])},
            r"shape: must be a list of shapes, such as \[Drop\(columns=\['ip'\]\)\], not a Drop",
        ),
        ({"shape": [{"drop": {}}, 3]}, r"shape: must contain only shapes of .*: \[0\] is a dict, \[1\] is a int"),
        ({"rejects_keep": "recod"}, "rejects_keep: cannot be 'recod'; did you mean 'record'?"),
    ],
)
def test_a_wrong_shape_is_refused_when_the_dag_file_is_read(
    ledger: TinyLedger, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        Task(ledger, **options)
