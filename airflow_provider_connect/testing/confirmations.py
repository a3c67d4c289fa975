"""What a sink must do that confirms a day whose answer is the published one, instead of publishing it again."""

from __future__ import annotations

import datetime as dt
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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
"""Digests as the driver makes them; the first has its highest bit set."""
LATE = {"late_1_days": 2, "late_3_days": 1}
"""How late the rows of that answer came: a measured lookback goes by it, also of confirmed days."""


class ConfirmationCases:
    """Confirmations, by a sink that defines ``confirm``; each case needs the fixture ``bench``."""

    @pytest.fixture
    def confirming(self, bench: Bench) -> Bench:
        """Return the bench of a sink whose Monday was published by run 1."""
        if not isinstance(bench.publisher, Confirms):
            pytest.skip("has no confirm(): an unchanged day is published again")
        bench.publish(_same(bench, 1))
        return bench

    def test_a_confirmation_writes_no_data_and_no_generation(self, confirming: Bench) -> None:
        """Rows that are written again are read again by all who follow the target, though nothing changed."""
        bench, later = confirming, NOON + dt.timedelta(hours=5)
        untouched = bench.publish(bench.stage(TUESDAY, ["t"], 1))
        published, shown = bench.ledger.row(MONDAY), bench.readable()
        assert (published.checks, published.answer) == (0, ANSWER)
        for checks, number in ((1, 2), (2, 3)):
            made = bench.confirm(_same(bench, number, polled_at=later))
            assert (made.generation, made.checks, made.rows) == (1, checks, 2)
            mine = intent(number)
            changed = {"checks": checks, "token": mine.token, "run": mine.run, "polled_at": later}
            with bench.another_process() as other:
                assert other.ledger.row(MONDAY) == published.model_copy(update=changed)
                newest = other.ledger.newest(MONDAY, "day")
                assert newest is not None
                assert (newest.generation, newest.checks, newest.answer) == (1, checks, ANSWER)
                (between,) = other.ledger.between(MONDAY, MONDAY)
                assert (between.polled_at, between.rows, between.generation) == (later, 2, 1)
                assert {name: between.counts[name] for name in LATE if name in between.counts} == LATE
            assert bench.readable() == shown
        assert bench.ledger.row(TUESDAY) == untouched
        assert list(bench.ledger.days()) == [MONDAY, TUESDAY]
        with bench.another_process(OTHER_KEY) as other:
            assert other.ledger.row(MONDAY) is None

    def test_an_older_answer_does_not_land_on_a_confirmed_one(self, confirming: Bench) -> None:
        """The confirmed answer is the newer one: what was polled before it would take it back."""
        bench = confirming
        stale, stale_too = bench.stage(MONDAY, ["old"], 6, answer=OTHER_ANSWER), _same(bench, 8)
        bench.confirm(_same(bench, 7))
        before = bench.state()
        for late, take in ((stale, bench.publish), (stale_too, bench.confirm)):
            with pytest.raises(OvertakenError, match=r"run-7/task has confirmed generation 1") as caught:
                take(late)
            assert (caught.value.by, caught.value.may_poll_again) == (intent(7).token, True)
        assert bench.state() == before
        for number in (6, 8):
            assert bench.ledger.published(MONDAY, intent(number).token) is None

    @pytest.mark.parametrize("answer", [OTHER_ANSWER, ANSWER], ids=["another answer", "the same answer"])
    def test_a_confirmation_that_comes_after_another_publish_is_refused(self, confirming: Bench, answer: str) -> None:
        """It speaks of a generation that nobody sees any more, or of an answer that may be the older one."""
        bench = confirming
        late = _same(bench, 6)
        bench.publish(bench.stage(MONDAY, ["new"], 7, answer=answer))
        before = bench.state()
        with pytest.raises(OvertakenError, match=r"run-7/task has published generation 2"):
            bench.confirm(late)
        assert bench.state() == before

    def test_a_changed_answer_is_published_over_a_confirmed_one(self, confirming: Bench) -> None:
        """What came late must be seen, and the new generation has not been confirmed by anybody."""
        bench = confirming
        bench.confirm(_same(bench, 2))
        row = bench.publish(bench.stage(MONDAY, ["a", "b", "late"], 3, answer=OTHER_ANSWER))
        assert (row.generation, row.checks, row.rows) == (2, 0, 3)
        assert bench.ledger.row(MONDAY) == row
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b"), (MONDAY, "late")]
        assert bench.confirm(bench.stage(MONDAY, ["a", "b", "late"], 4, answer=OTHER_ANSWER)).checks == 1

    def test_a_retry_of_a_confirming_intent_finds_the_day_done(self, confirming: Bench) -> None:
        """The driver was killed after it confirmed: the next one must neither publish the day nor count it again."""
        bench = confirming
        staged = _same(bench, 2)
        bench.confirm(staged)  # and its answer is lost
        before = bench.state()
        with bench.another_process() as other:
            found = other.ledger.published(MONDAY, intent(2).token)
            assert found is not None, "published() must know who confirmed"
            assert (found.generation, found.token, found.rows) == (1, intent(2).token, 2)
            for again in (staged, _same(bench, 2, "2")):
                row = bench.confirm(again, other)
                assert (row.generation, row.checks, row.token) == (1, 1, intent(2).token)
            row = bench.publish(bench.stage(MONDAY, ["other"], 2, "3", answer=OTHER_ANSWER), other)
            assert (row.generation, row.token) == (1, intent(2).token)
        assert bench.state() == before
        bench.publish(bench.stage(MONDAY, ["by hand"], 3))
        before = bench.state()
        row = bench.confirm(_same(bench, 2, "4"))
        assert (row.generation, row.token) == (1, intent(2).token)
        assert bench.state() == before

    def test_who_published_what_others_confirm_still_finds_it(self, confirming: Bench) -> None:
        """A late retry of the publish that does not find its own any more would publish its old answer again."""
        bench = confirming
        bench.confirm(_same(bench, 2))
        bench.confirm(_same(bench, 3))
        before = bench.state()
        for number in (1, 2):
            found = bench.ledger.published(MONDAY, intent(number).token)
            assert found is not None
            assert (found.generation, found.token) == (1, intent(number).token)
        assert bench.publish(bench.stage(MONDAY, ["other"], 1, "2")).generation == 1
        assert bench.state() == before

    def test_a_day_whose_driver_died_before_it_confirmed_is_confirmed_by_the_next(self, confirming: Bench) -> None:
        """The staged answer is still the newest: the next try confirms from it, without a poll."""
        staged = _same(confirming, 2)
        with confirming.another_process() as other:
            assert confirming.confirm(staged, other).checks == 1
        assert confirming.readable() == [(MONDAY, "a"), (MONDAY, "b")]

    def test_who_lost_to_a_confirmation_of_a_later_clear_of_its_run_is_told_not_to_poll_again(
        self, confirming: Bench
    ) -> None:
        """Somebody has cleared that run: what is left of its earlier try would ask the source for nobody."""
        bench = confirming
        zombie, stranger = _same(bench, 6), _same(bench, 1, "2", clear_number=5)
        bench.confirm(_same(bench, 6, "2", clear_number=1))
        for late, may_poll_again in ((zombie, False), (stranger, True)):
            with pytest.raises(OvertakenError) as caught:
                bench.confirm(late)
            assert caught.value.may_poll_again is may_poll_again

    @pytest.mark.parametrize("publishes", [False, True], ids=["two confirmations", "a confirmation and a publish"])
    def test_two_at_once_leave_one_and_the_other_is_told(self, confirming: Bench, publishes: bool) -> None:  # noqa: FBT001
        """If both win, one of them stands in the ledger for an answer that the other has taken away."""
        bench = confirming
        confirms = _same(bench, 6)
        other = bench.stage(MONDAY, ["new"], 7, answer=OTHER_ANSWER) if publishes else _same(bench, 7)
        ended = _at_once(bench, confirms, other, publishes=publishes)
        (row,) = [end for end in ended if isinstance(end, LedgerRow)]
        (error,) = [end for end in ended if isinstance(end, ConnectError)]
        assert isinstance(error, RetriableError), error
        won = publishes and number_of(row) == 7
        assert (row.generation, row.checks) == ((2, 0) if won else (1, 1))
        kept = bench.ledger.row(MONDAY)
        assert (kept.generation, kept.checks, kept.token) == (row.generation, row.checks, row.token)
        assert bench.readable() == ([(MONDAY, "new")] if won else [(MONDAY, "a"), (MONDAY, "b")])
        assert bench.ledger.published(MONDAY, intent(13 - number_of(row)).token) is None


