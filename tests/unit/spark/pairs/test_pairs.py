"""Two tasks load one table, and people change options, erase and kill between its days: a model says what must come.

Seeded: the case of a seed is the same on every machine. ``make campaign`` plays a thousand, and goes on where it was.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.equipment.pairs.draw import FAST, SEEDS, draw
from tests.equipment.pairs.model import Model
from tests.equipment.pairs.play import play


@pytest.mark.parametrize("seed", FAST)
def test_what_two_tasks_leave_in_one_table_and_what_they_say(seed: int, tmp_path: Path) -> None:
    play(draw(seed), tmp_path)


def statuses(seeds: tuple[int, ...]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        case = draw(seed)
        model = Model(case.events)
        counts.update(type(step).__name__ + " " + model.apply(step).status for step in case.steps)
    return counts


def test_the_drawn_cases_say_all_there_is_to_say() -> None:
    """A campaign in which nothing is ever refused would prove nothing."""
    said = statuses(SEEDS)
    assert {"Load green", "Load told", "Load refused", "Load killed", "Accept green", "Erase green"} <= said.keys()
    assert min(said.values()) >= 5
    assert statuses(FAST).keys() == said.keys()


@pytest.mark.campaign
def test_campaign(tmp_path: Path) -> None:
    """CONNECT_CAMPAIGN_PAIRS cases from CONNECT_CAMPAIGN_SEED on; a journal lets an interrupted one go on."""
    runs, seed = (
        int(os.environ.get("CONNECT_CAMPAIGN_PAIRS", "1000")),
        int(os.environ.get("CONNECT_CAMPAIGN_SEED", "1")),
    )
    journal = Path(os.environ.get("CONNECT_CAMPAIGN_JOURNALS", ".cache")) / f"campaign-pairs-{seed}.txt"
    journal.parent.mkdir(parents=True, exist_ok=True)
    done = len(journal.read_text().splitlines()) if journal.exists() else 0
    for number in range(done, runs):
        folder = tmp_path / str(number)
        folder.mkdir()
        play(draw(seed * 1_000_003 + number), folder)
        with journal.open("a") as file:
            file.write(f"{seed * 1_000_003 + number}\n")
