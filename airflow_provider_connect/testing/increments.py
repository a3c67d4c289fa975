"""Conformance cases of sinks with increments."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from airflow_provider_connect.errors import ConfigError, ConnectError, OvertakenError
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.testing.bench import (
    MONDAY,
    TUESDAY,
    WEDNESDAY,
    Bench,
    Row,
    intent,
    number_of,
    outcome,
)
from airflow_provider_connect.testing.races import all_at_once
from airflow_provider_connect.window import ONE_DAY


class IncrementCases:
    """Cases of increments of one run a day. Skipped without ``keeps_spans``."""

    @pytest.fixture
    def following(self, bench: Bench) -> Bench:
        """Return a bench with Tuesday's increment as the stream's first."""
        if not bench.target.sink.keeps_spans:
            pytest.skip("the sink does not keep spans")
        assert bench.ledger.newest(TUESDAY, "increment") is None
        row = bench.publish(increment(bench, TUESDAY, ["a"], 1, to='{"id": 7}'))
        assert _ends(row) == (1, None, '{"id": 7}')
        return bench

    def test_an_increment_follows_the_stream_s_newest_of_whatever_day(self, following: Bench) -> None:
        """Some rows would be read twice or never."""
        for number, day in enumerate((MONDAY, WEDNESDAY), 2):
            row = following.publish(increment(following, day, [str(number)], number, to=str(number)))
            assert (row.generation, row.span and row.span.number) == (1, number)
            with following.another_process() as other_publisher:
                newest_rows = (
                    other_publisher.ledger.newest(WEDNESDAY + ONE_DAY, "increment"),
                    other_publisher.ledger.row(day),
                )
            assert [_ends(newest_row) for newest_row in newest_rows] == [_ends(row), _ends(row)]
        assert [_ends(following.ledger.row(day)) for day in (TUESDAY, MONDAY, WEDNESDAY)] == [
            (1, None, '{"id": 7}'),
            (2, '{"id": 7}', "2"),
            (3, "2", "3"),
        ]
        assert following.readable() == [(MONDAY, "2"), (TUESDAY, "a"), (WEDNESDAY, "3")]

    def test_a_day_that_is_loaded_again_keeps_its_own_span(self, following: Bench) -> None:
        """A cleared task reads the same span again."""
        following.publish(increment(following, WEDNESDAY, ["b"], 2, to="9"))
        row = following.publish(increment(following, TUESDAY, ["changed"], 1, clear_number=1, to='{"id": 7}'))
        assert (row.generation, _ends(row)) == (2, (1, None, '{"id": 7}'))
        newest = following.ledger.newest(MONDAY, "increment")
        assert (newest.day, newest.generation, _ends(newest)) == (WEDNESDAY, 1, (2, '{"id": 7}', "9"))
        assert following.readable() == [(TUESDAY, "changed"), (WEDNESDAY, "b")]

    def test_an_increment_that_follows_another_than_the_newest_is_refused(self, following: Bench) -> None:
        """Two increments from the same position would show their rows twice."""
        stale = increment(following, WEDNESDAY, ["twice"], 2, to="8")
        following.publish(increment(following, MONDAY, ["b"], 3, to="9"))
        state_before = following.state()
        with pytest.raises(OvertakenError, match=f"run-3/task has published generation 1 of {MONDAY}"):
            following.publish(stale)
        assert following.state() == state_before

    def test_two_increments_at_once_leave_one_and_the_other_is_refused(self, following: Bench) -> None:
        """Both begin at the same position, on different days."""
        staged = [
            increment(following, day, [f"{number}-{i}" for i in range(3)], number, to=str(number))
            for number, day in ((2, MONDAY), (3, WEDNESDAY))
        ]
        results = all_at_once(following, staged)
        (row,) = [result for result in results if isinstance(result, LedgerRow)]
        assert len([result for result in results if isinstance(result, OvertakenError)]) == 1, results
        assert row.span is not None
        number = row.span.to
        assert following.readable() == sorted([(TUESDAY, "a"), *((row.day, f"{number}-{i}") for i in range(3))])
        assert _ends(following.ledger.newest(WEDNESDAY + ONE_DAY, "increment")) == _ends(row)

    def test_an_increment_without_rows_moves_the_chain_on(self, following: Bench) -> None:
        """The next increment begins at the same position."""
        row = following.publish(increment(following, WEDNESDAY, [], 2, to='{"id": 7}'))
        assert (row.rows, _ends(row)) == (0, (2, '{"id": 7}', '{"id": 7}'))
        assert list(following.ledger.days()) == [TUESDAY, WEDNESDAY]

    def test_a_retry_of_a_published_increment_changes_nothing(self, following: Bench) -> None:
        """A later increment may have followed the lost response."""
        staged = increment(following, WEDNESDAY, ["b"], 2, to="9")
        following.publish(staged)
        for after_later_publish in (False, True):
            if after_later_publish:
                following.publish(increment(following, MONDAY, ["c"], 3, to="10"))
            state_before = following.state()
            with following.another_process() as other_publisher:
                retried = following.publish(staged, other_publisher)
            assert (retried.day, retried.generation, retried.attempt) == (WEDNESDAY, 1, staged.manifest.attempt)
            assert following.state() == state_before


class SpanCases:
    """Cases of several runs of increments on one day. Skipped if the sink keeps one increment a day."""

    @pytest.fixture
    def twice(self, bench: Bench) -> Bench:
        """Return a bench with two runs' increments of Tuesday."""
        if not bench.target.sink.keeps_spans:
            pytest.skip("the sink does not keep spans")
        bench.publish(increment(bench, TUESDAY, ["a", "b"], 1, to="2"))
        state_before = bench.state()
        second = outcome(lambda: increment(bench, TUESDAY, ["c"], 2, to="3"))
        if isinstance(second, ConfigError) and "keeps one increment a day" in str(second):
            assert bench.state() == state_before
            pytest.skip("the sink keeps one increment a day")
        assert isinstance(second, Publish)
        row = bench.publish(second)
        assert (row.generation, row.rows, _ends(row)) == (1, 1, (2, "2", "3"))
        return bench

    def test_a_second_run_of_a_day_makes_the_next_span(self, twice: Bench) -> None:
        """The new rows would wait for another day."""
        assert twice.readable() == _of_tuesday("a", "b", "c")
        with twice.another_process() as other_publisher:
            ledger = other_publisher.ledger
            (between_row,) = ledger.between(MONDAY, WEDNESDAY)
            newest = ledger.newest(TUESDAY, "increment")
            for row in (ledger.row(TUESDAY), between_row):
                assert _figures(row) == (1, 3, (2, "2", "3"))
            assert _figures(newest) == (1, 1, (2, "2", "3"))
            assert list(ledger.days()) == [TUESDAY]

    def test_each_run_finds_its_own_span(self, twice: Bench) -> None:
        """A run without a span gets the newest."""
        runs = {number: intent(number).run for number in (1, 2, 3)}
        with twice.another_process() as other_publisher:
            rows = {number: other_publisher.ledger.newest_increment(TUESDAY, run) for number, run in runs.items()}
            of_another_day = other_publisher.ledger.newest_increment(WEDNESDAY, runs[1])
        assert {number: (_ends(row), _belongs_to(row, runs[number])) for number, row in rows.items()} == {
            1: ((1, None, "2"), True),
            2: ((2, "2", "3"), True),
            3: ((2, "2", "3"), False),
        }
        assert (_ends(of_another_day), _belongs_to(of_another_day, runs[1])) == ((2, "2", "3"), False)

    def test_a_late_clear_of_the_first_run_keeps_the_second_s_rows(self, twice: Bench) -> None:
        """A publish that replaced its day would lose them."""
        row = twice.publish(increment(twice, TUESDAY, ["a2"], 1, clear_number=1, to="2"))
        assert (row.generation, row.rows, _ends(row)) == (2, 1, (1, None, "2"))
        assert twice.readable() == _of_tuesday("a2", "c")
        newest = twice.ledger.newest(TUESDAY, "increment")
        assert (newest.generation, _ends(newest)) == (1, (2, "2", "3"))
        assert (twice.ledger.row(TUESDAY).rows, twice.ledger.row(TUESDAY).generation) == (2, 2)
        twice.publish(increment(twice, TUESDAY, ["d"], 3, to="4"))
        assert twice.readable() == _of_tuesday("a2", "c", "d")

    def test_a_clear_of_the_second_run_replaces_its_rows_alone(self, twice: Bench) -> None:
        """Also if it finds none, or the same again."""
        for clear_number, rows in ((1, ["c2", "c3"]), (2, []), (3, ["c"])):
            clear = increment(twice, TUESDAY, rows, 2, clear_number=clear_number, to="3")
            row = twice.publish(dataclasses.replace(clear, on_empty="accept"))
            assert (row.generation, row.rows, _ends(row)) == (1 + clear_number, len(rows), (2, "2", "3"))
            assert twice.readable() == _of_tuesday("a", "b", *rows)

    def test_two_runs_of_a_day_at_once_leave_one_and_the_other_is_refused(self, twice: Bench) -> None:
        """Both begin at the same position."""
        staged = [increment(twice, TUESDAY, [f"{number}-0"], number, to=str(number)) for number in (5, 6)]
        results = all_at_once(twice, staged)
        (row,) = [result for result in results if isinstance(result, LedgerRow)]
        assert len([result for result in results if isinstance(result, ConnectError)]) == 1, results
        winner = number_of(row)
        assert (row.generation, _ends(row)) == (1, (3, "3", str(winner)))
        assert twice.readable() == _of_tuesday("a", "b", "c", f"{winner}-0")
        twice.publish(increment(twice, TUESDAY, ["later"], 11 - winner, to="9"))
        assert _ends(twice.ledger.newest(TUESDAY, "increment")) == (4, str(winner), "9")

    def test_a_run_that_read_before_another_of_its_day_is_refused(self, twice: Bench) -> None:
        """Its rows are the other's, too."""
        stale = increment(twice, TUESDAY, ["twice"], 5, to="8")
        twice.publish(increment(twice, TUESDAY, ["d"], 6, to="9"))
        state_before = twice.state()
        with pytest.raises(OvertakenError, match="run-6/task has published generation 1"):
            twice.publish(stale)
        assert twice.state() == state_before

    def test_of_two_clears_of_a_run_the_one_that_read_first_is_refused(self, twice: Bench) -> None:
        """As for a day: the newest answer wins."""
        stale = increment(twice, TUESDAY, ["old"], 1, clear_number=1, to="2")
        twice.publish(increment(twice, TUESDAY, ["new"], 1, clear_number=2, to="2"))
        state_before = twice.state()
        with pytest.raises(OvertakenError):
            twice.publish(stale)
        assert twice.state() == state_before
        assert twice.readable() == _of_tuesday("c", "new")

    def test_a_clear_beside_a_new_run_of_its_day_keeps_both(self, twice: Bench) -> None:
        """They publish different spans."""
        clear = increment(twice, TUESDAY, ["a2"], 1, clear_number=1, to="2")
        twice.publish(increment(twice, TUESDAY, ["d"], 5, to="4"))
        assert twice.publish(clear).generation == 2
        assert twice.readable() == _of_tuesday("a2", "c", "d")

    def test_a_retry_of_a_run_changes_nothing_after_later_runs_of_its_day(self, twice: Bench) -> None:
        """The commit's response was lost, and later runs followed."""
        staged = increment(twice, TUESDAY, ["d"], 5, to="4")
        twice.publish(staged)
        twice.publish(increment(twice, TUESDAY, ["e"], 6, to="5"))
        state_before = twice.state()
        with twice.another_process() as other_publisher:
            published_row = other_publisher.ledger.published(TUESDAY, staged.intent.token)
            retried = twice.publish(staged, other_publisher)
        for row in (published_row, retried):
            assert _figures(row) == (1, 1, (3, "3", "4"))
        assert twice.state() == state_before


def increment(bench: Bench, day: dt.date, rows: list[str], number: int, *, to: str, clear_number: int = 0) -> Publish:
    """Stage an increment of run ``number`` that ends at the position ``to``."""
    attempt = f"{clear_number + 1}"
    return bench.stage(day, rows, number, attempt, clear_number=clear_number, kind="increment", to=to)


def _ends(row: LedgerRow | None) -> tuple[int, str | None, str]:
    assert row is not None
    assert row.span is not None
    return row.span.number, row.span.after, row.span.to


def _figures(row: LedgerRow | None) -> tuple[int, int, tuple[int, str | None, str]]:
    assert row is not None
    return row.generation, row.rows, _ends(row)


def _belongs_to(row: LedgerRow | None, run: str) -> bool:
    return row is not None and row.span is not None and row.span.belongs_to(run)


def _of_tuesday(*rows: str) -> list[Row]:
    return sorted((TUESDAY, row) for row in rows)
