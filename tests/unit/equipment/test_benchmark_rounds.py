"""The rule of ``make benchmark BASE=…`` that calls a figure worse."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROUNDS: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "comparing" / "rounds.py"))


@pytest.mark.parametrize(
    ("base", "new", "is_worse"),
    [
        ([1.0, 1.1, 1.2], [1.3, 1.4, 1.5], True),
        ([1.0, 1.1, 1.2], [1.19, 1.4, 1.5], False),  # the ranges overlap
        ([1.0, 1.0, 1.0], [1.09, 1.09, 1.09], False),  # within a tenth
        ([1.0, 1.0, 1.0], [0.5, 0.5, 0.5], False),
        ([0.0], [1.0], False),  # no part of nothing
    ],
)
def test_a_figure_is_worse_by_more_than_a_tenth_and_without_overlap(
    base: list[float], new: list[float], is_worse: bool
) -> None:
    assert ROUNDS["Figure"]("poll", "wall, s", base, new).is_worse is is_worse


def test_figures_that_only_one_commit_measures_are_left_out_and_the_table_marks_the_worse() -> None:
    base = [{"wall, s": 1.0, "old": 1.0}, {"wall, s": 1.0, "old": 1.0}]
    new = [{"wall, s": 2.0, "new": 1.0}, {"wall, s": 3.0, "new": 1.0}]
    compared = ROUNDS["figures"]("poll", base, new)
    assert [(figure.case, figure.name, figure.change) for figure in compared] == [("poll", "wall, s", 1.5)]
    line = ROUNDS["table"](compared).splitlines()[1]
    assert " ".join(line.split()) == "poll: wall, s 1.00 (1.00 to 1.00) 2.50 (2.00 to 3.00) +150.0% WORSE"
