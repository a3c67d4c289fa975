"""A publish into several tables that is killed, overtaken or swept at every one of its steps."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConnectError, OvertakenError, RetriableError
from airflow_provider_connect.sink import LedgerRow, Publish
from tests.equipment.delta.lab import MAY, age
from tests.equipment.delta.tables import Answer, Steps, TablesLab, steps

__all__ = ["steps"]

OLD: Answer = {"login": ["o1", "o2"], "signup": ["o3"]}
NEW: Answer = {"login": ["n1"], "buy": ["n2"]}
THIRD: Answer = {"buy": ["t1"], "leave": ["t2"]}
MOST_STEPS = 80

pytestmark = pytest.mark.slow

EVERY_THIRD = pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.campaign)])


@pytest.fixture
def lab(tmp_path: Path) -> TablesLab:
    return TablesLab(tmp_path / "lake").make()


def days_of_steps(steps: Steps, stride: int) -> Iterator[tuple[float, dt.date]]:
    """Yield the place before a step or right after it, with a day of its own, until no process came as far.

    :param stride: 1 for each place there is, 3 for each third one.
    """
    for half in range(0, 2 * MOST_STEPS, stride):
        yield half / 2, MAY + dt.timedelta(days=half)
        if not steps.was_killed:
            assert half > 20, "a publish has more steps than this"
            return
    pytest.fail("too many steps")


def outcome(lab: TablesLab, publish: Publish) -> LedgerRow | ConnectError:
    """Publish as the driver does: after an error it asks the ledger once more."""
    try:
        return lab.commit(publish)
    except ConnectError as error:
        return lab.ledger.published(publish.day.date, publish.intent.token) or error


def require_whole_or_pending(lab: TablesLab, date: dt.date, answers: dict[int, Answer]) -> None:
    """Require that a day that counts as done shows one answer in all tables, and any other one answer in each."""
    shown = lab.shown(date)
    if date in lab.ledger.days():
        assert shown == lab.expected(answers[lab.ledger.row(date).generation])
        return
    possible = [lab.expected(answer) for answer in answers.values()]
    assert all(any(texts == each.get(name) for each in possible) for name, texts in shown.items()), shown


@EVERY_THIRD
def test_a_retry_from_the_stage_finishes_what_was_killed_at_any_step(lab: TablesLab, steps: Steps, stride: int) -> None:
    pending = 0
    for step, date in days_of_steps(steps, stride):
        lab.publish(OLD, "t1", date)
        mine = lab.stage(NEW, "t2", date)
        with steps.killed_at(step):
            lab.commit(mine)
        require_whole_or_pending(lab, date, {1: OLD, 2: NEW})
        pending += date not in lab.ledger.days()
        row = lab.commit(mine)
        assert (row.generation, row.rows, lab.ledger.row(date)) == (2, 2, row)
        assert lab.shown(date) == lab.expected(NEW)
        assert date in lab.ledger.days()
    assert pending > 3, "it was killed between the tables, too"


@EVERY_THIRD
def test_a_newer_run_replaces_what_was_killed_at_any_step_and_the_killed_one_cannot_come_back(
    lab: TablesLab, steps: Steps, stride: int
) -> None:
    for step, date in days_of_steps(steps, stride):
        lab.publish(OLD, "t1", date)
        zombie = lab.stage(NEW, "t2", date)
        with steps.killed_at(step):
            lab.commit(zombie)
        done = lab.ledger.published(date, "t2")
        assert lab.publish(THIRD, "t3", date).generation == (3 if done else 2)
        assert lab.shown(date) == lab.expected(THIRD)
        end = outcome(lab, zombie)
        assert end == done if done else isinstance(end, OvertakenError)
        assert lab.shown(date) == lab.expected(THIRD)


@EVERY_THIRD
def test_of_two_at_once_one_is_seen_whole_wherever_the_other_comes_between(
    lab: TablesLab, steps: Steps, stride: int
) -> None:
    steps.was_killed = True
    ends = []
    for step, date in days_of_steps(steps, stride):
        lab.publish(OLD, "t1", date)
        mine, other = lab.stage(NEW, "t2", date), lab.stage(THIRD, "t3", date)
        between: list[LedgerRow | ConnectError] = []
        with steps.at(step, lambda other=other, between=between: between.append(outcome(lab, other))):  # type: ignore[misc]
            end = outcome(lab, mine)
        steps.was_killed = bool(between)
        both = [(end, NEW), *((each, THIRD) for each in between)]
        ((row, answer),) = [(each, answer) for each, answer in both if isinstance(each, LedgerRow)]
        assert all(isinstance(each, OvertakenError | LedgerRow) for each, _ in both)
        assert lab.ledger.row(date) == row
        assert lab.shown(date) == lab.expected(answer)
        ends.append(answer)
    assert NEW in ends
    assert THIRD in ends


@EVERY_THIRD
def test_a_sweep_at_any_step_takes_nothing_that_is_seen_later(lab: TablesLab, steps: Steps, stride: int) -> None:
    refused = 0
    steps.was_killed = True
    for step, date in days_of_steps(steps, stride):
        lab.publish(OLD, "t1", date)
        mine = lab.stage(NEW, "t2", date)
        swept: list[int] = []

        def sweep(swept: list[int] = swept) -> None:
            age(lab.root)
            swept.append(lab.publisher.sweep())

        with steps.at(step, sweep):
            end = outcome(lab, mine)
        steps.was_killed = bool(swept)
        assert isinstance(end, LedgerRow | RetriableError)
        require_whole_or_pending(lab, date, {1: OLD, 2: NEW})
        refused += isinstance(end, RetriableError)
        lab.publish(THIRD, "t3", date)
        assert lab.shown(date) == lab.expected(THIRD)
    assert refused > 3


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(6, 200))]
)
def test_any_number_of_dead_and_living_leave_one_answer_whole(lab: TablesLab, steps: Steps, seed: int) -> None:
    chance = random.Random(seed)
    names = ["login", "signup", "buy", "leave", "Log In", None]
    lab.publish(OLD)
    staged = {}
    for number in range(12):
        token = f"r{chance.randrange(4)}-{number // 6}"
        if token not in staged or chance.random() < 0.3:
            events = chance.sample(names, chance.randrange(4))
            answer: Answer = {event: [f"{number}"] for event in events}
            staged[token] = lab.stage(answer, token, attempt=f"{token}-{number}"), answer
        with steps.killed_at(chance.randrange(60) / 2):
            outcome(lab, staged[token][0])
        if MAY in lab.ledger.days():
            require_shown(lab, lab.ledger.row(MAY), [*staged.values()])
    last: Answer = {"last": ["1"]}
    row = lab.publish(last, "last")
    assert lab.shown() == lab.expected(last)
    for publish, _ in staged.values():  # whoever wakes up now changes nothing
        outcome(lab, publish)
    assert lab.ledger.row(MAY) == row
    assert lab.shown() == lab.expected(last)


def require_shown(lab: TablesLab, row: LedgerRow, staged: list[tuple[Publish, Answer]]) -> None:
    for publish, answer in staged:
        if publish.manifest.attempt == row.attempt:
            assert lab.shown() == lab.expected(answer)
