"""Trying again: never after the time is up, never sooner than was asked, never for ever."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect import patience as module
from airflow_provider_connect.patience import FROM_HALF, FROM_NONE, Patience, SystemClock, doubling_pauses
from tests.equipment.clock import NoTime

SECONDS = st.floats(0, 1e4)
PAUSES = st.lists(st.floats(0.01, 100), min_size=1, max_size=8)
JITTER = st.sampled_from([(1.0, 1.0), FROM_HALF, FROM_NONE])


@given(SECONDS, PAUSES, st.sampled_from([(1.0, 1.0), FROM_HALF]))
def test_no_try_begins_after_the_time_is_up(seconds: float, pauses: list[float], jitter: tuple[float, float]) -> None:
    clock = NoTime()
    patience = Patience(seconds, pauses, jitter=jitter, clock=clock)
    for _ in range(200):
        if not patience.wait_and_retry():
            break
        assert clock.seconds < seconds
    assert patience.tries == len(clock.pauses) + 1


@given(PAUSES, JITTER, st.integers(1, 20))
def test_pauses_are_the_given_ones_less_the_jitter_and_the_last_repeats(
    pauses: list[float], jitter: tuple[float, float], tries: int
) -> None:
    clock = NoTime()
    patience = Patience(pauses=pauses, jitter=jitter, tries=tries, clock=clock, chance=lambda low, high: high)
    while patience.wait_and_retry():
        pass
    assert patience.tries == tries
    assert clock.pauses == [pauses[min(n, len(pauses) - 1)] * jitter[1] for n in range(tries - 1)]


@given(JITTER)
def test_jitter_stays_within_its_bounds(jitter: tuple[float, float]) -> None:
    clock = NoTime()
    patience = Patience(pauses=(10.0,), jitter=jitter, clock=clock)
    for _ in range(50):
        patience.wait_and_retry()
    assert all(10 * jitter[0] <= pause <= 10 * jitter[1] for pause in clock.pauses)


def test_those_who_fail_together_do_not_come_back_together() -> None:
    pauses = {Patience(pauses=(10.0,), jitter=FROM_HALF).next_pause() for _ in range(20)}
    asked = {Patience().next_pause(10.0) for _ in range(20)}
    assert len(pauses) == len(asked) == 20


@given(st.floats(0, 1e3), PAUSES)
def test_a_pause_is_never_shorter_than_was_asked(asked: float, pauses: list[float]) -> None:
    pause = Patience(pauses=pauses).next_pause(asked)
    assert pause is not None
    assert max(asked, pauses[0]) <= pause <= max(1.5 * asked, pauses[0])


def test_an_asked_pause_that_outlasts_the_time_is_not_begun() -> None:
    clock = NoTime()
    patience = Patience(60.0, (1.0,), clock=clock)
    assert not patience.wait_and_retry(60.0)
    assert clock.pauses == []
    assert patience.wait_and_retry(30.0)


@given(st.floats(0.01, 1e4), st.floats(1.001, 3), st.floats(0, 1))
def test_an_asked_pause_that_fits_is_waited_for_whatever_chance_adds(asked: float, room: float, chance: float) -> None:
    clock = NoTime()
    patience = Patience(asked * room, clock=clock, chance=lambda low, high: low + chance * (high - low))
    assert patience.wait_and_retry(asked)
    assert asked <= clock.seconds < asked * room


@given(SECONDS, PAUSES, JITTER)
def test_the_last_look_comes_when_the_time_is_up(
    seconds: float, pauses: list[float], jitter: tuple[float, float]
) -> None:
    clock = NoTime(look_seconds=0.01)
    patience = Patience(seconds, pauses, jitter=jitter, clock=clock, chance=lambda low, high: high)
    while patience.wait_and_poll():
        assert clock.seconds <= seconds + 0.1
    assert clock.seconds >= seconds


def test_without_any_time_there_is_one_try() -> None:
    assert not Patience(0.0).wait_and_retry()
    assert not Patience(0.0).wait_and_poll()
    assert not Patience(-1.0).wait_and_poll()
    assert not Patience(tries=1).wait_and_retry()


def test_progress_begins_the_wait_anew() -> None:
    clock = NoTime()
    patience = Patience(10.0, (4.0, 5.0), clock=clock)
    assert patience.wait_and_retry()
    assert patience.wait_and_retry()
    assert not patience.wait_and_retry()
    patience.restart()
    assert (patience.spent_seconds, patience.left_seconds, patience.tries) == (0.0, 10.0, 1)
    assert patience.wait_and_retry()
    assert clock.pauses == [4.0, 5.0, 4.0]


def test_a_wait_may_be_shortened_but_not_made_longer() -> None:
    clock = NoTime()
    patience = Patience(10.0, clock=clock)
    patience.shorten(20.0)
    assert patience.left_seconds == 10.0
    patience.shorten(1.0)
    assert patience.left_seconds == 1.0
    clock.sleep(1.0)
    assert patience.is_over


@pytest.mark.parametrize(
    ("first", "most", "pauses"),
    [(1.0, 8.0, (1.0, 2.0, 4.0, 8.0)), (0.5, 3.0, (0.5, 1.0, 2.0, 3.0)), (5.0, 5.0, (5.0,))],
)
def test_doubling_ends_at_the_longest(first: float, most: float, pauses: tuple[float, ...]) -> None:
    assert doubling_pauses(first, most) == pauses


def test_every_wait_goes_by_one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(module.CLOCK, SystemClock)
    clock = NoTime()
    monkeypatch.setattr(module, "CLOCK", clock)
    assert Patience(1e9, (1e6,)).wait_and_retry()
    assert clock.seconds == 1e6


def test_nobody_else_makes_loops_of_sleep_and_chance() -> None:
    root = Path(module.__file__).parent
    found = {
        path.stem for path in root.rglob("*.py") if re.search(r"\btime\.sleep\b|\brandom\.uniform\b", path.read_text())
    }
    # A pace between jobs, not a wait for anything; and a queue, in which one's place says how often to look.
    assert found == {"patience", "load_job", "turn"}


def test_the_machine_s_clock_goes_on_while_it_sleeps() -> None:
    clock = SystemClock()
    before = clock.now()
    clock.sleep(0.01)
    assert clock.now() - before >= 0.01
