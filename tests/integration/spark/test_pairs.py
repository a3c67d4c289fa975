"""The cases of two tasks and one table that are too many for the fast tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.equipment.pairs.draw import FAST, SEEDS, draw
from tests.equipment.pairs.play import play

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", sorted({*SEEDS} - {*FAST}))
def test_what_two_tasks_leave_in_one_table_and_what_they_say(seed: int, tmp_path: Path) -> None:
    play(draw(seed), tmp_path)
