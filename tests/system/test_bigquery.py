"""Days into BigQuery through a real Airflow and real Spark: catchup, races, reloads and kills."""

from __future__ import annotations

import datetime as dt

import pytest

from tests.equipment.airflow.kills import Kill
from tests.equipment.airflow.many_days import catch_up
from tests.equipment.airflow.races import (
    kills_while_an_older_reload_waits_and_polls_last,
    trigger_all,
    two_runs_of_one_day,
)
from tests.equipment.airflow.tables import OnBigQuery
from tests.system.conftest import System

pytestmark = pytest.mark.slow

DAG = "bigquery_by_hand"


@pytest.fixture(scope="module", autouse=True)
def runs(system: System):
    """Trigger the runs that need no fault before catchup takes all slots."""
    trigger_all(system, DAG)


@pytest.mark.campaign
@pytest.mark.catchup
def test_many_days_at_once(system: System):
    catch_up(system, "bigquery_catchup", fault_rate=0.25)
    caught_up = system.written_by["bigquery_catchup"]
    assert isinstance(caught_up, OnBigQuery)
    assert caught_up.staging_tables() == [], "a publish that went well left its staging table"


def test_two_runs_of_one_day_at_once(system: System):
    two_runs_of_one_day(system, DAG)


@pytest.mark.campaign
def test_kills_while_a_reload_with_fewer_rows_races_the_retry_of_an_older_one(system: System):
    first = dt.date(2026, 6, 1)
    victims = ("driver", "worker", "task")
    dates = [first + dt.timedelta(days=i) for i in range(len(victims))]
    kills = [Kill.seeded(victim, date, date.day, dag_id=DAG) for victim, date in zip(victims, dates, strict=True)]
    kills.append(Kill("driver", first - dt.timedelta(days=1), 0.1, DAG, "publishing"))
    kills_while_an_older_reload_waits_and_polls_last(system, DAG, kills)


def test_ledger_and_table_agree_and_a_sweep_leaves_no_staging_table(system: System):
    table = system.written_by[DAG]
    rows = {day: found.total() for day, found in system.rows(DAG).items()}
    assert {day: row.rows for day, row in table.ledger().items()} == rows
    assert table.left_after_sweep() == []
    assert {day: found.total() for day, found in system.rows(DAG).items()} == rows
