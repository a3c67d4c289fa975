"""A command finds the tasks that it can speak about, and says why it cannot speak about others."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_provider_connect.cli.pipelines import _of
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.connect import ConnectOperator
from tests.equipment.airflow.connectors import TinySink, TinySource


@pytest.fixture
def dag() -> DAG:
    with DAG("sales", start_date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC), schedule=None) as made:
        EmptyOperator(task_id="begin")
        ConnectOperator(task_id="orders", source=TinySource(conn_id="c"), sink=TinySink(table="t"))
    return made


def test_only_our_tasks_are_pipelines(dag: DAG) -> None:
    assert [each.name for each in _of(dag, None)] == ["sales/orders"]
    assert [each.name for each in _of(dag, "orders")] == ["sales/orders"]


@pytest.mark.parametrize(
    ("task", "told"),
    [("order", "no ConnectOperator task 'order'; did you mean 'orders'"), ("begin", "no ConnectOperator task 'begin'")],
)
def test_another_task_is_refused(dag: DAG, task: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        _of(dag, task)


def test_a_dag_without_any_is_refused() -> None:
    with pytest.raises(ConfigError, match="'empty' has no ConnectOperator task"):
        _of(DAG("empty", schedule=None), None)


def test_what_only_a_run_knows_is_told(dag: DAG) -> None:
    with dag:
        ConnectOperator(task_id="by_day", source=TinySource(conn_id="{{ params.c }}"), sink=TinySink(table="t"))
        mapped: Any = ConnectOperator.partial(task_id="mapped", source=TinySource(conn_id="c"))
        mapped.expand(sink=[TinySink(table="a"), TinySink(table="b")])
    assert [each.name for each in _of(dag, "orders")] == ["sales/orders"]
    with pytest.raises(ConfigError) as refused:
        _of(dag, None)
    assert "task 'by_day': source.conn_id hold templates" in str(refused.value)
    assert "task 'mapped' is mapped" in str(refused.value)
