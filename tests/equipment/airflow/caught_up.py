"""What catchup has done: how its runs ended, how often they were tried, and which rows of which day came."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence

from deltalake import DeltaTable

from tests.system.conftest import System


def is_done(system: System, dag_id: str, dates: Sequence[dt.date]) -> bool:
    """Tell whether a DAG's runs have all succeeded; fail with the log of one that has not."""
    runs = system.airflow.runs(dag_id)
    failed = [run["dag_run_id"] for run in runs if run["state"] == "failed"]
    assert not failed, system.log(failed[0], dag_id)[-4000:]
    return [run["state"] for run in runs] == ["success"] * len(dates)


def tries(system: System, dag_id: str) -> dict[str, int]:
    """Return how often each day's task was tried."""
    instances = system.airflow.api("GET", f"dags/{dag_id}/dagRuns/~/taskInstances?limit=500")["task_instances"]
    return {task["logical_date"][:10]: task["try_number"] for task in instances}


def ids(system: System, dag_id: str, dates: Sequence[dt.date]) -> dict[str, list[str]]:
    """Return the ids of all rows that a reader of the table finds, by day."""
    table = DeltaTable(str(system.folder / "tables" / dag_id)).to_pyarrow_table(columns=["day", "id"])
    ids_by_day: dict[str, list[str]] = {str(date): [] for date in dates}
    for row in table.to_pylist():
        ids_by_day[str(row["day"])].append(str(row["id"]))
    return {day: sorted(day_ids) for day, day_ids in ids_by_day.items()}


def require_done(system: System, dag_id: str, expected: dict[str, list[str]]) -> None:
    """Check rows, ledger and offset."""
    dates = [dt.date.fromisoformat(day) for day in sorted(expected)]
    ids_by_day = ids(system, dag_id, dates)
    assert {day: len(day_ids) for day, day_ids in ids_by_day.items()} == {
        day: len(day_ids) for day, day_ids in expected.items()
    }
    assert ids_by_day == {day: sorted(day_ids) for day, day_ids in expected.items()}
    offset = offset_of(system, dag_id)
    assert offset["days"] == [[str(dates[0]), str(dates[-1])]]
    assert offset["position"] == str(dates[-1])


def offset_of(system: System, dag_id: str) -> dict[str, object]:
    """Return what the Variable of a DAG's table says."""
    variables = system.airflow.api("GET", "variables?limit=100&variable_key_pattern=connect_offset%25")["variables"]
    offsets = [json.loads(entry["value"]) for entry in variables]
    (offset,) = [entry for entry in offsets if str(entry.get("target", "")).endswith(f"/{dag_id}")]
    return dict(offset)
