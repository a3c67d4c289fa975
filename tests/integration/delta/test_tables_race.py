"""Processes publish one day into the tables of a template, and are killed; as a script, this file is one of them."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConnectError, OvertakenError
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.stage.manifest import Manifest, manifest_file
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day
from tests.equipment.delta.lab import MAY
from tests.equipment.delta.tables import Answer, TablesLab
from tests.equipment.processes import at_once

EVENTS = ["login", "signup", "buy", "leave", "Log In", "view"]

pytestmark = pytest.mark.slow


def answer_of(token: str) -> Answer:
    """Return what a poll of this token brings: half of the events, two rows of each."""
    return {event: [f"{token}-1", f"{token}-2"] for event in random.Random(token).sample(EVENTS, 3)}


def publish_until_it_lands(lab: TablesLab, token: str) -> LedgerRow:
    """Do as driver and Airflow do: poll again for each other intent, and try again after a retriable error."""
    tries = 0
    while True:
        tries += 1
        try:
            return lab.publish(answer_of(token), token, attempt=f"{token}-{tries}")
        except OvertakenError:
            time.sleep(random.uniform(0, 0.3))


def main(root: Path, number: str) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    lab = TablesLab(root)
    assert lab.preflight() == []
    for count in range(4):
        row = publish_until_it_lands(lab, f"w{number}n{count}")
        print(json.dumps([row.generation, row.token]), flush=True)


def require_one_answer(lab: TablesLab) -> None:
    row = lab.ledger.row(MAY)
    assert row is not None
    assert lab.shown() == lab.expected(answer_of(row.token))


def test_one_day_by_several_processes_ends_with_one_answer_whole(tmp_path: Path) -> None:
    lab = TablesLab(tmp_path / "lake")
    command = [sys.executable, "-W", "error", __file__, str(lab.root)]
    with at_once([[*command, str(number)] for number in range(3)]) as running:
        lines = [json.loads(line) for process in running if process.stdout for line in process.stdout]
        assert [process.wait(120) for process in running] == [0] * 3
    assert sorted(generation for generation, _ in lines) == list(range(1, 13)), (
        "each intent lands, as its own generation"
    )
    assert list(lab.ledger.days()) == [MAY]
    assert lab.ledger.row(MAY).token == max(lines)[1]
    require_one_answer(lab)


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(3, 30))])
def test_killed_processes_leave_a_day_that_any_of_them_can_finish(tmp_path: Path, seed: int) -> None:
    lab, chance = TablesLab(tmp_path / "lake").make(), random.Random(seed)
    command = [sys.executable, "-W", "error", __file__, str(lab.root)]
    with at_once([[*command, str(number)] for number in range(2)]) as running:
        time.sleep(chance.uniform(0.05, 1.0))
        for process in running:
            process.send_signal(signal.SIGKILL)
    if list(lab.ledger.days()) == [MAY]:
        require_one_answer(lab)
    for attempt in chance.sample(frozen := finished_attempts(lab), len(frozen)):  # each comes back, from its stage
        try:
            row = lab.commit(from_stage(lab, attempt))
        except ConnectError:
            continue  # its answer is older than what is published
        assert row.token == attempt.split("-")[0]
    if MAY in lab.ledger.days():
        require_one_answer(lab)
    lab.publish(answer_of("last"), "last")
    require_one_answer(lab)
    assert lab.ledger.row(MAY).token == "last"


def finished_attempts(lab: TablesLab) -> list[str]:
    return sorted(path.parent.name for path in lab.root.glob("_connect/attempts/*/manifest.json"))


def from_stage(lab: TablesLab, attempt: str) -> Publish:
    """Return the publish of an attempt that a dead process left."""
    text = Folder(str(lab.root)).read(manifest_file(attempt))
    return lab.publish_of(Manifest.read(text, Day(date=MAY), attempt), attempt.split("-", maxsplit=1)[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
