"""A poll knows how many others run beside it: a limit for each second is shared by those, and not by more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.equipment.spark.lab import Lab, moved, rewired


@pytest.mark.parametrize(
    ("parts", "parts_at_once", "plans_at_once", "polls_at_once"),
    [(1, 9, 1, 1), (3, 9, 2, 6), (3, 2, 2, 4), (3, 9, None, None)],
)
def test_each_poll_is_told_how_many_there_are(
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    parts: int,
    parts_at_once: int,
    plans_at_once: int | None,
    polls_at_once: int | None,
) -> None:
    days = lab.days(source={"parts": parts})
    told: list[int | None] = []
    kind = type(days.context.intake.poller)
    poll = kind.poll

    def noted(self: Any, *args: Any) -> Iterator[Any]:
        told.append(self.context.polls_at_once)
        return poll(self, *args)

    monkeypatch.setattr(kind, "poll", noted)
    days = rewired(days, concurrent_parts=parts_at_once, concurrent_plans=plans_at_once)
    assert moved(days).status == "published"
    assert told == [polls_at_once] * parts
