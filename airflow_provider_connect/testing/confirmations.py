"""Conformance cases of sinks that confirm unchanged days."""

from __future__ import annotations

import datetime as dt
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest

from airflow_provider_connect.capabilities.publisher import Confirms
from airflow_provider_connect.errors import ConnectError, OvertakenError, RetriableError
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.testing.bench import (
    MONDAY,
    NOON,
    OTHER_KEY,
    TUESDAY,
    Bench,
    intent,
    number_of,
    restless_threads,
)
from airflow_provider_connect.testing.races import WAIT_SECONDS

ANSWER, OTHER_ANSWER = "f0" * 16, "0f" * 16
"""Digests as the driver computes them. The highest bit of the first one is set."""
LATE = {"late_1_days": 2, "late_3_days": 1}
"""Counts of late rows, which a measured lookback uses."""


class ConfirmationCases:
    """Cases of a sink that defines ``confirm``."""

    keeps_rows_that_a_reload_lacks: ClassVar[bool] = False
    """True for a merge by key, which deletes marked rows alone."""

    @pytest.fixture
    def confirming(self, bench: Bench) -> Bench:
        """Return a bench on which run 1 has published Monday. Skips the case without ``confirm``."""
        if not isinstance(bench.publisher, Confirms):
            pytest.skip("has no confirm(): an unchanged day is published again")
        bench.publish(_stage_same_answer(bench, 1))
        return bench

    def test_a_confirmation_writes_no_data_and_no_generation(self, confirming: Bench) -> None:
        """Readers that follow the target would read unchanged rows again."""
        bench, later = confirming, NOON + dt.timedelta(hours=5)
        untouched = bench.publish(bench.stage(TUESDAY, ["t"], 1))
        published, readable = bench.ledger.row(MONDAY), bench.readable()
        assert (published.checks, published.answer) == (0, ANSWER)
        for checks, number in ((1, 2), (2, 3)):
            row = bench.confirm(_stage_same_answer(bench, number, polled_at=later))
            assert (row.generation, row.checks, row.rows) == (1, checks, 2)
            confirming_intent = intent(number)
            changed = {
                "checks": checks,
                "token": confirming_intent.token,
                "run": confirming_intent.run,
                "polled_at": later,
            }
            with bench.another_process() as other_publisher:
                assert other_publisher.ledger.row(MONDAY) == published.model_copy(update=changed)
                newest = other_publisher.ledger.newest(MONDAY, "day")
                assert newest is not None
                assert (newest.generation, newest.checks, newest.answer) == (1, checks, ANSWER)
                (between_row,) = other_publisher.ledger.between(MONDAY, MONDAY)
                assert (between_row.polled_at, between_row.rows, between_row.generation) == (later, 2, 1)
                assert {name: between_row.counts[name] for name in LATE if name in between_row.counts} == LATE
            assert bench.readable() == readable
        assert bench.ledger.row(TUESDAY) == untouched
        assert list(bench.ledger.days()) == [MONDAY, TUESDAY]
        with bench.another_process(OTHER_KEY) as other_publisher:
            assert other_publisher.ledger.row(MONDAY) is None

    def test_an_older_answer_does_not_land_on_a_confirmed_one(self, confirming: Bench) -> None:
        """An answer polled before the confirmation would remove newer rows."""
        bench = confirming
        stale, stale_confirmation = bench.stage(MONDAY, ["old"], 6, answer=OTHER_ANSWER), _stage_same_answer(bench, 8)
        bench.confirm(_stage_same_answer(bench, 7))
        state_before = bench.state()
        for staged, call in ((stale, bench.publish), (stale_confirmation, bench.confirm)):
            with pytest.raises(OvertakenError, match=r"run-7/task has confirmed generation 1") as caught:
                call(staged)
            assert (caught.value.by, caught.value.may_poll_again) == (intent(7).token, True)
        assert bench.state() == state_before
        for number in (6, 8):
            assert bench.ledger.published(MONDAY, intent(number).token) is None

    @pytest.mark.parametrize("answer", [OTHER_ANSWER, ANSWER], ids=["another answer", "the same answer"])
    def test_a_confirmation_that_comes_after_another_publish_is_refused(self, confirming: Bench, answer: str) -> None:
        """The other publish has replaced the generation."""
        bench = confirming
        staged = _stage_same_answer(bench, 6)
        bench.publish(bench.stage(MONDAY, ["new"], 7, answer=answer))
        state_before = bench.state()
        with pytest.raises(OvertakenError, match=r"run-7/task has published generation 2"):
            bench.confirm(staged)
        assert bench.state() == state_before

    def test_a_changed_answer_is_published_over_a_confirmed_one(self, confirming: Bench) -> None:
        """Readers must see late rows."""
        bench = confirming
        bench.confirm(_stage_same_answer(bench, 2))
        row = bench.publish(bench.stage(MONDAY, ["a", "b", "late"], 3, answer=OTHER_ANSWER))
        assert (row.generation, row.checks, row.rows) == (2, 0, 3)
        assert bench.ledger.row(MONDAY) == row
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b"), (MONDAY, "late")]
        assert bench.confirm(bench.stage(MONDAY, ["a", "b", "late"], 4, answer=OTHER_ANSWER)).checks == 1

    def test_a_retry_of_a_confirming_intent_finds_the_day_done(self, confirming: Bench) -> None:
        """The next driver must neither publish nor confirm the day again."""
        bench = confirming
        staged = _stage_same_answer(bench, 2)
        bench.confirm(staged)  # its response is lost
        state_before = bench.state()
        with bench.another_process() as other_publisher:
            published_row = other_publisher.ledger.published(MONDAY, intent(2).token)
            assert published_row is not None, "published() must find the intent that confirmed the day"
            assert (published_row.generation, published_row.token, published_row.rows) == (1, intent(2).token, 2)
            for retry in (staged, _stage_same_answer(bench, 2, "2")):
                row = bench.confirm(retry, other_publisher)
                assert (row.generation, row.checks, row.token) == (1, 1, intent(2).token)
            row = bench.publish(bench.stage(MONDAY, ["other"], 2, "3", answer=OTHER_ANSWER), other_publisher)
            assert (row.generation, row.token) == (1, intent(2).token)
        assert bench.state() == state_before
        bench.publish(bench.stage(MONDAY, ["by hand"], 3))
        state_before = bench.state()
        row = bench.confirm(_stage_same_answer(bench, 2, "4"))
        assert (row.generation, row.token) == (1, intent(2).token)
        assert bench.state() == state_before

    def test_who_published_what_others_confirm_still_finds_it(self, confirming: Bench) -> None:
        """A late retry would publish its old answer again."""
        bench = confirming
        bench.confirm(_stage_same_answer(bench, 2))
        bench.confirm(_stage_same_answer(bench, 3))
        state_before = bench.state()
        for number in (1, 2):
            published_row = bench.ledger.published(MONDAY, intent(number).token)
            assert published_row is not None
            assert (published_row.generation, published_row.token) == (1, intent(number).token)
        assert bench.publish(bench.stage(MONDAY, ["other"], 1, "2")).generation == 1
        assert bench.state() == state_before

    def test_a_day_whose_driver_died_before_it_confirmed_is_confirmed_by_the_next(self, confirming: Bench) -> None:
        """The staged answer is still the newest."""
        staged = _stage_same_answer(confirming, 2)
        with confirming.another_process() as other_publisher:
            assert confirming.confirm(staged, other_publisher).checks == 1
        assert confirming.readable() == [(MONDAY, "a"), (MONDAY, "b")]

    def test_who_lost_to_a_confirmation_of_a_later_clear_of_its_run_is_told_not_to_poll_again(
        self, confirming: Bench
    ) -> None:
        """Another poll would waste requests."""
        bench = confirming
        zombie, other_run = _stage_same_answer(bench, 6), _stage_same_answer(bench, 1, "2", clear_number=5)
        bench.confirm(_stage_same_answer(bench, 6, "2", clear_number=1))
        for staged, may_poll_again in ((zombie, False), (other_run, True)):
            with pytest.raises(OvertakenError) as caught:
                bench.confirm(staged)
            assert caught.value.may_poll_again is may_poll_again

    @pytest.mark.parametrize("publishes", [False, True], ids=["two confirmations", "a confirmation and a publish"])
    def test_two_at_once_leave_one_and_the_other_is_refused(self, confirming: Bench, publishes: bool) -> None:  # noqa: FBT001
        """The ledger could name a replaced answer's run."""
        bench = confirming
        confirmation = _stage_same_answer(bench, 6)
        rival = bench.stage(MONDAY, ["new"], 7, answer=OTHER_ANSWER) if publishes else _stage_same_answer(bench, 7)
        results = _run_at_once(bench, confirmation, rival, publishes=publishes)
        (row,) = [result for result in results if isinstance(result, LedgerRow)]
        (error,) = [result for result in results if isinstance(result, ConnectError)]
        assert isinstance(error, RetriableError), error
        publish_won = publishes and number_of(row) == 7
        assert (row.generation, row.checks) == ((2, 0) if publish_won else (1, 1))
        ledger_row = bench.ledger.row(MONDAY)
        assert (ledger_row.generation, ledger_row.checks, ledger_row.token) == (row.generation, row.checks, row.token)
        kept = [] if publish_won and not self.keeps_rows_that_a_reload_lacks else [(MONDAY, "a"), (MONDAY, "b")]
        assert bench.readable() == [*kept, *([(MONDAY, "new")] if publish_won else [])]
        assert bench.ledger.published(MONDAY, intent(13 - number_of(row)).token) is None


