"""What a sink must do whose ledger keeps where increments ended: each begins where the one before it ended."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_provider_connect.errors import OvertakenError
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.stage.spans import Span
from airflow_provider_connect.testing.bench import MONDAY, Bench
from airflow_provider_connect.testing.races import all_at_once
from airflow_provider_connect.window import ONE_DAY

TUESDAY, WEDNESDAY = MONDAY + ONE_DAY, MONDAY + 2 * ONE_DAY


class IncrementCases:
    """Increments; each case needs the fixture ``bench``. A sink without ``keeps_spans`` skips them."""

    @pytest.fixture
    def following(self, bench: Bench) -> Bench:
        """Return the bench of a sink that keeps spans, with Tuesday's increment: runs need not come in order."""
        if not bench.target.sink.keeps_spans:
            pytest.skip("does not keep where increments end")
        assert bench.ledger.newest(TUESDAY, "increment") is None
        row = bench.publish(_increment(bench, TUESDAY, ["a"], 1, to='{"id": 7}'))
        assert row.span == Span(number=1, after=None, to='{"id": 7}')
        return bench

    def test_an_increment_follows_the_stream_s_newest_of_whatever_day(self, following: Bench) -> None:
        """If it followed a day, or the latest day, what lies between would be read twice, or never."""
        for number, day in enumerate((MONDAY, WEDNESDAY), 2):
            row = following.publish(_increment(following, day, [str(number)], number, to=str(number)))
            assert (row.generation, row.span and row.span.number) == (1, number)
            with following.another_process() as other:
                found = other.ledger.newest(WEDNESDAY + ONE_DAY, "increment"), other.ledger.row(day)
            assert [each and each.span for each in found] == [row.span, row.span]
        assert [following.ledger.row(day).span for day in (TUESDAY, MONDAY, WEDNESDAY)] == [
            Span(number=1, to='{"id": 7}'),
            Span(number=2, after='{"id": 7}', to="2"),
            Span(number=3, after="2", to="3"),
        ]
        assert following.readable() == [(MONDAY, "2"), (TUESDAY, "a"), (WEDNESDAY, "3")]

    def test_a_day_that_is_loaded_again_keeps_its_own_span(self, following: Bench) -> None:
        """A clear reads what it has read before; the chain goes on from its end as if nothing had been."""
        following.publish(_increment(following, WEDNESDAY, ["b"], 2, to="9"))
        row = following.publish(_increment(following, TUESDAY, ["changed"], 3, to='{"id": 7}'))
        assert (row.generation, row.span) == (2, Span(number=1, to='{"id": 7}'))
        newest = following.ledger.newest(MONDAY, "increment")
        assert (newest.day, newest.generation, newest.span) == (WEDNESDAY, 1, Span(number=2, after='{"id": 7}', to="9"))
        assert following.readable() == [(TUESDAY, "changed"), (WEDNESDAY, "b")]

    def test_an_increment_that_follows_another_than_the_newest_is_refused(self, following: Bench) -> None:
        """Its rows begin where somebody else's do: they would be there twice."""
        stale = _increment(following, WEDNESDAY, ["twice"], 2, to="8")
        following.publish(_increment(following, MONDAY, ["b"], 3, to="9"))
        before = following.state()
        with pytest.raises(OvertakenError, match=f"run-3/task has published generation 1 of {MONDAY}"):
            following.publish(stale)
        assert following.state() == before

    def test_two_increments_at_once_leave_one_and_the_other_is_told(self, following: Bench) -> None:
        """Both read from the same position: the sink itself must see that, as they are of different days."""
        staged = [
            _increment(following, day, [f"{number}-{i}" for i in range(3)], number, to=str(number))
            for number, day in ((2, MONDAY), (3, WEDNESDAY))
        ]
        ended = all_at_once(following, staged)
        (row,) = [end for end in ended if isinstance(end, LedgerRow)]
        assert len([end for end in ended if isinstance(end, OvertakenError)]) == 1, ended
        assert row.span is not None
        number = row.span.to
        assert following.readable() == sorted([(TUESDAY, "a"), *((row.day, f"{number}-{i}") for i in range(3))])
        assert following.ledger.newest(WEDNESDAY + ONE_DAY, "increment").span == row.span

    def test_an_increment_without_rows_moves_the_chain_on(self, following: Bench) -> None:
        """Nothing came: the day is done, and the next one begins where this one did."""
        row = following.publish(_increment(following, WEDNESDAY, [], 2, to='{"id": 7}'))
        assert (row.rows, row.span) == (0, Span(number=2, after='{"id": 7}', to='{"id": 7}'))
        assert list(following.ledger.days()) == [TUESDAY, WEDNESDAY]

    def test_a_retry_of_a_published_increment_changes_nothing(self, following: Bench) -> None:
        """The commit's answer was lost, and a later one may have followed."""
        staged = _increment(following, WEDNESDAY, ["b"], 2, to="9")
        following.publish(staged)
        for later in (False, True):
            if later:
                following.publish(_increment(following, MONDAY, ["c"], 3, to="10"))
            before = following.state()
            with following.another_process() as other:
                again = following.publish(staged, other)
            assert (again.day, again.generation, again.attempt) == (WEDNESDAY, 1, staged.manifest.attempt)
            assert following.state() == before


def _increment(bench: Bench, day: dt.date, rows: list[str], number: int, *, to: str) -> Publish:
    return bench.stage(day, rows, number, kind="increment", to=to)
