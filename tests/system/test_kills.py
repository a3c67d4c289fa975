"""SIGKILL at random moments: five here, many in the campaign."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
from pathlib import Path

import pytest

from .conftest import System
from .kills import VICTIMS, kill_once


@pytest.mark.slow
@pytest.mark.parametrize(("index", "victim"), list(enumerate(VICTIMS)))
def test_a_killed_task_recovers(system: System, index: int, victim: str):
    kill_once(system, victim, dt.date(2026, 8, 1) + dt.timedelta(days=index), seed=index)


@pytest.mark.campaign
def test_campaign(system: System):
    """CONNECT_CAMPAIGN_RUNS kills from CONNECT_CAMPAIGN_SEED on; a journal lets an interrupted campaign go on."""
    runs, seed = int(os.environ.get("CONNECT_CAMPAIGN_RUNS", "50")), int(os.environ.get("CONNECT_CAMPAIGN_SEED", "1"))
    journal = Path(os.environ.get("CONNECT_CAMPAIGN_JOURNAL", f".cache/campaign-{seed}.jsonl"))
    journal.parent.mkdir(parents=True, exist_ok=True)
    done = len(journal.read_text().splitlines()) if journal.exists() else 0
    for number in range(done, runs):
        victim = random.Random(seed * 1_000_003 + number).choice(VICTIMS)
        date = dt.date(2025, 1, 1) + dt.timedelta(days=number)
        run = kill_once(system, victim, date, seed=seed * 1_000_003 + number)
        tries = system.task(run)["try_number"]
        with journal.open("a") as file:
            file.write(json.dumps({"number": number, "victim": victim, "date": str(date), "tries": tries}) + "\n")
        print(f"{number + 1} of {runs}: {victim} killed on {date}, exact after {tries} tries", flush=True)