def _stage_same_answer(
    bench: Bench, number: int, attempt: str = "1", *, clear_number: int = 0, polled_at: dt.datetime = NOON
) -> Publish:
    options: dict[str, Any] = {"clear_number": clear_number, "polled_at": polled_at, "answer": ANSWER, "counts": LATE}
    return bench.stage(MONDAY, ["a", "b"], number, attempt, **options)


def _run_at_once(
    bench: Bench, confirmation: Publish, rival: Publish, *, publishes: bool
) -> list[LedgerRow | ConnectError]:
    barrier = threading.Barrier(2)

    def run(staged: Publish, *, publishes: bool) -> LedgerRow | ConnectError:
        with bench.another_process() as publisher:
            token, receipts = bench.send(staged, publisher) if publishes else (None, [])
            barrier.wait(WAIT_SECONDS)
            try:
                return publisher.commit(staged, token, receipts) if publishes else bench.confirm(staged, publisher)
            except ConnectError as error:
                if publishes:
                    bench.abort(staged, token, publisher)
                # As the driver does: the error may follow a commit that took effect.
                row = publisher.ledger.published(MONDAY, staged.intent.token)
                return error if row is None else row

    with restless_threads(), ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(run, confirmation, publishes=False), pool.submit(run, rival, publishes=publishes)]
        return [future.result() for future in futures]
