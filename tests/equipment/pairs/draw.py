"""Draws cases from a seed: two tasks, one target, and all changes that people make between its days."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_connect.window import ONE_DAY
from tests.equipment.pairs.model import Accept, Erase, Event, Load, Model, Options, Step

FIRST = dt.date(2026, 10, 29)
DAYS = tuple(FIRST + ONE_DAY * number for number in range(5))
"""The clock changes on one of them in two of the zones."""
ZONES = ("UTC", "US/Pacific", "Asia/Tokyo", "Europe/Berlin", "Asia/Kolkata")
KINDS = ("signup", "view", "it's")
PERSONS = tuple(f"p{number}" for number in range(6))
EVENTS = 60
KEYS = ("0123456789abcdef-one", "0123456789abcdef-two")
CHANGES: dict[str, tuple[Any, ...]] = {
    "kind": (None, *KINDS),
    "zone": ZONES,
    "day_column": ("at", "seen"),
    "key": (None, ("id", "kind")),
    "has_note": (True, False),
    "least_amount": (None, 40),
    "label": (None, "a", "b"),
    "mask": (None, *KEYS),
    "login": (None, "reader"),
    "is_snapshot": (False, True),
    "table": ("events", "others"),
}
WEIGHTS = dict(zip(CHANGES, (6, 4, 2, 1, 2, 2, 2, 2, 1, 1, 1), strict=True))


SEEDS = (*range(1, 30), 53)
"""In 53 the task changes its narrowing after the other task has loaded the same rows."""

FAST = (1, 2, 4, 6, 17, 18, 27, 53)
"""Seeds whose cases have every kind of step and answer; `make integration` plays the others."""


@dataclass(frozen=True)
class Case:
    """The case of a seed."""

    seed: int
    events: tuple[Event, ...]
    steps: tuple[Step, ...]


class _Drawer:
    """Draws the steps of one case. The model tells it the effect of each step, and so which steps may follow."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.events = tuple(self._event(number) for number in range(EVENTS))
        self.model = Model(self.events)
        base = self._changed(Options(), "zone", "kind", *(("mask",) if self._random.random() < 0.2 else ()))
        other = self._changed(base, *(("kind",) if self._random.random() < 0.6 else ()))
        self._options = {"one": base, "other": other}
        self._killed: list[Load] = []
        self._token = 0
        self.steps: list[Step] = []

    def draw(self, steps: int) -> tuple[Step, ...]:
        self._take(self._load(self._options["one"], kill_chance=0.2))
        while len(self.steps) < steps:
            self._step()
        for load in list(self._killed):
            self._retry(load)
        return tuple(self.steps)

    def _step(self) -> None:
        chance = self._random.random()
        if self._killed and chance < 0.5:
            self._retry(self._random.choice(self._killed))
        elif chance < 0.12 and (erase := self._erase(self._random.randint(1, 2))) is not None:
            self._take(erase)
        elif chance < 0.55:
            self._change()
        else:
            task = self._random.choice(tuple(self._options))
            self._take(self._load(self._options[task], task))

    def _change(self) -> None:
        """Give a task other options, and sometimes accept them. Keep them unless they are refused."""
        task = self._random.choice(tuple(self._options))
        names = [name for name in WEIGHTS if self._may_change(name)]
        name = self._random.choices(names, [WEIGHTS[weighted_name] for weighted_name in names])[0]
        options = self._changed(self._options[task], name)
        refused = self.model.judge(task, options).status == "refused"
        may_be_accepted = not options.is_snapshot and options.table == "events"
        if refused and may_be_accepted and self._random.random() < 0.5:
            self._take(Accept(options))
            refused = False
        if not refused and not may_be_accepted:
            return  # nothing is in force yet
        self._take(self._load(options, task))
        if not refused or self._random.random() < 0.3:
            self._options[task] = options if may_be_accepted else self._options[task]

    def _may_change(self, name: str) -> bool:
        return name not in ("is_snapshot", "table") or self.model.in_force is not None

    def _changed(self, options: Options, *names: str) -> Options:
        for name in names:
            others = [value for value in CHANGES[name] if value != getattr(options, name)]
            options = replace(options, **{name: self._random.choice(others)})
        return options

    def _load(self, options: Options, task: str = "one", kill_chance: float = 0.25) -> Load:
        self._token += 1
        first = self._random.randrange(len(DAYS))
        days = DAYS[first : first + self._random.choice((1, 1, 1, 2))]
        if self._random.random() < 0.2:
            return Load(task, days, options, self._token, beside=self._beside(task))
        kill = self._random.choice(("polled", "sent", "committed")) if self._random.random() < kill_chance else None
        return Load(task, days, options, self._token, kill=kill if len(days) == 1 else None)

    def _beside(self, task: str) -> Load | Erase:
        """Draw a step that runs during a load: a run of the other task, or an erase."""
        if self._random.random() < 0.2 and (erase := self._erase(1)) is not None:
            return erase
        self._token += 1
        other_task = "other" if task == "one" else "one"
        return Load(other_task, (self._random.choice(DAYS),), self._options[other_task], self._token)

    def _erase(self, persons: int) -> Erase | None:
        """Draw an erase. Returns None if the target has people in several forms, since an erase would find only one."""
        masks = {published.options.mask for published in self.model.days.values()}
        if len(masks) != 1 or not masks.issuperset(self.model.erased.values()):
            return None
        return Erase(tuple(self._random.sample(PERSONS, persons)), *masks)

    def _retry(self, load: Load) -> None:
        self._killed.remove(load)
        self._take(replace(load, attempt=load.attempt + 1, kill=None))

    def _take(self, step: Step) -> None:
        self.steps.append(step)
        if self.model.apply(step).status == "killed":
            assert isinstance(step, Load)
            self._killed.append(step)

    def _event(self, number: int) -> Event:
        begin = dt.datetime.combine(FIRST, dt.time(), dt.UTC)
        at = begin + dt.timedelta(minutes=self._random.randrange(len(DAYS) * 24 * 60))
        seen = at + dt.timedelta(minutes=self._random.choice((1, 30, 600, 1500)))
        note, amount = f"note {number}", self._random.randrange(100)
        return Event(number, self._random.choice(KINDS), self._random.choice(PERSONS), note, at, seen, amount)


def draw(seed: int) -> Case:
    """Return the case of a seed."""
    drawer = _Drawer(seed)
    steps = drawer.draw(steps=7)
    return Case(seed, drawer.events, steps)
