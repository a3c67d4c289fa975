"""Conformance cases of sinks: failures halfway, and lost responses."""

from __future__ import annotations

import pytest

from airflow_provider_connect.capabilities.publisher import Sweeps
from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.testing.bench import MONDAY, Bench, as_sent, intent


class RecoveryCases:
    """Retries, lost responses, aborts and dead processes."""

    # Retries

    def test_the_same_intent_again_changes_nothing(self, bench: Bench) -> None:
        """Airflow may retry a task that has published."""
        row = bench.publish(bench.stage(MONDAY, ["a", "b"], 1))
        state_before = bench.state()
        assert bench.publish(bench.stage(MONDAY, ["other"], 1, attempt="2")) == row
        assert bench.state() == state_before

    def test_a_share_that_spark_sends_twice_counts_once(self, bench: Bench) -> None:
        """Spark repeats tasks of a lost executor, even finished ones."""
        staged = bench.stage(MONDAY, ["a", "b", "c"], 1, files=2)
        token, receipts = bench.send(staged, copies=2)
        row = bench.publisher.commit(staged, token, receipts)
        assert (row.generation, row.rows) == (1, 3)
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b"), (MONDAY, "c")]

    def test_a_commit_may_be_repeated(self, bench: Bench) -> None:
        """A driver repeats a commit after a lost response."""
        staged = bench.stage(MONDAY, ["a", "b"], 1)
        token, receipts = bench.send(staged)
        row = bench.publisher.commit(staged, token, receipts)
        state_before = bench.state()
        assert bench.publisher.commit(staged, token, receipts) == row
        assert bench.state() == state_before

    def test_a_commit_whose_answer_was_lost_is_found_by_the_next_process(self, bench: Bench) -> None:
        """The next driver must neither duplicate nor fail the day."""
        staged = bench.stage(MONDAY, ["a", "b"], 1)
        token, receipts = bench.send(staged)
        bench.publisher.commit(staged, token, receipts)  # its response is lost
        state_before = bench.state()
        with bench.another_process() as other_publisher:
            published_row = other_publisher.ledger.published(MONDAY, intent(1).token)
            assert published_row is not None, "published() must find a commit that took effect"
            assert other_publisher.commit(staged, as_sent(token), as_sent(receipts)) == published_row
        with bench.another_process() as other_publisher:
            retry = bench.stage(MONDAY, ["a", "b"], 1, attempt="2")
            assert bench.publish(retry, other_publisher) == published_row
        assert bench.state() == state_before

    def test_a_commit_whose_answer_was_lost_may_be_aborted(self, bench: Bench) -> None:
        """A driver aborts even if its commit took effect."""
        staged = bench.stage(MONDAY, ["a", "b"], 1)
        token, receipts = bench.send(staged)
        bench.publisher.commit(staged, token, receipts)  # the driver gets an error instead of the response
        state_before = bench.state()
        bench.abort(staged, token)
        assert bench.state() == state_before
        with bench.another_process() as other_publisher:
            assert bench.publish(bench.stage(MONDAY, ["other"], 1, attempt="2"), other_publisher).generation == 1
        assert bench.state() == state_before

    def test_a_retry_after_a_reload_by_hand_finds_what_it_published(self, bench: Bench) -> None:
        """A late retry must not replace the reload."""
        first_row = bench.publish(bench.stage(MONDAY, ["a", "b"], 1))
        bench.publish(bench.stage(MONDAY, ["by hand"], 2))
        state_before = bench.state()
        published_row = bench.ledger.published(MONDAY, intent(1).token)
        assert published_row is not None
        assert (published_row.generation, published_row.token) == (1, first_row.token)
        retried = bench.publish(bench.stage(MONDAY, ["other"], 1, attempt="2"))
        assert (retried.generation, retried.token) == (1, first_row.token)
        assert bench.state() == state_before

    # Failures halfway

    def test_an_abort_touches_nothing_and_the_day_can_still_be_published(self, bench: Bench) -> None:
        """The old rows stay until the new day is complete."""
        bench.publish(bench.stage(MONDAY, ["a"], 1))
        staged = bench.stage(MONDAY, ["b"], 2)
        state_before, files_before = bench.state(), bench.staged()
        token = bench.begin(staged)
        bench.abort(staged, token)
        assert bench.state() == state_before
        assert files_before.items() <= bench.staged().items()
        assert bench.publish(staged).generation == 2
        assert bench.readable() == [(MONDAY, "b")]

    def test_rows_of_an_aborted_attempt_are_never_seen(self, bench: Bench) -> None:
        """A task fails after sending half of its rows."""
        bench.publish(bench.stage(MONDAY, ["old"], 1))
        state_before = bench.state()
        half_sent = bench.stage(MONDAY, ["x1", "x2", "x3", "x4"], 2, files=2)
        token = bench.begin(half_sent)
        for share in bench.shares(half_sent)[:-1]:  # the last share may publish the day
            bench.put(token, share)
        assert bench.state() == state_before, "readers see rows before all are sent"
        bench.abort(half_sent, token)
        assert bench.state() == state_before
        row = bench.publish(bench.stage(MONDAY, ["b"], 2, attempt="2"))
        assert (row.generation, row.rows) == (2, 1)
        assert bench.readable() == [(MONDAY, "b")], "the next attempt published rows of the aborted one"

    def test_a_put_that_fails_half_way_shows_nothing(self, bench: Bench) -> None:
        """A staged file is unreadable. The old rows must stay."""
        bench.publish(bench.stage(MONDAY, ["old"], 1))
        state_before = bench.state()
        torn = bench.stage(MONDAY, ["x1", "x2", "x3", "x4"], 2, files=2)
        (bench.root / torn.manifest.polled.files[-1].path).unlink()
        with pytest.raises((ConnectError, OSError)):
            bench.publish(torn)
        assert bench.state() == state_before
        row = bench.publish(bench.stage(MONDAY, ["b"], 2, attempt="2"))
        assert (row.generation, row.rows) == (2, 1)
        assert bench.readable() == [(MONDAY, "b")]

    def test_a_new_attempt_does_not_wait_for_one_that_died(self, bench: Bench) -> None:
        """Leftovers must neither block the day nor be published."""
        dead_attempt = bench.stage(MONDAY, ["x1", "x2"], 1, files=2)
        with bench.another_process() as other_publisher:
            token = bench.begin(dead_attempt, other_publisher)
            for share in bench.shares(dead_attempt, other_publisher)[:-1]:
                bench.put(token, share)
        assert len(bench.ledger.days()) == 0
        assert bench.ledger.row(MONDAY) is None
        assert bench.readable() == []
        with bench.another_process() as other_publisher:
            row = bench.publish(bench.stage(MONDAY, ["b"], 1, attempt="2"), other_publisher)
        assert (row.generation, row.rows) == (1, 1)
        assert bench.readable() == [(MONDAY, "b")]

    def test_a_dead_attempt_can_be_published_from_its_stage(self, bench: Bench) -> None:
        """A retry publishes under the same attempt name."""
        staged = bench.stage(MONDAY, ["a", "b"], 1, files=2)
        with bench.another_process() as dead_publisher:
            token = bench.begin(staged, dead_publisher)
            for share in bench.shares(staged, dead_publisher)[:-1]:
                bench.put(token, share)
        with bench.another_process() as other_publisher:
            row = bench.publish(staged, other_publisher)
        assert (row.generation, row.rows) == (1, 2)
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b")]

    def test_an_abort_after_the_commit_takes_nothing_back(self, bench: Bench) -> None:
        """A driver presumed dead aborts late."""
        staged = bench.stage(MONDAY, ["a"], 1)
        token = bench.begin(staged)
        bench.publish(staged)
        state_before = bench.state()
        bench.abort(staged, token)
        assert bench.state() == state_before

    def test_a_sweep_spares_what_is_published_and_what_is_alive(self, bench: Bench) -> None:
        """A sweep must not delete rows published now or soon."""
        bench.publish(bench.stage(MONDAY, ["a"], 1))
        live_attempt = bench.stage(MONDAY, ["b"], 2)
        state_before, files_before = bench.state(), bench.staged()
        assert bench.sweep() == 0
        assert bench.state() == state_before
        assert bench.staged() == files_before
        assert bench.publish(live_attempt).rows == 1

    def test_a_sweep_spares_what_is_under_way(self, bench: Bench) -> None:
        """The sweep after one day must spare a concurrent day's rows."""
        staged = bench.stage(MONDAY, ["a", "b"], 1)
        token, receipts = bench.send(staged)
        bench.sweep()
        assert bench.publisher.commit(staged, token, receipts).rows == 2
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b")]

    def test_a_sweep_deletes_what_it_lists(self, bench: Bench) -> None:
        """A person reviews the list before the sweep."""
        if not isinstance(bench.publisher, Sweeps):
            pytest.skip("has no sweep(): the sink leaves nothing to sweep")
        bench.send(bench.stage(MONDAY, ["a", "b"], 1))
        bench.target.age()
        with bench.another_process() as other_publisher:
            assert isinstance(other_publisher, Sweeps)
            state_before, leftovers, leftovers_again = (
                bench.state(),
                other_publisher.leftovers(),
                other_publisher.leftovers(),
            )
            assert leftovers == leftovers_again
            assert bench.state() == state_before
            assert (other_publisher.sweep() > 0) == bool(leftovers)
            assert other_publisher.leftovers() == []

    def test_only_rows_of_the_attempt_that_commits_are_seen(self, bench: Bench) -> None:
        """Two attempts of one intent have sent the same rows."""
        first_attempt = bench.stage(MONDAY, ["a", "b"], 1)
        bench.send(first_attempt)
        second_attempt = bench.stage(MONDAY, ["a", "b"], 1, attempt="2")
        token, receipts = bench.send(second_attempt)
        assert bench.publisher.commit(second_attempt, token, receipts).rows == 2
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b")]
