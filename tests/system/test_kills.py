"""SIGKILL at random moments: five here, many in the campaign."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
from dataclasses import asdict
from pathlib import Path

import pytest

from .conftest import System
from .kills import VICTIMS, Kill, kill_and_recover


@pytest.mark.slow
def test_five_kills_at_once(system: System):
    first = dt.date(2026, 8, 1)
    kills = [Kill.seeded(victim, first + dt.timedelta(days=i), seed=i) for i, victim in enumerate(VICTIMS)]
    assert any(kill_and_recover(system, kills))
    tries = {kill.victim: system.task(kill.run_id)["try_number"] for kill in kills}
    assert max(tries.values()) > 1, tries


@pytest.mark.campaign
def test_campaign(system: System):
    """CONNECT_CAMPAIGN_RUNS kills from CONNECT_CAMPAIGN_SEED on, five at once.

    A journal lets an interrupted campaign go on where it was.
    """
    runs, seed = int(os.environ.get("CONNECT_CAMPAIGN_RUNS", "50")), int(os.environ.get("CONNECT_CAMPAIGN_SEED", "1"))
    journal = Path(os.environ.get("CONNECT_CAMPAIGN_JOURNAL", f".cache/campaign-{seed}.jsonl"))
    journal.parent.mkdir(parents=True, exist_ok=True)
    done = len(journal.read_text().splitlines()) if journal.exists() else 0
    while done < runs:
        kills = [_numbered(seed, number) for number in range(done, min(done + 5, runs))]
        killed = kill_and_recover(system, kills)
        with journal.open("a") as file:
            for kill, died in zip(kills, killed, strict=True):
                tries = system.task(kill.run_id)["try_number"]
                entry = asdict(kill) | {"date": str(kill.date), "in_time": died, "tries": tries}
                file.write(json.dumps(entry) + "\n")
                print(f"{kill.victim} killed on {kill.date}: exact after {tries} tries (in time: {died})", flush=True)
        done += len(kills)


def _numbered(seed: int, number: int) -> Kill:
    rng = random.Random(seed * 1_000_003 + number)
    return Kill(rng.choice(VICTIMS), dt.date(2025, 1, 1) + dt.timedelta(days=number), rng.uniform(0, 13))
