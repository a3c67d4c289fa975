"""Tasks share a quota over keys alone: never more than it allows, and each comes to its turn."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from airflow_provider_connect.polling.quota.book import QuotaBook
from airflow_provider_connect.polling.quota.limits import Quota, QuotaClaim
from airflow_provider_connect.polling.quota.turns import Grant, QuotaWait, Turns
from tests.equipment.quota import Keys, Vendor, Worker, World

QUOTA = Quota("mixpanel.export.1", requests=12)
HOUR = QUOTA.seconds


class Scene:
    """Tasks that all want something of one quota."""

    def __init__(self, quota: Quota = QUOTA) -> None:
        self.world, self.keys, self.vendor, self.quota = World(), Keys(), Vendor(), quota
        self.workers: list[Worker] = []

    def add(self, requests: int, after: float = 0.0, rank: int = 0, **how: Any) -> Worker:
        want = QuotaClaim(f"task{len(self.workers):03}", requests, least=how.pop("least", 1), rank=rank)
        seed = how.pop("seed", len(self.workers))
        worker = Worker(self.world, self.keys, self.vendor, self.quota, want, seed=seed, **how)
        self.workers.append(worker)
        self.world.start(worker, after)
        return worker

    def turns(self) -> Turns:
        return Turns(self.keys, self.quota, now=lambda: self.world.now, sleep=lambda _: None)


# Mostly short, and now and then minutes: a pause of the process, a database that fails over.
DELAYS = st.tuples(st.sampled_from([0.0, 0.01, 0.3, 3.0]), st.sampled_from([0.3, 3.0, 40.0, 400.0, 2000.0])).map(
    lambda each: (each[0],) * 15 + (each[1],)
)
TASKS = st.lists(
    st.tuples(
        st.integers(1, 9),
        st.sampled_from([0.0, 0.0, 0.1, 30.0, 1800.0, 3600.0]),
        st.integers(0, 1),
        st.floats(-QUOTA.slack_seconds / 2, QUOTA.slack_seconds / 2),
        DELAYS,
        st.sampled_from([0.0, 0.0, 0.5]),
    ),
    min_size=2,
    max_size=12,
)


# What fails is a seed: a smaller one says no more.
@settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(tasks=TASKS, seed=st.integers(0, 1 << 30), requests=st.integers(1, 14), at_once=st.none() | st.integers(1, 4))
def test_the_limit_is_never_passed_and_everybody_comes_to_the_end(
    tasks: Any, seed: int, requests: int, at_once: int | None
) -> None:
    scene = Scene(Quota("q", requests=requests, at_once=at_once))
    for number, (wanted, after, rank, clock, delays, dies) in enumerate(tasks):
        scene.add(wanted, after, rank, clock=clock, delays=delays, dies=dies, seed=seed + number)
    total = sum(wanted for wanted, *_ in tasks)
    scene.world.run(most_seconds=2 * HOUR + (total / requests + 2 * len(tasks)) * 2 * HOUR)
    assert scene.vendor.most_in(HOUR) <= requests
    assert all(worker.is_dead or not worker.left for worker in scene.workers)


def test_a_look_before_the_hold_alone_would_pass_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the second look is for, and that the world above finds it out."""
    monkeypatch.setattr(Turns, "_room_next_to", lambda self, hold: 0)
    scene = Scene()
    for _ in range(20):
        scene.add(1, delays=(0.3,))
    scene.world.run(10 * HOUR)
    assert scene.vendor.most_in(HOUR) > QUOTA.requests


def test_clocks_that_differ_by_more_than_is_promised_would_pass_the_limit() -> None:
    scene = Scene()
    scene.add(12, clock=-400.0, job_seconds=1.0)
    scene.add(1, after=60.0, clock=400.0)
    scene.world.run(10 * HOUR)
    assert scene.vendor.most_in(HOUR) > QUOTA.requests


