"""Which days ``airflow connect run`` moves."""

from __future__ import annotations

import datetime as dt

import pytest
from airflow.cli.cli_parser import get_parser
from airflow.sdk import DAG

from airflow_provider_connect.cli.run import days_to_move
from airflow_provider_connect.cli.tasks import DeclaredTask
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.connect import ConnectOperator
from tests.equipment.airflow.connectors import TinySink, TinySource


def task(days: str | None) -> DeclaredTask:
    source = TinySource(conn_id="tiny_default", zone_name="Pacific/Kiritimati")  # the first to have a new day
    with DAG("a_dag", schedule=None, params={"first": "2026-03-01"}) as dag:
        operator = ConnectOperator(task_id="events", source=source, sink=TinySink(), days=days)
    return DeclaredTask(dag, "events", operator)


YESTERDAY = (dt.datetime.now(dt.timezone(dt.timedelta(hours=14))) - dt.timedelta(days=1)).date()


@pytest.mark.parametrize(
    ("own", "given", "moved"),
    [
        (None, "2026-03-05", "2026-03-05"),
        ("2026-03-01", "2026-03-05..2026-03-06", "2026-03-05..2026-03-06"),
        ("2026-03-01..2026-03-02", None, "2026-03-01..2026-03-02"),
        ("{{ params.first }}..2026-03-02", None, "2026-03-01..2026-03-02"),
        ("{{ ds }}", None, str(YESTERDAY)),
        (None, None, str(YESTERDAY)),
        (" ", None, str(YESTERDAY)),
        ("{{ '' }}", None, str(YESTERDAY)),
    ],
)
def test_days_are_those_of_the_command_else_of_the_task_else_yesterday(
    own: str | None, given: str | None, moved: str
) -> None:
    assert days_to_move(task(own), given) == moved


def test_overridden_days_of_a_task_cause_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    days_to_move(task("{{ ds }}"), "2026-03-05")
    assert "a_dag.events: --days 2026-03-05 takes precedence over the task's days='{{ ds }}'" in capsys.readouterr().err
    days_to_move(task(None), "2026-03-05")
    assert capsys.readouterr().err == ""


def test_a_template_of_days_that_only_a_run_can_render_is_named() -> None:
    with pytest.raises(ConfigError, match=r"a_dag\.events: a template of its days .* Pass --days"):
        days_to_move(task("{{ dag_run.conf['day'] }}"), None)


def test_the_command_takes_days_or_none() -> None:
    assert get_parser().parse_args(["connect", "run", "a_dag"]).days is None
    assert get_parser().parse_args(["connect", "run", "a_dag", "--days", "2026-03-05"]).days == "2026-03-05"
