"""SIGKILL at random moments: three here, many in the campaign."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.equipment.airflow.kills import BROKER, VICTIMS, ZOMBIE, Kill, kill_and_recover
from tests.system.conftest import System

pytestmark = pytest.mark.slow

CAMPAIGNS = {
    "delta": ("by_hand", VICTIMS),
    "bigquery": ("bigquery_by_hand", VICTIMS),
    "kafka": ("kafka_by_hand", (*VICTIMS, BROKER, ZOMBIE)),
}


def test_three_kills_at_once(system: System):
    """A driver and a worker die in test_kafka.py, and without Airflow in test_job.py."""
    first = dt.date(2026, 8, 1)
    victims = ("jvm", "task", "supervisor")
    kills = [Kill.seeded(victim, first + dt.timedelta(days=i), seed=i) for i, victim in enumerate(victims)]
    assert any(kill_and_recover(system, kills))
    tries = {kill.victim: system.task(kill.run_id)["try_number"] for kill in kills}
    assert max(tries.values()) > 1, tries


@pytest.mark.campaign
@pytest.mark.parametrize("sink", CAMPAIGNS)
def test_campaign(system: System, sink: str):
    """CONNECT_CAMPAIGN_RUNS kills from CONNECT_CAMPAIGN_SEED on, five at once, into CONNECT_CAMPAIGN_SINK or all.

    A journal for each sink lets an interrupted campaign go on where it was.
    """
    chosen = os.environ.get("CONNECT_CAMPAIGN_SINK", "all")
    assert chosen in ("all", *CAMPAIGNS), f"CONNECT_CAMPAIGN_SINK={chosen!r} is none of: all, {', '.join(CAMPAIGNS)}"
    if chosen not in ("all", sink):
        pytest.skip(f"only {chosen} was chosen")
    runs, seed = int(os.environ.get("CONNECT_CAMPAIGN_RUNS", "100")), int(os.environ.get("CONNECT_CAMPAIGN_SEED", "1"))
    journal = Path(os.environ.get("CONNECT_CAMPAIGN_JOURNALS", ".cache")) / f"campaign-{sink}-{seed}.jsonl"
    journal.parent.mkdir(parents=True, exist_ok=True)
    done = len(journal.read_text().splitlines()) if journal.exists() else 0
    dag_id, victims = CAMPAIGNS[sink]
    while done < runs:
        kills = [_numbered(seed, number, dag_id, victims) for number in range(done, min(done + 5, runs))]
        killed = kill_and_recover(system, kills)
        with journal.open("a") as file:
            for kill, died in zip(kills, killed, strict=True):
                tries = system.task(kill.run_id, kill.dag_id)["try_number"]
                entry = asdict(kill) | {"date": str(kill.date), "in_time": died, "tries": tries}
                file.write(json.dumps(entry) + "\n")
                print(f"{kill.victim} killed on {kill.date}: exact after {tries} tries (in time: {died})", flush=True)
        done += len(kills)
    assert system.written_by[dag_id].left_after_sweep() == []


def _numbered(seed: int, number: int, dag_id: str, victims: tuple[str, ...]) -> Kill:
    rng = random.Random(seed * 1_000_003 + number)
    victim, date = rng.choice(victims), dt.date(2025, 1, 1) + dt.timedelta(days=number)
    if number % 2:
        return Kill(victim, date, rng.uniform(0, 2), dag_id, "publishing")
    return Kill(victim, date, rng.uniform(0, 13), dag_id)