def test_the_hour_is_used() -> None:
    scene = Scene(Quota("q"))
    for _ in range(40):
        scene.add(12, delays=(0.3, 5.0), job_seconds=20.0)
    began = scene.world.now
    scene.world.run(20 * HOUR)
    hours = (max(scene.vendor.came) - began) / HOUR
    # The last sixty need no time after they were sent.
    assert (len(scene.vendor.came) - 60) / 60 / hours >= 0.9
    assert scene.vendor.most_in(HOUR) <= 60


def test_those_who_came_first_come_first() -> None:
    scene = Scene(Quota("q", requests=2))
    workers = [scene.add(1, after=10.0 * number, delays=(0.1,)) for number in range(10)]
    scene.world.run(20 * HOUR)
    assert sorted(workers, key=lambda worker: worker.granted) == workers


def test_todays_run_comes_before_a_backfill_that_waits() -> None:
    scene = Scene(Quota("q", requests=2))
    backfill = [scene.add(1, after=10.0 * number, rank=1) for number in range(8)]
    today = scene.add(1, after=1000.0)
    scene.world.run(20 * HOUR)
    assert today.granted < min(worker.granted for worker in backfill[2:])


def test_a_long_window_takes_what_there_is_and_lets_others_in_between() -> None:
    scene = Scene(Quota("q", requests=60))
    window = scene.add(365, least=6, job_seconds=5.0)
    single = scene.add(1, after=600.0)
    scene.world.run(20 * HOUR)
    assert window.left == 0
    assert single.ended - 1_800_000_000 < 2.1 * HOUR
    assert window.ended - 1_800_000_000 < 7 * HOUR


def test_what_was_not_sent_is_given_back() -> None:
    scene = Scene()
    turns = scene.turns()
    grant = turns.reserve(QuotaClaim("a", 12))
    assert isinstance(grant, Grant)
    assert isinstance(turns.reserve(QuotaClaim("b", 1)), QuotaWait)
    turns.settle(grant, [scene.world.now] * 2)
    second = turns.reserve(QuotaClaim("b", 12))
    assert isinstance(second, Grant)
    assert second.requests == 10


def test_what_a_killed_task_reserved_counts_as_sent_until_it_no_longer_can_be() -> None:
    scene = Scene()
    turns = scene.turns()
    grant = turns.reserve(QuotaClaim("a", 12))
    assert isinstance(grant, Grant)
    scene.world.now += HOUR + 10
    assert isinstance(turns.reserve(QuotaClaim("b", 1)), QuotaWait)
    scene.world.now += QUOTA.valid_seconds
    assert isinstance(turns.reserve(QuotaClaim("b", 12)), Grant)


def test_spare_requests_come_from_plenty_alone() -> None:
    turns = Scene(Quota("q")).turns()
    taken = []
    for number in range(21):
        grant = turns.reserve(QuotaClaim(f"t{number:02}", 1, spare=4))
        taken.append(grant.requests if isinstance(grant, Grant) else 0)
    assert taken[0] == 5
    assert taken[:20].count(0) == 0, "twenty runs at once have room"
    assert taken == sorted(taken, reverse=True)


def test_the_vendors_count_is_believed_over_our_own() -> None:
    scene = Scene()
    turns = scene.turns()
    turns.record_vendor_usage(used=13, limit=12)
    got = turns.reserve(QuotaClaim("a", 1))
    assert isinstance(got, QuotaWait)
    assert "13 of them by others" in got.reason
    scene.world.now = got.until
    waits = 0
    while isinstance(turns.reserve(QuotaClaim("a", 1)), QuotaWait):
        scene.world.now += 60
        waits += 1
    assert waits < 15, "one leaves the hour every five minutes, as far as anybody knows"
    scene.world.now += HOUR + 10
    full = turns.reserve(QuotaClaim("b", 12))
    assert isinstance(full, Grant)
    assert full.requests == 11, "one is held by the first"


