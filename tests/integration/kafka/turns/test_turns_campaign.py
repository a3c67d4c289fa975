"""Many publishers of one topic that are killed and put to sleep at random moments, with a reader beside them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.window import ONE_DAY
from tests.equipment.frozen import TUESDAY, events
from tests.equipment.kafka.bench import Child, SinkBench, running_bench
from tests.standins.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.slow, pytest.mark.campaign]

AT_ONCE = 8
ROWS = tuple(f"e{number}" for number in range(2000))
TRIES = 20
END_SECONDS = 300.0


def publish(bench: SinkBench, staged: Any, chance: random.Random) -> dict[str, int]:
    """Publish a day in processes of which the first ones meet with something; return what they met with."""
    met = {"killed": 0, "slept": 0, "failed": 0}
    for left in reversed(range(TRIES)):
        with Child(bench, staged) as child:
            child.go()
            fate = chance.choice(["kill", "sleep", "live"]) if left > TRIES // 2 else "live"
            time.sleep(chance.uniform(0.1, 5.0))
            if fate == "kill" and child.process.poll() is None:
                child.process.kill()
                met["killed"] += 1
                continue
            if fate == "sleep" and child.process.poll() is None:
                child.process.send_signal(signal.SIGSTOP)
                time.sleep(chance.uniform(0.5, 12.0))
                child.process.send_signal(signal.SIGCONT)
                met["slept"] += 1
            try:
                code, said = child.end(END_SECONDS)
            except subprocess.TimeoutExpired:
                pytest.fail(f"{staged.day}: not over after {END_SECONDS:.0f} s")
            if code == 0:
                assert said == "1"
                return met
            assert "FencedError" in said or "RetriableError" in said or "PassedOverError" in said, said
            met["failed"] += 1
    raise AssertionError(f"{staged.day}: not published in {TRIES} tries")


def test_chaos_tears_no_day_and_loses_none(broker: KafkaBroker, tmp_path: Path) -> None:
    """Days and seed come from CONNECT_CAMPAIGN_RUNS and CONNECT_CAMPAIGN_SEED."""
    seed, runs = int(os.environ.get("CONNECT_CAMPAIGN_SEED", "1")), int(os.environ.get("CONNECT_CAMPAIGN_RUNS", "24"))
    with running_bench(broker.bootstrap, tmp_path, timeout_seconds=60) as bench:
        days = [TUESDAY + ONE_DAY * number for number in range(runs)]
        staged = [bench.stage(day, events(*ROWS), order=number + 1) for number, day in enumerate(days)]
        chances = [random.Random(f"{seed}-{day}") for day in days]
        started = time.monotonic()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            met = list(pool.map(lambda given: publish(bench, *given), zip(staged, chances, strict=True)))
        total = {name: sum(each[name] for each in met) for name in met[0]}
        print(f"{runs} days, seed {seed}: {total}, {time.monotonic() - started:.0f} s")
        for day in days:
            bench.holds(day, ROWS)
        assert bench.watch.torn == []
