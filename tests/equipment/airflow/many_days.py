"""Checks what catchup of many days at once leaves in any table.

The number of days is CONNECT_CATCHUP_DAYS, the last one fixed: three, or thirty in `make campaign`,
up to sixteen at once.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter

from airflow_provider_connect.window import days_between
from tests.standins.mixpanel.faults import seeded_schedule
from tests.system.conftest import CATCHUP_DAYS, System, wait_for

LAST = dt.date(2026, 11, 3)
FIRST = LAST - dt.timedelta(days=CATCHUP_DAYS - 1)
ZONE = "US/Pacific"


def local_days(system: System) -> dict[str, Counter[str]]:
    """Sort the project's events, which it keeps by UTC dates, into the days of the zone."""
    rows = [
        row
        for i in range((LAST - FIRST).days + 2)
        for row in system.catchup.project.expected_rows(FIRST + dt.timedelta(days=i))
    ]
    ids_by_day = {}
    for day in days_between(FIRST, LAST, ZONE):
        begin, end = day.start.timestamp(), day.end.timestamp()
        mine = (row for row in rows if begin <= row["properties"]["time"] < end)
        ids_by_day[str(day)] = Counter(json.dumps([r["event"], r["properties"]], sort_keys=True) for r in mine)
    return ids_by_day


def catch_up(system: System, dag_id: str, fault_rate: float) -> None:
    """Let a DAG load the days while the source fails now and then; compare table, ledger and offset."""
    dates = [FIRST + dt.timedelta(days=i) for i in range(CATCHUP_DAYS + 1)]
    system.catchup.faults.replace(seeded_schedule(20261101, dates, fault_rate))
    faults_before = sum(system.catchup.stats["faults"].values())
    system.airflow.api("PATCH", f"dags/{dag_id}?update_mask=is_paused", json={"is_paused": False})

    def all_done() -> bool:
        runs = system.airflow.runs(dag_id)
        failed = [run["dag_run_id"] for run in runs if run["state"] == "failed"]
        assert not failed, system.log(failed[0], dag_id)
        return sum(run["state"] == "success" for run in runs) == CATCHUP_DAYS

    wait_for(all_done, 600, f"{CATCHUP_DAYS} successful runs")
    days = local_days(system)
    assert system.rows(dag_id) == days
    published = system.written_by[dag_id].ledger()
    assert {day: row.rows for day, row in published.items()} == {day: rows.total() for day, rows in days.items()}
    assert {row.generation for row in published.values()} == {1}
    offset = system.offset(dag_id)
    assert offset["days"] == [[str(FIRST), str(LAST)]]
    assert offset["position"] == str(LAST)
    assert sum(system.catchup.stats["faults"].values()) - faults_before >= CATCHUP_DAYS / 3, "the faults did not happen"
