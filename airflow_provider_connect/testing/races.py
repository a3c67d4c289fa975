"""What a sink must do when several publish at once."""

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
"""Only so that a failing case ends."""


class RaceCases:
    """Several drivers, several threads, several executors; each case needs the fixture ``bench``."""

    def test_two_publishers_at_once_leave_one_whole_answer_and_the_other_is_told(self, bench: Bench) -> None:
        """If both win, one answer is lost although its task is green, or readers see rows of both."""
        staged = [bench.stage(MONDAY, [f"{number}-{i}" for i in range(20)], number) for number in (6, 7)]
        ended = all_at_once(bench, staged)
        (row,) = [end for end in ended if isinstance(end, LedgerRow)]
        (error,) = [end for end in ended if isinstance(end, ConnectError)]
        assert isinstance(error, RetriableError), error
        assert (row.generation, bench.ledger.row(MONDAY)) == (1, row)
        assert bench.readable() == sorted((MONDAY, f"{number_of(row)}-{i}") for i in range(20))
        assert not [secret for secret in secrets_of(bench.target.connections.values()) if secret in str(error)]
        loser = 13 - number_of(row)
        assert bench.ledger.published(MONDAY, staged[loser - 6].intent.token) is None
        assert bench.publish(bench.stage(MONDAY, ["again"], loser, "2")).generation == 2
        assert bench.readable() == [(MONDAY, "again")]

    def test_one_intent_twice_at_once_is_published_once(self, bench: Bench) -> None:
        """A zombie and its successor want the same day for the same intent: its rows may not stand there twice."""
        staged = [bench.stage(MONDAY, [f"{attempt}-{i}" for i in range(20)], 1, attempt) for attempt in ("1", "2")]
        ended = all_at_once(bench, staged)
        rows = [end for end in ended if isinstance(end, LedgerRow)]
        assert rows, ended
        assert all(isinstance(end, LedgerRow | RetriableError) for end in ended), ended
        published = bench.ledger.row(MONDAY)
        assert {(row.generation, row.attempt) for row in rows} == {(1, published.attempt)}
        winner = next(one.manifest.attempt for one in staged if one.manifest.attempt == published.attempt)
        assert bench.readable() == sorted((MONDAY, f"{winner.split('-')[1]}-{i}") for i in range(20))
        before = bench.state()
        assert bench.publish(bench.stage(MONDAY, ["other"], 1, "3")).attempt == published.attempt
        assert bench.state() == before

    def test_several_days_at_once_by_one_publisher_do_not_mix(self, bench: Bench) -> None:
        """The driver calls one publisher from several threads: what they share unguarded ends in another day."""
        dates = [MONDAY + ONE_DAY * i for i in range(4)]
        staged = [bench.stage(date, [f"{date.day}-{i}" for i in range(3)], 1) for date in dates]
        rows = in_threads([lambda one=one: bench.publish(one) for one in staged])  # type: ignore[misc]
        assert [(row.day, row.generation, row.rows) for row in rows] == [(date, 1, 3) for date in dates]
        assert [bench.ledger.row(date) for date in dates] == rows
        assert bench.readable() == [(date, f"{date.day}-{i}") for date in dates for i in range(3)]

    def test_a_share_that_spark_sends_twice_at_once_counts_once(self, bench: Bench) -> None:
        """Spark runs a slow task a second time beside the first (speculation), and takes either receipt."""
        staged = bench.stage(MONDAY, ["a", "b"], 1)
        token = bench.begin(staged)
        receipts = []
        for share in bench.shares(staged):
            sent = in_threads([lambda share=share: outcome(lambda: bench.put(token, share))] * 2)  # type: ignore[misc]
            good = [receipt for receipt in sent if not isinstance(receipt, ConnectError)]
            assert good, sent
            receipts.append(good[-1])
        row = bench.publisher.commit(staged, token, receipts)
        assert (row.generation, row.rows) == (1, 2)
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b")]


def all_at_once(bench: Bench, staged: Sequence[Publish]) -> list[LedgerRow | ConnectError]:
    """Publish each from a process of its own: all of them begin before the first commits."""
    ready = threading.Barrier(len(staged))

    def publish(one: Publish) -> LedgerRow | ConnectError:
        with bench.another_process() as publisher:
            token = outcome(lambda: bench.begin(one, publisher))
            sent = [] if isinstance(token, ConnectError) else _sent(bench, one, publisher, token)
            ready.wait(WAIT_SECONDS)
            if isinstance(token, ConnectError):
                return token
            try:
                for failed in (receipt for receipt in sent if isinstance(receipt, ConnectError)):
                    raise failed
                return publisher.commit(one, token, sent)
            except ConnectError as error:
                bench.abort(one, token, publisher)
                # As the driver does: another try of this intent may have published the day.
                row = publisher.ledger.published(one.day.date, one.intent.token)
                return error if row is None else row

    return in_threads([lambda one=one: publish(one) for one in staged])  # type: ignore[misc]


def _sent(bench: Bench, staged: Publish, publisher: Publisher, token: Any) -> list[Any]:
    """Send a day; return a receipt or an error for each share."""
    return [outcome(lambda share=share: bench.put(token, share)) for share in bench.shares(staged, publisher)]  # type: ignore[misc]


def in_threads(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Make each call in a thread of its own, all at once; return what they return."""
    with restless_threads(), ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]
