"""What a check before the first run found: what was looked at, what was seen, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "problem", "unknown"]
"""``note``: it works, but somebody should know. ``unknown``: it could not be seen."""
_ORDER: tuple[Level, ...] = ("problem", "note", "unknown", "ok")


@dataclass(frozen=True)
class Finding:
    """One row of a report.

    :param about: what was looked at.
    :param found: what was found: no secret, and no record's value.
    :param todo: what a person should do; "" for nothing.
    """

    about: str
    level: Level
    found: str
    todo: str = ""

    def __str__(self) -> str:
        """Return the row as a line."""
        todo = f" To do: {self.todo}." if self.todo else ""
        return f"{self.level.upper()} {self.about}: {self.found}.{todo}"


def passed(findings: Iterable[Finding]) -> bool:
    """Tell whether nothing stands in the way of a run."""
    return not any(finding.level == "problem" for finding in findings)


def lines(asked: str, findings: Iterable[Finding]) -> list[str]:
    """Return a report's verdict and its rows, problems first; each line is a sentence, also where lines are joined."""
    rows = sorted(findings, key=lambda finding: _ORDER.index(finding.level))
    return [f"{asked} {'works' if passed(rows) else 'does not work yet'}.", *map(str, rows)]
