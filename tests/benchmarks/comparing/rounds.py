"""Figures of two commits, measured by turns, and the rule that calls one of them worse."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

TOLERANCE = 0.10
"""Part of the base's median by which a figure may be worse."""


class Figure(NamedTuple):
    """One figure of one case, such as the CPU seconds of a poll. A lower value is better.

    :param base: values of the base's rounds.
    :param new: values of this commit's rounds.
    """

    case: str
    name: str
    base: Sequence[float]
    new: Sequence[float]

    @property
    def change(self) -> float:
        """Change of the median, as a part of the base's median."""
        base = statistics.median(self.base)
        return (statistics.median(self.new) - base) / base if base else 0.0

    @property
    def is_worse(self) -> bool:
        """True if the median is worse by more than :data:`TOLERANCE` and the ranges do not overlap."""
        return self.change > TOLERANCE and min(self.new) > max(self.base)


def figures(case: str, base: Sequence[Mapping[str, float]], new: Sequence[Mapping[str, float]]) -> list[Figure]:
    """Return the figures of a case that both commits measured.

    :param base: values of each round by name of the figure.
    """
    names = [name for name in new[0] if name in base[0]]
    return [Figure(case, name, [row[name] for row in base], [row[name] for row in new]) for name in names]


def table(compared: Iterable[Figure]) -> str:
    """Return all figures as a table: median and range of both commits, and the change."""
    lines = [f"{'':24s} {'base':>26s} {'this commit':>26s}   change"]
    for figure in compared:
        mark = "  WORSE" if figure.is_worse else ""
        values = f"{_cell(figure.base):>26s} {_cell(figure.new):>26s} {figure.change:+8.1%}"
        lines.append(f"{f'{figure.case}: {figure.name}':24s} {values}{mark}")
    return "\n".join(lines)


def _cell(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
