"""Conformance cases of sinks: a rival or a lost connection between two requests."""

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
"""Longest hold of a request."""
_MAX_STOPS = 200
_LOCALHOST = re.compile(r"(?:http://)?(?:127\.0\.0\.1|localhost)/?")

PublishOutcome = LedgerRow | ConnectError


class GapCases:
    """Cases that interrupt a step before and after each request."""

    @pytest.fixture
    def gate(self, bench: Bench) -> Iterator[Gate]:
        """Put a gate in front of the target's local server. Skips the case unless it is local."""
        ports = [
            connection.port
            for connection in bench.target.connections.values()
            if connection.port and _LOCALHOST.match(connection.host or "")
        ]
        if len(ports) != 1:
            pytest.skip("needs exactly one connection of the target to 127.0.0.1 with a port")
        with Gate(ports[0]) as gate:
            yield gate

    @pytest.fixture
    def gated(self, bench: Bench, gate: Gate) -> Iterator[Bench]:
        """Return a copy of the bench with all requests through the gate."""
        connections = {
            conn_id: connection.model_copy(update={"port": gate.port})
            if _LOCALHOST.match(connection.host or "")
            else connection
            for conn_id, connection in bench.target.connections.items()
        }
        with bench.target.sink.open(KEY, connections) as publisher:
            target = dataclasses.replace(bench.target, connections=connections)
            yield dataclasses.replace(bench, target=target, publisher=publisher)
            gate.watch(lambda stop: True)

    @pytest.mark.parametrize("rival_offset", [3, 2], ids=["another run", "the same run"])
    def test_one_whole_answer_is_seen_whoever_publishes_between_two_requests(
        self, bench: Bench, gated: Bench, gate: Gate, rival_offset: int
    ) -> None:
        """A commit on an outdated read may lose or mix answers in a green task."""
        for stop, first in _stops(gate):
            gated_publish = _stage_over_older_answer(bench, first)
            rival_publish = _stage(bench, first + rival_offset, "2")
            outcomes = _run_with_interruption(
                gate, stop, partial(_publish, gated, gated_publish), partial(_publish, bench, rival_publish)
            )
            _require_one_whole_answer(bench, outcomes)
            bench.publish(_stage(bench, first + 4))
            _require_one_whole_answer(bench, [])

    @pytest.mark.parametrize("for_good", [False, True], ids=["connection", "process"])
    def test_a_day_is_seen_once_whatever_ends_between_two_requests(
        self, bench: Bench, gated: Bench, gate: Gate, *, for_good: bool
    ) -> None:
        """A retry must not duplicate rows."""
        for stop, first in _stops(gate):
            gated_publish = _stage_over_older_answer(bench, first)
            gate.watch(partial(_lets_pass, stop, for_good=for_good))
            _require_one_whole_answer(bench, [outcome(partial(_publish, gated, gated_publish))])
            with bench.another_process() as other_publisher:
                retried = bench.publish(gated_publish, other_publisher)
            assert retried.generation == gated_publish.manifest.seen.generation + 1
            _require_one_whole_answer(bench, [retried])

    def test_a_sweep_between_two_requests_takes_nothing_that_is_seen_later(
        self, bench: Bench, gated: Bench, gate: Gate
    ) -> None:
        """A driver may resume after days and commit."""
        for stop, first in _stops(gate):
            gated_publish = _stage_over_older_answer(bench, first)
            result, *_ = _run_with_interruption(
                gate, stop, partial(_publish, gated, gated_publish), partial(_sweep, bench)
            )
            _require_one_whole_answer(bench, [result])
            _require_one_whole_answer(bench, [bench.publish(_stage(bench, first + 2, "2"))])

    def test_a_commit_between_two_requests_of_a_sweep_shows_all_or_is_refused(
        self, bench: Bench, gated: Bench, gate: Gate
    ) -> None:
        """The sweep must spare leftovers committed after its listing."""
        for stop, first in _stops(gate):
            gated_publish = _stage_over_older_answer(bench, first)
            commit = partial(bench.publisher.commit, gated_publish, *bench.send(gated_publish))
            _, *outcomes = _run_with_interruption(gate, stop, partial(_sweep, gated), commit)
            _require_one_whole_answer(bench, outcomes)
            _require_one_whole_answer(bench, [bench.publish(_stage(bench, first + 2, "2"))])


def _stops(gate: Gate) -> Iterator[tuple[int, int]]:
    """Yield (stop, first free run number) for each stop of the step."""
    for stop in range(_MAX_STOPS):
        yield stop, 10 * stop
        if gate.stops <= stop:
            assert stop > 0, "no request went through the gate"
            return
    pytest.fail(f"the step has more than {_MAX_STOPS} stops")


def _lets_pass(stop: int, number: int, *, for_good: bool) -> bool:
    return number < stop if for_good else number != stop


def _run_with_interruption(
    gate: Gate, stop: int, action: Callable[[], object], interruption: Callable[[], object]
) -> list[object]:
    interruptions: list[Future[object]] = []
    with ThreadPoolExecutor(1) as pool:

        def at_stop(number: int) -> bool:
            if number == stop:
                interruptions.append(pool.submit(outcome, interruption))
                wait(interruptions, PAUSE_SECONDS)
            return True

        gate.watch(at_stop)
        return [outcome(action), *(future.result() for future in interruptions)]


def _publish(bench: Bench, staged: Publish) -> PublishOutcome:
    try:
        return bench.publish(staged)
    except ConnectError as error:
        row = bench.ledger.published(staged.day.date, staged.intent.token)
        return row or error


def _sweep(bench: Bench) -> None:
    bench.target.age()
    bench.sweep()


def _stage_over_older_answer(bench: Bench, first: int) -> Publish:
    bench.publish(_stage(bench, first + 1))
    return _stage(bench, first + 2, files=2)


def _stage(bench: Bench, number: int, attempt: str = "1", files: int = 1) -> Publish:
    return bench.stage(MONDAY, _events(number, attempt), number, attempt, files=files)


def _events(number: int, attempt: str) -> list[str]:
    return [f"{number}-{attempt}-{row}" for row in range(3)]


def _require_one_whole_answer(bench: Bench, outcomes: Sequence[object]) -> None:
    row = bench.ledger.row(MONDAY)
    assert row is not None, "the ledger has no row of the day"
    assert bench.readable() == [(MONDAY, event) for event in _events(number_of(row), row.attempt.split("-")[1])]
    for result in outcomes:
        assert isinstance(result, RetriableError) or result == row, result
