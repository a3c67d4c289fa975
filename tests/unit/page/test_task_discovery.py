from __future__ import annotations

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.bash import BashOperator

from airflow_provider_connect.decorators.connect import ConnectDecoratedOperator
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.page.task_discovery import is_connect_task


class Own(ConnectOperator):
    """A class that somebody has made of ours."""

    template_fields = (*ConnectOperator.template_fields, "more")


@pytest.mark.parametrize("operator", [ConnectOperator, ConnectDecoratedOperator, Own])
def test_tasks_of_ours_are_known_by_their_templated_fields(operator: type) -> None:
    assert is_connect_task({"template_fields": list(operator.template_fields)})  # type: ignore[attr-defined]


@pytest.mark.parametrize("operator", [SparkSubmitOperator, BashOperator])
def test_tasks_of_others_are_not_found(operator: type) -> None:
    assert not is_connect_task({"template_fields": list(operator.template_fields)})  # type: ignore[attr-defined]
    assert not is_connect_task({"template_fields": None})
    assert not is_connect_task({"template_fields": ["source", "sink", "days"]})
