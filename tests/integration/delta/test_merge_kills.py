"""Processes that merge days into one table, several at once, and are killed; run as a script, this file is one."""

from __future__ import annotations

import datetime as dt
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.equipment.delta.lab import age
from tests.equipment.delta.merging import MergeLab, Row
from tests.equipment.processes import at_once

pytestmark = pytest.mark.slow

FIRST = dt.date(2026, 5, 1)
WORKERS, DAYS, KEYS = 2, 12, 300
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(1, 8))]


def rows_of_day(number: int) -> list[Row]:
    """Return a day's rows: half of all keys, some of them deleted."""
    chance = random.Random(number)
    return [(key, f"{number}", None, chance.random() < 0.1) for key in sorted(chance.sample(range(KEYS), KEYS // 2))]


def states(numbers: list[int]) -> dict[int, str]:
    """Return the value of each key after these days."""
    values: dict[int, str] = {}
    for number in sorted(numbers):
        for key, value, _, gone in rows_of_day(number):
            values.pop(key, None)
            if not gone:
                values[key] = value
    return values


def lab_of(root: Path) -> MergeLab:
    return MergeLab(root, delete_where="gone")


def work(root: Path, worker: int) -> None:
    """Merge the days of this worker that are not published, the newest first, and print each."""
    print("ready", flush=True)
    sys.stdin.readline()
    lab = lab_of(root)
    for number in reversed(range(worker, DAYS, WORKERS)):
        day = FIRST + dt.timedelta(days=number)
        if day not in lab.ledger.days():
            attempt = f"{number:08x}{time.time_ns():016x}-1-{day:%Y%m%d}"
            lab.commit(lab.stage_rows(day, rows_of_day(number), f"t{number}", attempt=attempt))
            print(number, flush=True)


def published(lab: MergeLab) -> list[int]:
    return [(day - FIRST).days for day in lab.ledger.days()]


def kills(root: Path, chance: random.Random) -> Iterator[bool]:
    """Start the workers and kill them soon after the first has published some days. Yields whether all were done."""
    while True:
        with at_once([[sys.executable, __file__, str(root), str(worker)] for worker in range(WORKERS)]) as running:
            assert running[0].stdout is not None
            lines = [running[0].stdout.readline() for _ in range(chance.randint(0, 3))]
            time.sleep(chance.uniform(0, 0.06))
            done = "" in lines and running[1].poll() == 0
            for process in running:
                process.send_signal(signal.SIGKILL)
        yield done


@pytest.mark.parametrize("seed", SEEDS)
def test_merges_that_are_killed_leave_whole_days_and_one_row_a_key(tmp_path: Path, seed: int) -> None:
    root = tmp_path / "t"
    lab = lab_of(root).made()
    seen = set()
    for is_done in kills(root, random.Random(seed)):
        numbers = published(lab)
        assert dict(lab.shown()) == states(numbers), "each day is there whole or not at all"
        seen.add(len(numbers))
        if is_done:
            break
    assert len(published(lab)) == DAYS
    assert len(seen) > 1, "no kill met a merge"
    age(root)
    lab.sweep()
    assert dict(lab.shown()) == states(list(range(DAYS)))
    assert len(list(root.glob("_connect/tombstones/*"))) == 1
    versions = [DeltaTable(str(root), version=version) for version in range(1, lab.version + 1)]
    named = {Path(uri.removeprefix("file://")) for table in versions for uri in table.file_uris()}
    assert set(root.glob("day=*/*")) == named, "files of killed merges are gone, and those of older versions are not"


if __name__ == "__main__":
    work(Path(sys.argv[1]), int(sys.argv[2]))
