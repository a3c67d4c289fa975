"""Two runs of one day, for any table: both at once, or an older run whose answer comes later."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from tests.equipment.airflow.kills import Kill, kill_and_recover
from tests.equipment.airflow.tables import Published
from tests.standins.mixpanel.events import Project, TimeUnit, Truth
from tests.standins.mixpanel.faults import Fault
from tests.system.conftest import System, served, wait_for

CONTESTED, RELOADED = dt.date(2026, 6, 10), dt.date(2026, 6, 11)


@dataclass(frozen=True)
class Thinned(Project):
    """A project that has lost every third line of some dates."""

    thinned: frozenset[dt.date] = field(default=frozenset(), kw_only=True)

    @classmethod
    def from_project(cls, project: Project, date: dt.date) -> Thinned:
        return cls(**{f.name: getattr(project, f.name) for f in fields(project)}, thinned=frozenset({date}))

    def lines(self, date: dt.date, unit: TimeUnit = "s") -> Iterator[bytes]:
        for index, line in enumerate(super().lines(date, unit)):
            if date not in self.thinned or index % 3:
                yield line

    def truth(self, date: dt.date) -> Truth:
        return super().truth(date)._replace(lines=sum(1 for _ in self.lines(date)))


def trigger_all(system: System, dag_id: str) -> None:
    """Trigger the runs that need no fault."""
    system.by_hand.faults.replace([])
    for run_id, date in (("reload", RELOADED), ("one", CONTESTED), ("other", CONTESTED)):
        system.trigger(str(date), run_id, dag_id)


def two_runs_of_one_day(system: System, dag_id: str) -> None:
    """Wait for both; the table has the day once, and the second run polled after the first had published."""
    for run_id in ("one", "other"):
        system.wait_for_run(run_id, dag_id)
    days = [day for run_id in ("one", "other") for day in system.report(run_id, dag_id)["days"]]
    assert [day["status"] for day in days] == ["published", "published"]
    rows = system.rows(dag_id)[str(CONTESTED)]
    assert rows == served(system.by_hand.project, [CONTESTED])[str(CONTESTED)]
    assert sorted(day["generation"] for day in days) == [1, 2]
    assert system.written_by[dag_id].ledger()[str(CONTESTED)] == Published(2, rows.total())


def kills_while_an_older_reload_waits_and_polls_last(system: System, dag_id: str, kills: list[Kill]) -> None:
    """Reload a day with fewer rows while an older reload waits for its retry, and kill processes of other days.

    The older one polls after the newer one has published: its answer is the newest, and stays.
    """
    table, day, whole = system.written_by[dag_id], str(RELOADED), system.by_hand.project
    system.wait_for_run("reload", dag_id)
    assert table.ledger()[day] == Published(1, served(whole, [RELOADED])[day].total())

    too_many = Fault("status", date=RELOADED, status=429, headers={"Retry-After": "30"}, times=1)
    system.by_hand.faults.replace([too_many])
    system.clear("reload", dag_id)
    wait_for(
        lambda: system.task("reload", dag_id)["state"] == "up_for_retry", 60, "the older reload's wait for a retry"
    )
    system.by_hand.project = Thinned.from_project(whole, RELOADED)
    try:
        system.trigger(day, "newer-reload", dag_id)
        system.wait_for_run("newer-reload", dag_id)
        fewer = served(system.by_hand.project, [RELOADED])[day]
    finally:
        system.by_hand.project = whole

    assert any(kill_and_recover(system, kills))
    assert max(system.task(kill.run_id, dag_id)["try_number"] for kill in kills) > 1

    [newer] = system.report("newer-reload", dag_id)["days"]
    assert (newer["status"], newer["rows_written"]) == ("published", fewer.total())
    system.wait_for_run("reload", dag_id)
    [last] = system.report("reload", dag_id)["days"]
    assert (last["status"], last["generation"]) == ("published", newer["generation"] + 1)
    rows = system.rows(dag_id)[day]
    assert rows == served(whole, [RELOADED])[day], "the answer that was polled last does not stand"
    assert table.ledger()[day] == Published(last["generation"], rows.total())
