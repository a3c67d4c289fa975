"""Starts Airflow's backfills, waits for them, and finds which answer of the source each day of a table holds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from tests.equipment.airflow.editions import EVENTS, Editions
from tests.system.conftest import System, served, wait_for

PATIENCE_SECONDS = 600.0  # many Sparks start, three at a time
Seen = dict[dt.date, tuple[int, int]]


def seen(system: System, dag_id: str, *dates: dt.date) -> Seen:
    """Return generation and edition of days of a DAG's table, of all by default; their rows are that edition's."""
    table, project = system.written_by[dag_id], system.editions.project
    assert isinstance(project, Editions)
    rows, editions = table.rows(), {}
    for text, published in table.ledger().items():
        date, edition = dt.date.fromisoformat(text), published.rows - EVENTS
        if date in dates or not dates:
            assert rows[text] == served(project.at(edition), [date])[text]
            editions[date] = (published.generation, edition)
    return editions


def catch_up(system: System, *dag_ids: str, runs: int) -> None:
    """Unpause DAGs, and wait until so many runs of each have ended, successful or not."""
    for dag_id in dag_ids:
        system.airflow.api("PATCH", f"dags/{dag_id}?update_mask=is_paused", json={"is_paused": False})
    wait_for_ends(system, *dag_ids, runs=runs)


def backfill(system: System, *dag_ids: str, dates: tuple[dt.date, dt.date], behavior: str, runs: int) -> None:
    """Backfill DAGs, backwards if their name says so, and wait until so many runs of each have ended."""
    for dag_id in dag_ids:
        wait_for(_started(system, dag_id, dates, behavior), PATIENCE_SECONDS, f"a backfill of {dag_id}")
    wait_for_ends(system, *dag_ids, runs=runs)


def wait_for_ends(system: System, *dag_ids: str, runs: int) -> None:
    """Wait until each DAG has exactly so many runs, all of them ended."""
    for dag_id in dag_ids:
        wait_for(_ended(system, dag_id, runs), PATIENCE_SECONDS, f"the end of {runs} runs of {dag_id}")


def dates_run(system: System, dag_id: str) -> list[str]:
    """Return the dates of a DAG's runs, in the order of their latest starts."""
    runs = sorted(system.airflow.runs(dag_id), key=lambda run: str(run["start_date"]))
    return [run["data_interval_start"][:10] for run in runs]


def _ended(system: System, dag_id: str, runs: int) -> Callable[[], bool]:
    return lambda: sum(run["state"] in ("success", "failed") for run in system.airflow.runs(dag_id)) == runs


def _started(system: System, dag_id: str, dates: tuple[dt.date, dt.date], behavior: str) -> Callable[[], bool]:
    """Return a function that starts a backfill, and tells whether Airflow could.

    Airflow cannot for up to half a minute after the last one ended; then it undoes what it began.
    """
    first, last = dates
    body = {
        "dag_id": dag_id,
        "from_date": f"{first}T00:00:00Z",
        "to_date": f"{last}T00:00:00Z",
        "run_backwards": dag_id == "backwards",
        "reprocess_behavior": behavior,
        "max_active_runs": 1,
    }

    def start() -> bool:
        try:
            system.airflow.api("POST", "backfills", json=body)
        except RuntimeError as error:
            if any(f" {status} " in str(error) for status in (409, 503)):
                return False
            raise
        return True

    return start
