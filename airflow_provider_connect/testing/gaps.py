"""What a sink must do when somebody comes between two of its requests, or when its process ends there."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial

import pytest

from airflow_provider_connect.errors import ConnectError, RetriableError
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.testing.bench import KEY, MONDAY, Bench, number_of, outcome
from airflow_provider_connect.testing.faults import Gate

PAUSE_SECONDS = 1.0
"""For how long a request is held at the most: who comes between may have to wait until it has passed."""
_MOST_STOPS = 200
_LOCAL = re.compile(r"(?:http://)?(?:127\.0\.0\.1|localhost)/?")

End = LedgerRow | ConnectError


class GapCases:
    """Cases that go through all requests of a step, and come before each and after it; they need ``bench``."""

    @pytest.fixture
    def gate(self, bench: Bench) -> Iterator[Gate]:
        """Stand before the target's server; if that is not on this machine, the case is skipped."""
        ports = [each.port for each in bench.target.connections.values() if each.port and _LOCAL.match(each.host or "")]
        if len(ports) != 1:
            pytest.skip("none of the target's connections, or more than one, is to 127.0.0.1 and a port")
        with Gate(ports[0]) as gate:
            yield gate

    @pytest.fixture
    def gated(self, bench: Bench, gate: Gate) -> Iterator[Bench]:
        """Return the same bench with every request through the gate."""
        connections = {
            conn_id: each.model_copy(update={"port": gate.port}) if _LOCAL.match(each.host or "") else each
            for conn_id, each in bench.target.connections.items()
        }
        with bench.target.sink.open(KEY, connections) as publisher:
            target = dataclasses.replace(bench.target, connections=connections)
            yield dataclasses.replace(bench, target=target, publisher=publisher)
            gate.watch(lambda stop: True)

    @pytest.mark.parametrize("whose", [3, 2], ids=["another run", "the same run"])
    def test_one_whole_answer_is_seen_whoever_publishes_between_two_requests(
        self, bench: Bench, gated: Bench, gate: Gate, whose: int
    ) -> None:
        """Decided on what no longer holds, an answer is lost although its task is green, or rows of both are seen."""
        for stop, first in _stops(gate):
            mine = _after_an_old_one(bench, first)
            theirs = _staged(bench, first + whose, "2")
            ends = _between(gate, stop, partial(_publish, gated, mine), partial(_publish, bench, theirs))
            _require_one_whole_answer(bench, ends)
            bench.publish(_staged(bench, first + 4))
            _require_one_whole_answer(bench, [])

    @pytest.mark.parametrize("for_good", [False, True], ids=["connection", "process"])
    def test_a_day_is_seen_once_whatever_ends_between_two_requests(
        self, bench: Bench, gated: Bench, gate: Gate, *, for_good: bool
    ) -> None:
        """Nobody knows what took effect: a day must not be seen half, nor twice after the retry."""
        for stop, first in _stops(gate):
            mine = _after_an_old_one(bench, first)
            gate.watch(partial(_passes, stop, for_good=for_good))
            _require_one_whole_answer(bench, [outcome(partial(_publish, gated, mine))])
            with bench.another_process() as other:
                retried = bench.publish(mine, other)
            assert retried.generation == mine.manifest.seen.generation + 1
            _require_one_whole_answer(bench, [retried])

    def test_a_sweep_between_two_requests_takes_nothing_that_is_seen_later(
        self, bench: Bench, gated: Bench, gate: Gate
    ) -> None:
        """A driver that slept for days wakes up and commits: what it shows must be there, and all of it."""
        for stop, first in _stops(gate):
            mine = _after_an_old_one(bench, first)
            end, *_ = _between(gate, stop, partial(_publish, gated, mine), partial(_sweep, bench))
            _require_one_whole_answer(bench, [end])
            _require_one_whole_answer(bench, [bench.publish(_staged(bench, first + 2, "2"))])

    def test_a_commit_between_two_requests_of_a_sweep_shows_all_or_is_refused(
        self, bench: Bench, gated: Bench, gate: Gate
    ) -> None:
        """The sweep has looked and now deletes: what a commit has shown meanwhile must not be among it."""
        for stop, first in _stops(gate):
            mine = _after_an_old_one(bench, first)
            commit = partial(bench.publisher.commit, mine, *bench.send(mine))
            _, *ends = _between(gate, stop, partial(_sweep, gated), commit)
            _require_one_whole_answer(bench, ends)
            _require_one_whole_answer(bench, [bench.publish(_staged(bench, first + 2, "2"))])


def _stops(gate: Gate) -> Iterator[tuple[int, int]]:
    """Yield the number of each stop, and that of the first of its intents, until there was no stop of that number."""
    for stop in range(_MOST_STOPS):
        yield stop, 10 * stop
        if gate.stops <= stop:
            assert stop > 0, "no request went through the gate"
            return
    pytest.fail(f"more than {_MOST_STOPS} stops")


def _passes(stop: int, now: int, *, for_good: bool) -> bool:
    return now < stop if for_good else now != stop


def _between(gate: Gate, stop: int, act: Callable[[], object], other: Callable[[], object]) -> list[object]:
    """Do one thing, and another at one of its stops; return how they ended."""
    others: list[Future[object]] = []
    with ThreadPoolExecutor(1) as pool:

        def at_stop(now: int) -> bool:
            if now == stop:
                others.append(pool.submit(outcome, other))
                wait(others, PAUSE_SECONDS)
            return True

        gate.watch(at_stop)
        return [outcome(act), *(each.result() for each in others)]


def _publish(bench: Bench, staged: Publish) -> End:
    """Publish as a driver does: after an error it asks the ledger once more."""
    try:
        return bench.publish(staged)
    except ConnectError as error:
        row = bench.ledger.published(staged.day.date, staged.intent.token)
        return row or error


def _sweep(bench: Bench) -> None:
    bench.target.age()
    bench.sweep()


def _after_an_old_one(bench: Bench, first: int) -> Publish:
    bench.publish(_staged(bench, first + 1))
    return _staged(bench, first + 2, files=2)


def _staged(bench: Bench, number: int, attempt: str = "1", files: int = 1) -> Publish:
    return bench.stage(MONDAY, _events(number, attempt), number, attempt, files=files)


def _events(number: int, attempt: str) -> list[str]:
    return [f"{number}-{attempt}-{row}" for row in range(3)]


def _require_one_whole_answer(bench: Bench, ends: Sequence[object]) -> None:
    """Require that readers see the rows of the ledger's newest row, and that no other publish was called done."""
    row = bench.ledger.row(MONDAY)
    assert row is not None, "the ledger has lost the day"
    assert bench.readable() == [(MONDAY, event) for event in _events(number_of(row), row.attempt.split("-")[1])]
    for end in ends:
        assert isinstance(end, RetriableError) or end == row, end
