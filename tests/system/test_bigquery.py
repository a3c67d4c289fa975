"""Days into BigQuery through a real Airflow and real Spark: catchup, races, reloads and kills."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

import pytest

from airflow_provider_connect.demo.mixpanel_events import Project, TimeUnit, Truth
from airflow_provider_connect.demo.mixpanel_faults import Fault

from .conftest import System, served, wait_for
from .kills import Kill, kill_and_recover
from .tables import OnBigQuery, Published
from .thirty_days import catch_up

pytestmark = pytest.mark.slow

DAG = "bigquery_by_hand"
CONTESTED, RELOADED = dt.date(2026, 6, 10), dt.date(2026, 6, 11)


@dataclass(frozen=True)
class Thinned(Project):
    """A project that has lost every third line of some dates."""

    thinned: frozenset[dt.date] = field(default=frozenset(), kw_only=True)

    @classmethod
    def of(cls, project: Project, date: dt.date) -> Thinned:
        return cls(**{f.name: getattr(project, f.name) for f in fields(project)}, thinned=frozenset({date}))

    def lines(self, date: dt.date, unit: TimeUnit = "s") -> Iterator[bytes]:
        for index, line in enumerate(super().lines(date, unit)):
            if date not in self.thinned or index % 3:
                yield line

    def truth(self, date: dt.date) -> Truth:
        return super().truth(date)._replace(lines=sum(1 for _ in self.lines(date)))


def table(system: System) -> OnBigQuery:
    found = system.written_by[DAG]
    assert isinstance(found, OnBigQuery)
    return found


@pytest.fixture(scope="module", autouse=True)
def runs(system: System):
    """Trigger the runs that need no fault before catchup takes all slots."""
    system.by_hand.faults.replace([])
    for run_id, date in (("reload", RELOADED), ("one", CONTESTED), ("other", CONTESTED)):
        system.trigger(str(date), run_id, DAG)


def test_thirty_days_sixteen_at_once(system: System):
    catch_up(system, "bigquery_catchup", fault_rate=0.25)
    caught_up = system.written_by["bigquery_catchup"]
    assert isinstance(caught_up, OnBigQuery)
    assert caught_up.staging_tables() == [], "a publish that went well left its staging table"


def test_two_runs_of_one_day_at_once(system: System):
    for run_id in ("one", "other"):
        system.wait_for_run(run_id, DAG)
    days = [day for run_id in ("one", "other") for day in system.report(run_id, DAG)["days"]]
    assert sorted(day["status"] for day in days) in (["published", "published"], ["published", "superseded"])
    rows = system.rows(DAG)[str(CONTESTED)]
    assert rows == served(system.by_hand.project, [CONTESTED])[str(CONTESTED)]
    generations = [day["generation"] for day in days if day["status"] == "published"]
    assert table(system).ledger()[str(CONTESTED)] == Published(max(generations), rows.total())
    assert sorted(generations) == list(range(1, len(generations) + 1))


def test_kills_while_a_reload_with_fewer_rows_races_the_retry_of_an_older_one(system: System):
    day, whole = str(RELOADED), system.by_hand.project
    system.wait_for_run("reload", DAG)
    assert table(system).ledger()[day] == Published(1, served(whole, [RELOADED])[day].total())

    too_many = Fault("status", date=RELOADED, status=429, headers={"Retry-After": "30"}, times=1)
    system.by_hand.faults.replace([too_many])
    system.clear("reload", DAG)
    wait_for(lambda: system.task("reload", DAG)["state"] == "up_for_retry", 60, "the older reload waits for its retry")
    system.by_hand.project = Thinned.of(whole, RELOADED)
    try:
        system.trigger(day, "newer-reload", DAG)
        system.wait_for_run("newer-reload", DAG)
        fewer = served(system.by_hand.project, [RELOADED])[day]
    finally:
        system.by_hand.project = whole

    first = dt.date(2026, 6, 1)
    victims = ("driver", "worker", "task")
    dates = [first + dt.timedelta(days=i) for i in range(len(victims))]
    kills = [Kill.seeded(victim, date, date.day, dag_id=DAG) for victim, date in zip(victims, dates, strict=True)]
    kills.append(Kill("driver", first - dt.timedelta(days=1), 0.1, DAG, "publishing"))
    assert any(kill_and_recover(system, kills))
    assert max(system.task(kill.run_id, DAG)["try_number"] for kill in kills) > 1

    system.wait_for_run("reload", DAG)
    [newer] = system.report("newer-reload", DAG)["days"]
    assert system.rows(DAG)[day] == fewer, "the older intent has overwritten the newer one"
    assert table(system).ledger()[day] == Published(newer["generation"], fewer.total())


def test_ledger_and_table_agree_and_a_sweep_leaves_no_staging_table(system: System):
    rows = {day: found.total() for day, found in system.rows(DAG).items()}
    assert {day: row.rows for day, row in table(system).ledger().items()} == rows
    assert table(system).left_after_sweep() == []
    assert {day: found.total() for day, found in system.rows(DAG).items()} == rows