def test_the_vendors_count_of_our_own_requests_is_no_news() -> None:
    scene = Scene()
    turns = scene.turns()
    grant = turns.reserve(QuotaClaim("a", 12))
    assert isinstance(grant, Grant)
    turns.settle(grant, [scene.world.now] * 12)
    turns.record_vendor_usage(used=12, limit=12)
    book = QuotaBook.read(QUOTA, scene.keys.all)
    assert book.requests_by_others(scene.world.now) == 0


def test_a_smaller_limit_is_believed_and_a_wait_that_the_vendor_asks_for_is_kept() -> None:
    scene = Scene()
    turns = scene.turns()
    turns.record_vendor_usage(used=3, limit=3, wait_seconds=900.0)
    first = turns.reserve(QuotaClaim("a", 12, least=6))
    assert isinstance(first, QuotaWait)
    scene.world.now += 899
    assert isinstance(turns.reserve(QuotaClaim("a", 12, least=6)), QuotaWait)
    scene.world.now += HOUR - 800
    scene.keys.all.clear()
    turns.record_vendor_usage(used=0, limit=3)
    got = turns.reserve(QuotaClaim("a", 12, least=6))
    assert isinstance(got, Grant)
    assert got.requests == 3


def test_old_keys_are_swept_and_not_too_early() -> None:
    scene = Scene()
    for number in range(40):
        scene.add(3, after=600.0 * number, dies=0.3)
    scene.world.run(100 * HOUR)
    kept = len(scene.keys.all)
    scene.world.now += 3 * HOUR
    turns = scene.turns()
    turns.record_vendor_usage(1, 12)
    scene.world.now += 2 * HOUR
    grant = turns.reserve(QuotaClaim("last", 1))
    assert isinstance(grant, Grant)
    assert scene.keys.all == {"connect_quota/mixpanel.export.1/" + grant.hold.name}
    assert kept < 60


def test_a_place_of_a_dead_task_blocks_nobody_for_long() -> None:
    scene = Scene(Quota("q", requests=2))
    turns = scene.turns()
    grant = turns.reserve(QuotaClaim("a", 2))
    assert isinstance(grant, Grant)
    dead = turns.reserve(QuotaClaim("dead", 2))
    assert isinstance(dead, QuotaWait)
    turns.settle(grant, [])
    scene.world.now += 1
    assert isinstance(turns.reserve(QuotaClaim("b", 1)), QuotaWait)
    scene.world.now = dead.until + scene.quota.grace_seconds + 1
    assert isinstance(turns.reserve(QuotaClaim("b", 1)), Grant)


def test_at_once_is_kept_too() -> None:
    scene = Scene(Quota("q", at_once=5))
    turns = scene.turns()
    first, second, third = (turns.reserve(QuotaClaim(name, 4, width=3)) for name in "abc")
    assert isinstance(first, Grant)
    assert isinstance(second, Grant)
    assert (first.width, second.width) == (3, 2)
    assert isinstance(third, QuotaWait)
    turns.settle(first, [scene.world.now])
    assert isinstance(turns.reserve(QuotaClaim("c", 4, width=3)), Grant)


def test_keys_of_others_and_broken_ones_are_passed_over() -> None:
    keys = ["hold/x", "hold/x/1/2", "sent/x/1@", "sent/y/", "wait/a/b/c/d/e", "new/1", "", "said/1/2/3"]
    book = QuotaBook.read(QUOTA, [f"connect_quota/{QUOTA.name}/{key}" for key in keys])
    assert (book.used_requests(0), book.waiting, book.said, book.expired_names(9e9)) == (0, [], [], [])


@pytest.mark.parametrize(("look", "order"), list(itertools.product([0, 1], [0, 1])))
def test_two_who_would_block_each_other_do_not_for_long(look: int, order: int) -> None:
    """Both write before either looks again: neither fits, both take their hold back, and one of them goes on."""
    scene = Scene(Quota("q", requests=1))
    for number in range(2):
        scene.add(1, delays=(0.05,), seed=10 * look + (number + order) % 2)
    scene.world.run(4 * HOUR)
    first, second = sorted(scene.vendor.came)
    assert first - 1_800_000_000 < 120
    assert second - first < 1.3 * HOUR