def _same(
    bench: Bench, number: int, attempt: str = "1", *, clear_number: int = 0, polled_at: dt.datetime = NOON
) -> Publish:
    """Stage the answer that Monday has."""
    own: dict[str, Any] = {"clear_number": clear_number, "polled_at": polled_at, "answer": ANSWER, "counts": LATE}
    return bench.stage(MONDAY, ["a", "b"], number, attempt, **own)


def _at_once(bench: Bench, confirms: Publish, other: Publish, *, publishes: bool) -> list[LedgerRow | ConnectError]:
    """Confirm in one process while another one confirms, too, or commits what it has sent before."""
    ready = threading.Barrier(2)

    def run(staged: Publish, *, publishes: bool) -> LedgerRow | ConnectError:
        with bench.another_process() as publisher:
            token, receipts = bench.send(staged, publisher) if publishes else (None, [])
            ready.wait(WAIT_SECONDS)
            try:
                return publisher.commit(staged, token, receipts) if publishes else bench.confirm(staged, publisher)
            except ConnectError as error:
                if publishes:
                    bench.abort(staged, token, publisher)
                # As the driver does: the error may have come after the fact.
                row = publisher.ledger.published(MONDAY, staged.intent.token)
                return error if row is None else row

    with restless_threads(), ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(run, confirms, publishes=False), pool.submit(run, other, publishes=publishes)]
        return [end.result() for end in ends]
