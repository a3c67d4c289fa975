"""Tasks that share a quota, in a world whose time, delays and clocks a test decides."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from greenlet import getcurrent, greenlet

from airflow_provider_connect.polling.quota.limits import Quota, QuotaClaim
from airflow_provider_connect.polling.quota.turns import Grant, Turns


class Keys:
    """A store in this process."""

    def __init__(self) -> None:
        self.all: set[str] = set()

    def add(self, key: str) -> None:
        assert len(key) <= 250, "longer than Airflow's column"
        self.all.add(key)

    def keys(self, prefix: str) -> list[str]:
        return sorted(key for key in self.all.copy() if key.startswith(prefix))

    def delete(self, key: str) -> None:
        self.all.discard(key)


class World:
    """Runs tasks one step at a time, in the order of their waits. Nothing in it takes real time."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self._queue: list[tuple[float, int, greenlet]] = []
        self._count = 0

    def start(self, task: Callable[[], None], after: float = 0.0) -> None:
        self._push(after, greenlet(task))

    def wait(self, seconds: float) -> None:
        """Let the others go on until so much time has passed."""
        self._push(seconds, getcurrent())
        getcurrent().parent.switch()

    def run(self, most_seconds: float) -> None:
        end = self.now + most_seconds
        while self._queue:
            at, _, task = heapq.heappop(self._queue)
            assert at <= end, f"a task has not come to its end in {most_seconds} s"
            self.now = max(self.now, at)
            task.switch()

    def _push(self, seconds: float, task: greenlet) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now + seconds, self._count, task))


class Far:
    """A store that is reached after a while, and answers after a while."""

    def __init__(self, keys: Keys, world: World, delay: Callable[[], float]) -> None:
        self._keys, self._world, self._delay = keys, world, delay

    def add(self, key: str) -> None:
        self._world.wait(self._delay())
        self._keys.add(key)
        self._world.wait(self._delay())

    def keys(self, prefix: str) -> list[str]:
        self._world.wait(self._delay())
        found = self._keys.keys(prefix)
        self._world.wait(self._delay())
        return found

    def delete(self, key: str) -> None:
        self._world.wait(self._delay())
        self._keys.delete(key)
        self._world.wait(self._delay())


class Vendor:
    """Notes when requests came, by the true time."""

    def __init__(self) -> None:
        self.came: list[float] = []

    def most_in(self, seconds: float) -> int:
        """Return the most requests that came in any span of so many seconds."""
        times = sorted(self.came)
        first = most = 0
        for last, time in enumerate(times):
            while times[first] <= time - seconds:
                first += 1
            most = max(most, last - first + 1)
        return most


class Worker:
    """One task: it asks until it has sent all that it wants, or dies.

    :param clock: by how much its clock is ahead of the true time.
    :param dies: the chance that it is killed once it has a part, at any point after that.
    """

    def __init__(
        self,
        world: World,
        keys: Keys,
        vendor: Vendor,
        quota: Quota,
        want: QuotaClaim,
        *,
        seed: int,
        delays: tuple[float, ...] = (0.0,),
        clock: float = 0.0,
        dies: float = 0.0,
        job_seconds: float = 30.0,
    ) -> None:
        self.world, self.vendor, self.quota, self.want = world, vendor, quota, want
        self.random = random.Random(seed)
        self.delays, self.clock, self.dies, self.job_seconds = delays, clock, dies, job_seconds
        self.turns = Turns(Far(keys, world, self.delay), quota, now=self.now, sleep=world.wait)
        self.left = want.requests
        self.is_dead = False
        self.granted = self.ended = 0.0

    def delay(self) -> float:
        return self.random.choice(self.delays) * self.random.random()

    def now(self) -> float:
        return self.world.now + self.clock

    def __call__(self) -> None:
        while self.left and not self.is_dead:
            want = QuotaClaim(self.want.asker, self.left, min(self.want.least, self.left), rank=self.want.rank)
            got = self.turns.reserve(want)
            if isinstance(got, Grant):
                self._work(got)
            else:
                self.world.wait(max(0.0, got.until - self.now()) + self.delay())
        self.ended = self.world.now

    def _work(self, grant: Grant) -> None:
        self.granted = self.granted or self.world.now
        sent: list[float] = []
        deathly = self.random.random() < self.dies
        for _ in range(grant.requests):
            self.world.wait(self.job_seconds * self.random.random())
            if deathly and self.random.random() < 0.3:
                self.is_dead = True
                return
            if self.now() >= grant.until or not self.left:
                break
            # On its way to the vendor, within what the reservation leaves for it.
            self.world.wait(min(self.quota.lag_seconds, self.delay()) * 0.9)
            sent.append(self.now())
            self.vendor.came.append(self.world.now)
            self.left -= 1
        self.turns.settle(grant, sent)
