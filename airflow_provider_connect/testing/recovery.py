"""What a sink must do when something fails half way, or when an answer is lost."""

from __future__ import annotations

import pytest

from airflow_provider_connect.capabilities.publisher import Sweeps
from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.testing.bench import MONDAY, Bench, as_sent, intent


class RecoveryCases:
    """Retries, lost answers, aborts, dead processes; each case needs the fixture ``bench``."""

    # Once more

    def test_the_same_intent_again_changes_nothing(self, bench: Bench) -> None:
        """Airflow may try a task again that has published: its rows must not stand there twice, nor change."""
        row = bench.publish(bench.stage(MONDAY, ["a", "b"], 1))
        before = bench.state()
        assert bench.publish(bench.stage(MONDAY, ["other"], 1, attempt="2")) == row
        assert bench.state() == before

    def test_a_share_that_spark_sends_twice_counts_once(self, bench: Bench) -> None:
        """Spark runs a task again whose executor is lost, though all its rows may have been sent."""
        staged = bench.stage(MONDAY, ["a", "b", "c"], 1, files=2)
        token, receipts = bench.send(staged, copies=2)
        row = bench.publisher.commit(staged, token, receipts)
        assert (row.generation, row.rows) == (1, 3)
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b"), (MONDAY, "c")]

    def test_a_commit_may_be_repeated(self, bench: Bench) -> None:
        """Once it took effect, the same commit again is answered with the same row, and shows no row twice."""
        staged = bench.stage(MONDAY, ["a", "b"], 1)
        token, receipts = bench.send(staged)
        row = bench.publisher.commit(staged, token, receipts)
        before = bench.state()
        assert bench.publisher.commit(staged, token, receipts) == row
        assert bench.state() == before

    def test_a_commit_whose_answer_was_lost_is_found_by_the_next_process(self, bench: Bench) -> None:
        """The driver dies after the commit took effect: the next one must neither double the day nor fail it."""
        staged = bench.stage(MONDAY, ["a", "b"], 1)
        token, receipts = bench.send(staged)
        bench.publisher.commit(staged, token, receipts)  # and its answer is lost
        before = bench.state()
        with bench.another_process() as other:
            found = other.ledger.published(MONDAY, intent(1).token)
            assert found is not None, "published() must know what took effect"
            assert other.commit(staged, as_sent(token), as_sent(receipts)) == found
        with bench.another_process() as other:
            retry = bench.stage(MONDAY, ["a", "b"], 1, attempt="2")
            assert bench.publish(retry, other) == found
        assert bench.state() == before

    def test_a_commit_whose_answer_was_lost_may_be_aborted(self, bench: Bench) -> None:
        """After an error of unknown outcome the driver aborts: what took effect stays, and a retry finds it."""
        staged = bench.stage(MONDAY, ["a", "b"], 1)
        token, receipts = bench.send(staged)
        bench.publisher.commit(staged, token, receipts)  # and an error reaches the driver instead of the answer
        before = bench.state()
        bench.abort(staged, token)
        assert bench.state() == before
        with bench.another_process() as other:
            assert bench.publish(bench.stage(MONDAY, ["other"], 1, attempt="2"), other).generation == 1
        assert bench.state() == before

    def test_a_retry_after_a_reload_by_hand_finds_what_it_published(self, bench: Bench) -> None:
        """A late retry that does not know its own publish any more would put its old answer over the reload's."""
        mine = bench.publish(bench.stage(MONDAY, ["a", "b"], 1))
        bench.publish(bench.stage(MONDAY, ["by hand"], 2))
        before = bench.state()
        found = bench.ledger.published(MONDAY, intent(1).token)
        assert found is not None
        assert (found.generation, found.token) == (1, mine.token)
        again = bench.publish(bench.stage(MONDAY, ["other"], 1, attempt="2"))
        assert (again.generation, again.token) == (1, mine.token)
        assert bench.state() == before

    # Half way

    def test_an_abort_touches_nothing_and_the_day_can_still_be_published(self, bench: Bench) -> None:
        """The old day stays until a new one is whole; the stage stays, as a retry publishes from it."""
        bench.publish(bench.stage(MONDAY, ["a"], 1))
        staged = bench.stage(MONDAY, ["b"], 2)
        before, files = bench.state(), bench.staged()
        token = bench.begin(staged)
        bench.abort(staged, token)
        assert bench.state() == before
        assert files.items() <= bench.staged().items()
        assert bench.publish(staged).generation == 2
        assert bench.readable() == [(MONDAY, "b")]

    def test_rows_of_an_aborted_attempt_are_never_seen(self, bench: Bench) -> None:
        """A task fails after half of its rows were sent: shown to readers, they are a day cut short."""
        bench.publish(bench.stage(MONDAY, ["old"], 1))
        before = bench.state()
        half = bench.stage(MONDAY, ["x1", "x2", "x3", "x4"], 2, files=2)
        token = bench.begin(half)
        for share in bench.shares(half)[:-1]:  # with the last one a sink may publish
            bench.put(token, share)
        assert bench.state() == before, "rows are seen before all are sent"
        bench.abort(half, token)
        assert bench.state() == before
        row = bench.publish(bench.stage(MONDAY, ["b"], 2, attempt="2"))
        assert (row.generation, row.rows) == (2, 1)
        assert bench.readable() == [(MONDAY, "b")], "rows of the aborted attempt came in with the next one"

    def test_a_put_that_fails_half_way_shows_nothing(self, bench: Bench) -> None:
        """A staged file cannot be read, after others were sent: the old day stays, and the next attempt is whole."""
        bench.publish(bench.stage(MONDAY, ["old"], 1))
        before = bench.state()
        torn = bench.stage(MONDAY, ["x1", "x2", "x3", "x4"], 2, files=2)
        (bench.root / torn.manifest.polled.files[-1].path).unlink()
        with pytest.raises((ConnectError, OSError)):
            bench.publish(torn)
        assert bench.state() == before
        row = bench.publish(bench.stage(MONDAY, ["b"], 2, attempt="2"))
        assert (row.generation, row.rows) == (2, 1)
        assert bench.readable() == [(MONDAY, "b")]

    def test_a_new_attempt_does_not_wait_for_one_that_died(self, bench: Bench) -> None:
        """A killed driver aborts nothing: what it left may neither block the day nor be published with it."""
        dead = bench.stage(MONDAY, ["x1", "x2"], 1, files=2)
        with bench.another_process() as other:
            token = bench.begin(dead, other)
            for share in bench.shares(dead, other)[:-1]:
                bench.put(token, share)
        assert len(bench.ledger.days()) == 0
        assert bench.ledger.row(MONDAY) is None
        assert bench.readable() == []
        with bench.another_process() as other:
            row = bench.publish(bench.stage(MONDAY, ["b"], 1, attempt="2"), other)
        assert (row.generation, row.rows) == (1, 1)
        assert bench.readable() == [(MONDAY, "b")]

    def test_a_dead_attempt_can_be_published_from_its_stage(self, bench: Bench) -> None:
        """A retry publishes what the dead driver had frozen, under the same attempt's name, sent half or not."""
        frozen = bench.stage(MONDAY, ["a", "b"], 1, files=2)
        with bench.another_process() as dead:
            token = bench.begin(frozen, dead)
            for share in bench.shares(frozen, dead)[:-1]:
                bench.put(token, share)
        with bench.another_process() as other:
            row = bench.publish(frozen, other)
        assert (row.generation, row.rows) == (1, 2)
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b")]

    def test_an_abort_after_the_commit_takes_nothing_back(self, bench: Bench) -> None:
        """A driver that was taken for dead aborts late: what another one has published of its attempt stays."""
        staged = bench.stage(MONDAY, ["a"], 1)
        token = bench.begin(staged)
        bench.publish(staged)
        before = bench.state()
        bench.abort(staged, token)
        assert bench.state() == before

    def test_a_sweep_spares_what_is_published_and_what_is_alive(self, bench: Bench) -> None:
        """A sweep that guesses deletes the rows that somebody is about to publish, or has."""
        bench.publish(bench.stage(MONDAY, ["a"], 1))
        alive = bench.stage(MONDAY, ["b"], 2)
        before, files = bench.state(), bench.staged()
        assert bench.sweep() == 0
        assert bench.state() == before
        assert bench.staged() == files
        assert bench.publish(alive).rows == 1

    def test_a_sweep_spares_what_is_under_way(self, bench: Bench) -> None:
        """Two days run at once: the end of one must not take the staging place of the other."""
        staged = bench.stage(MONDAY, ["a", "b"], 1)
        token, receipts = bench.send(staged)
        bench.sweep()
        assert bench.publisher.commit(staged, token, receipts).rows == 2
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b")]

    def test_a_sweep_deletes_what_it_lists(self, bench: Bench) -> None:
        """A person looks at the list before the sweep: what it hides is deleted unseen."""
        if not isinstance(bench.publisher, Sweeps):
            pytest.skip("has no sweep(): nothing is left behind")
        bench.send(bench.stage(MONDAY, ["a", "b"], 1))
        bench.target.age()
        with bench.another_process() as other:
            assert isinstance(other, Sweeps)
            before, listed, again = bench.state(), other.leftovers(), other.leftovers()
            assert listed == again
            assert bench.state() == before
            assert (other.sweep() > 0) == bool(listed)
            assert other.leftovers() == []

    def test_only_rows_of_the_attempt_that_commits_are_seen(self, bench: Bench) -> None:
        """Two attempts of one intent sent the same rows: the one that commits shows its own, once."""
        first = bench.stage(MONDAY, ["a", "b"], 1)
        bench.send(first)
        second = bench.stage(MONDAY, ["a", "b"], 1, attempt="2")
        token, receipts = bench.send(second)
        assert bench.publisher.commit(second, token, receipts).rows == 2
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b")]
