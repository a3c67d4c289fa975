from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from airflow.sdk.api.datamodels._generated import DagRun

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.operators.intent import intent_of, new_attempt
from airflow_provider_connect.sink import Intent
from tests.unit.operators.conftest import dag_run, task_instance

LATER = dt.datetime(2026, 10, 7, tzinfo=dt.UTC)


def intent(task: dict[str, Any] | None = None, **run: Any) -> Intent:
    return intent_of(dag_run(**run), task_instance(**(task or {})))


def test_a_worker_sees_what_the_token_is_made_of() -> None:
    assert {"start_date", "clear_number"} <= set(DagRun.model_fields)


@pytest.mark.parametrize("task", [{"try_number": 3}, {"hostname": "b"}])
def test_retry_keeps_the_intent(task: dict[str, Any]) -> None:
    assert intent(task) == intent()


def test_backfill_type_and_conf_do_not_change_the_intent() -> None:
    assert intent(run_type="backfill", conf={"a": 1}) == intent()


@pytest.mark.parametrize(
    ("task", "run"),
    [
        ({}, {"clear_number": 1}),
        ({}, {"start_date": LATER}),
        ({}, {"run_id": "manual"}),
        ({}, {"dag_id": "other"}),
        ({"task_id": "other"}, {}),
        ({"map_index": 0}, {}),
    ],
)
def test_every_other_intent_has_its_own_token(task: dict[str, Any], run: dict[str, Any]) -> None:
    assert intent(task, **run).token != intent().token


def test_run_and_clear_number_stay_readable() -> None:
    cleared = intent({"map_index": 3}, clear_number=2)
    assert (cleared.run, cleared.clear_number) == ("dag/scheduled__2026-10-06/events[3]", 2)


def test_zone_of_the_start_date_does_not_matter() -> None:
    elsewhere = dag_run().start_date.astimezone(dt.timezone(dt.timedelta(hours=5)))  # type: ignore[union-attr]
    assert intent(start_date=elsewhere) == intent()


def test_run_without_start_is_tried_again() -> None:
    with pytest.raises(RetriableError):
        intent(start_date=None)


def test_attempts_differ_and_start_like_their_token() -> None:
    names = {new_attempt(intent()) for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith(intent().token[:16] + "-") for name in names)


def test_label_names_the_mapped_task() -> None:
    assert intent({"map_index": 3}).run == "dag/scheduled__2026-10-06/events[3]"
