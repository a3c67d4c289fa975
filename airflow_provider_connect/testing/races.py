"""Conformance cases of concurrent publishers of a sink."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from airflow_provider_connect.errors import ConnectError, RetriableError
from airflow_provider_connect.sink import LedgerRow, Publish, Publisher
from airflow_provider_connect.testing.bench import MONDAY, Bench, number_of, outcome, restless_threads
from airflow_provider_connect.testing.connectors import secrets_of
from airflow_provider_connect.window import ONE_DAY

T = TypeVar("T")
WAIT_SECONDS = 60
"""Timeout that only a failing case reaches."""


class RaceCases:
    """Drivers, threads and executors that publish concurrently."""

    def test_two_publishers_at_once_leave_one_whole_answer_and_the_other_is_refused(self, bench: Bench) -> None:
        """One answer could be lost in a green task."""
        staged = [bench.stage(MONDAY, [f"{number}-{i}" for i in range(20)], number) for number in (6, 7)]
        results = all_at_once(bench, staged)
        (row,) = [result for result in results if isinstance(result, LedgerRow)]
        (error,) = [result for result in results if isinstance(result, ConnectError)]
        assert isinstance(error, RetriableError), error
        assert (row.generation, bench.ledger.row(MONDAY)) == (1, row)
        assert bench.readable() == sorted((MONDAY, f"{number_of(row)}-{i}") for i in range(20))
        assert not [secret for secret in secrets_of(bench.target.connections.values()) if secret in str(error)]
        loser = 13 - number_of(row)
        assert bench.ledger.published(MONDAY, staged[loser - 6].intent.token) is None
        assert bench.publish(bench.stage(MONDAY, ["again"], loser, "2")).generation == 2
        assert bench.readable() == [(MONDAY, "again")]

    def test_one_intent_twice_at_once_is_published_once(self, bench: Bench) -> None:
        """A task presumed dead and its successor publish the same rows."""
        staged = [bench.stage(MONDAY, [f"{attempt}-{i}" for i in range(20)], 1, attempt) for attempt in ("1", "2")]
        results = all_at_once(bench, staged)
        rows = [result for result in results if isinstance(result, LedgerRow)]
        assert rows, results
        assert all(isinstance(result, LedgerRow | RetriableError) for result in results), results
        published = bench.ledger.row(MONDAY)
        assert {(row.generation, row.attempt) for row in rows} == {(1, published.attempt)}
        winner = next(publish.manifest.attempt for publish in staged if publish.manifest.attempt == published.attempt)
        assert bench.readable() == sorted((MONDAY, f"{winner.split('-')[1]}-{i}") for i in range(20))
        state_before = bench.state()
        assert bench.publish(bench.stage(MONDAY, ["other"], 1, "3")).attempt == published.attempt
        assert bench.state() == state_before

    def test_several_days_at_once_by_one_publisher_do_not_mix(self, bench: Bench) -> None:
        """The driver calls one publisher from several threads."""
        dates = [MONDAY + ONE_DAY * i for i in range(4)]
        staged = [bench.stage(date, [f"{date.day}-{i}" for i in range(3)], 1) for date in dates]
        rows = in_threads([lambda publish=publish: bench.publish(publish) for publish in staged])  # type: ignore[misc]
        assert [(row.day, row.generation, row.rows) for row in rows] == [(date, 1, 3) for date in dates]
        assert [bench.ledger.row(date) for date in dates] == rows
        assert bench.readable() == [(date, f"{date.day}-{i}") for date in dates for i in range(3)]

    def test_a_share_that_spark_sends_twice_at_once_counts_once(self, bench: Bench) -> None:
        """Spark's speculation runs a slow task twice."""
        staged = bench.stage(MONDAY, ["a", "b"], 1)
        token = bench.begin(staged)
        receipts = []
        for share in bench.shares(staged):
            put_results = in_threads([lambda share=share: outcome(lambda: bench.put(token, share))] * 2)  # type: ignore[misc]
            share_receipts = [receipt for receipt in put_results if not isinstance(receipt, ConnectError)]
            assert share_receipts, put_results
            receipts.append(share_receipts[-1])
        row = bench.publisher.commit(staged, token, receipts)
        assert (row.generation, row.rows) == (1, 2)
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b")]


def all_at_once(bench: Bench, staged: Sequence[Publish]) -> list[LedgerRow | ConnectError]:
    """Publish each day from its own process, all concurrently."""
    barrier = threading.Barrier(len(staged))

    def publish(publish_staged: Publish) -> LedgerRow | ConnectError:
        with bench.another_process() as publisher:
            token = outcome(lambda: bench.begin(publish_staged, publisher))
            receipts = [] if isinstance(token, ConnectError) else _put_shares(bench, publish_staged, publisher, token)
            barrier.wait(WAIT_SECONDS)
            if isinstance(token, ConnectError):
                return token
            try:
                for put_error in (receipt for receipt in receipts if isinstance(receipt, ConnectError)):
                    raise put_error
                return publisher.commit(publish_staged, token, receipts)
            except ConnectError as error:
                bench.abort(publish_staged, token, publisher)
                # As the driver does: another try of this intent may have published the day.
                row = publisher.ledger.published(publish_staged.day.date, publish_staged.intent.token)
                return error if row is None else row

    return in_threads([lambda publish_staged=publish_staged: publish(publish_staged) for publish_staged in staged])  # type: ignore[misc]


def _put_shares(bench: Bench, staged: Publish, publisher: Publisher, token: Any) -> list[Any]:
    return [outcome(lambda share=share: bench.put(token, share)) for share in bench.shares(staged, publisher)]  # type: ignore[misc]


def in_threads(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run each call in its own thread. Returns the results in order."""
    with restless_threads(), ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]
