"""Who may replace a day, as Airflow makes it happen: the answer that was polled last stands, whoever started first.

Every day of the source has editions (:mod:`.editions`): a further event each, so that a day's rows tell when they were
polled. What needs no turn of its own is triggered at once, for most of a run's time is waiting.
"""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.equipment.airflow.backfills import PATIENCE_SECONDS, Seen, backfill, catch_up, dates_run, seen
from tests.equipment.airflow.editions import EVENTS, edit, held
from tests.standins.mixpanel.faults import Fault
from tests.system.conftest import System, wait_for

pytestmark = pytest.mark.slow

STALLED, TESTED, AGAIN, GATED, TWINS, MAPPED = (dt.date(2026, 7, day) for day in (11, 12, 13, 14, 15, 16))
LOADED, FAILED = dt.date(2026, 7, 22), dt.date(2026, 7, 23)


def by_hand(system: System, date: dt.date) -> tuple[int, int]:
    """Return a day of the table that the runs by hand fill; others of its days may be changing."""
    return seen(system, "editions", date)[date]


def wait_for_run(system: System, run_id: str, dag_id: str = "editions") -> None:
    system.wait_for_run(run_id, dag_id, PATIENCE_SECONDS)


@pytest.fixture(scope="module", autouse=True)
def runs(system: System) -> None:
    """Trigger what needs no turn of its own."""
    system.editions.faults.replace([Fault("bad_line", date=FAILED, times=1)])
    system.trigger(f"{STALLED}..{TESTED}", "first", "editions")
    system.trigger(str(AGAIN), "again", "editions")
    system.trigger(str(GATED), "waiting", "editions_gated")
    conf = {"days": str(MAPPED), "tables": str(system.folder / "tables")}
    system.airflow.api("POST", "dags/mapped/dagRuns", json={"dag_run_id": "both", "logical_date": None, "conf": conf})


@pytest.fixture(scope="module", autouse=True)
def backfilled(system: System, runs: None) -> Iterator[Future[Seen]]:
    """Load two days by catchup, one of which fails, and backfill both, beside the other tests."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        yield pool.submit(backfill_both, system)


def backfill_both(system: System) -> Seen:
    catch_up(system, "reprocessed", runs=2)
    assert seen(system, "reprocessed") == {LOADED: (1, 0)}
    edit(system.editions, LOADED, FAILED)
    backfill(system, "reprocessed", dates=(LOADED, FAILED), behavior="completed", runs=2)
    return seen(system, "reprocessed")


def test_a_run_that_waited_publishes_its_answer_though_a_later_one_was_faster(system: System):
    """The older run polls after the newer one has published: its answer is the fresher one."""
    wait_for(lambda: gate(system)["state"] == "running", PATIENCE_SECONDS, "the older run's wait at its gate")
    wait_for_run(system, system.trigger(str(GATED), "faster", "editions"))
    assert by_hand(system, GATED) == (1, 0)
    edit(system.editions, GATED)
    (system.folder / "tables" / "gate-is-open").touch()
    wait_for_run(system, "waiting", "editions_gated")
    assert by_hand(system, GATED) == (2, 1)


def gate(system: System) -> dict[str, Any]:
    return dict(system.airflow.api("GET", "dags/editions_gated/dagRuns/waiting/taskInstances/gate"))


def test_of_two_dags_on_one_day_the_newest_answer_stands(system: System):
    """The one that asked first hears what is old by then, and asks again before it publishes anything."""
    with held(TWINS, 0) as answer:
        system.trigger(str(TWINS), "slow", "editions")
        assert answer.reached.wait(PATIENCE_SECONDS)
        edit(system.editions, TWINS)
        wait_for_run(system, system.trigger(str(TWINS), "fast", "editions_too"), "editions_too")
        assert by_hand(system, TWINS) == (1, 1)
        edit(system.editions, TWINS)
    wait_for_run(system, "slow")
    assert system.report("slow", "editions")["days"][0]["status"] == "published"
    assert by_hand(system, TWINS) == (2, 2)


def test_a_clear_while_the_task_runs_polls_anew_and_the_cleared_try_publishes_nothing(system: System):
    wait_for_run(system, "first")
    assert by_hand(system, STALLED) == (1, 0)
    edit(system.editions, STALLED)
    with held(STALLED, 1) as answer:
        system.trigger(str(STALLED), "stalled", "editions")
        assert answer.reached.wait(PATIENCE_SECONDS)
        edit(system.editions, STALLED)
        system.clear("stalled", "editions")
        wait_for(lambda: system.task("stalled", "editions")["try_number"] > 1, PATIENCE_SECONDS, "a second try")
        wait_for_run(system, "stalled")
    assert by_hand(system, STALLED) == (2, 2)


def test_dags_test_replaces_a_day_that_is_loaded(system: System):
    """Its run starts, by its own account, at its logical date: long before the run that loaded the day."""
    wait_for_run(system, "first")
    edit(system.editions, TESTED)
    command = [sys.executable, "-m", "airflow", "dags", "test", "editions", "2026-01-01"]
    conf = f'{{"days": "{TESTED}"}}'
    # Else the scheduler, which sees the run too, may be the one to start its task.
    system.airflow.api("PATCH", "dags/editions?update_mask=is_paused", json={"is_paused": True})
    ended = subprocess.run(
        [*command, "--conf", conf],
        env=system.airflow.environment(),
        cwd=system.folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    system.airflow.api("PATCH", "dags/editions?update_mask=is_paused", json={"is_paused": False})
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    assert by_hand(system, TESTED) == (2, 1)


def test_a_run_that_was_deleted_and_is_made_again_replaces_its_day(system: System):
    wait_for_run(system, "again")
    assert by_hand(system, AGAIN) == (1, 0)
    edit(system.editions, AGAIN)
    system.airflow.api("DELETE", "dags/editions/dagRuns/again")
    system.trigger(str(AGAIN), "again", "editions")
    wait_for_run(system, "again")
    assert by_hand(system, AGAIN) == (2, 1)


def test_every_mapped_sink_is_loaded_and_has_its_event(system: System):
    wait_for_run(system, "both", "mapped")
    for dag_id in ("mapped_first", "mapped_second"):
        assert seen(system, dag_id) == {MAPPED: (1, 0)}
    events = system.airflow.api("GET", "assets/events?source_dag_id=mapped")["asset_events"]
    assert sorted(event["uri"] for event in events) == [f"file://{system.folder}/tables/mapped_first", "x-own://second"]
    assert all(event["extra"]["rows_written"] == EVENTS for event in events)


def test_a_backfill_that_reprocesses_all_replaces_every_day(system: System, backfilled: Future[Seen]):
    """Forwards; the other direction and behaviours are in the campaign."""
    assert backfilled.result() == {LOADED: (2, 1), FAILED: (1, 1)}
    assert dates_run(system, "reprocessed") == [str(LOADED), str(FAILED)]
    assert system.offset("reprocessed")["days"] == [[str(LOADED), str(FAILED)]]
