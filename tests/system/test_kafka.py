"""Days into Kafka through a real Airflow and real Spark: catchup, races, reloads, kills, also of the broker."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pytest

from tests.equipment.airflow.kafka_table import OnKafka
from tests.equipment.airflow.kills import Kill, kill_and_recover
from tests.equipment.airflow.many_days import catch_up
from tests.equipment.airflow.races import (
    RELOADED,
    kills_while_an_older_reload_waits_and_polls_last,
    trigger_all,
    two_runs_of_one_day,
)
from tests.system.conftest import System, served

pytestmark = pytest.mark.slow

DAG = "kafka_by_hand"


def topic(system: System, dag_id: str = DAG) -> OnKafka:
    found = system.written_by[dag_id]
    assert isinstance(found, OnKafka)
    return found


@pytest.fixture(scope="module", autouse=True)
def runs(system: System):
    """Trigger the runs that need no fault before catchup takes all slots."""
    trigger_all(system, DAG)


@pytest.mark.catchup
def test_many_days_at_once(system: System):
    catch_up(system, "kafka_catchup", fault_rate=0.25)
    assert topic(system, "kafka_catchup").left_after_sweep() == []


def test_two_runs_of_one_day_at_once(system: System):
    two_runs_of_one_day(system, DAG)


def test_kills_while_a_reload_with_fewer_rows_races_the_retry_of_an_older_one(system: System):
    kills = [
        Kill.seeded("driver", dt.date(2026, 6, 1), 1, dag_id=DAG),
        Kill("worker", dt.date(2026, 5, 31), 0.1, DAG, "publishing"),
    ]
    kills_while_an_older_reload_waits_and_polls_last(system, DAG, kills)


def test_the_broker_dies_under_days_on_their_way(system: System):
    first = dt.date(2026, 5, 1)
    dates = [first + dt.timedelta(days=i) for i in range(2)]
    kills = [Kill("broker", date, 0.3 * i, DAG, "publishing") for i, date in enumerate(dates)]
    assert all(kill_and_recover(system, kills))


def test_a_publish_that_wakes_up_after_its_retry_changes_nothing(system: System):
    kills = [
        Kill("zombie", dt.date(2026, 5, 10), 0.0, DAG, "publishing"),
        Kill("zombie", dt.date(2026, 5, 11), 0.4, DAG),
    ]
    assert any(kill_and_recover(system, kills))
    assert max(system.task(kill.run_id, DAG)["try_number"] for kill in kills) > 1


def test_every_generation_is_there_once_and_readers_choose_by_its_header(system: System):
    found = topic(system).records()
    sizes = Counter((record.day, record.generation) for record in found)
    places = Counter((record.day, record.generation, record.headers["connect.position"]) for record in found)
    assert set(places.values()) == {1}, "a record is there twice"
    day, total = str(RELOADED), served(system.by_hand.project, [RELOADED])[str(RELOADED)].total()
    assert sizes[day, 1] == total
    assert 0 < sizes[day, 2] < total, "the reload has fewer rows, and the first load stays as it is"
    assert {of_day for of_day, _ in sizes} == set(topic(system).ledger())


def test_ledger_and_topic_agree_and_no_transaction_is_left_open(system: System):
    rows = {day: found.total() for day, found in system.rows(DAG).items()}
    assert {day: row.rows for day, row in topic(system).ledger().items()} == rows
    assert topic(system).left_after_sweep() == []
