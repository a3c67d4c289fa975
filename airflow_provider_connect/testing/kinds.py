"""What a sink must do with snapshots and increments.

Of snapshots it shows the newest alone: all rows there are, in the place of all that were. Of increments its ledger
keeps where they ended: each begins where the one before it ended.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator

import pytest

from airflow_provider_connect.errors import ConnectError, OvertakenError, RetriableError, SupersededError
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.stage.spans import Span
from airflow_provider_connect.testing.bench import DAYS, MONDAY, SCHEMA, TUESDAY, WEDNESDAY, Bench, number_of
from airflow_provider_connect.testing.races import all_at_once
from airflow_provider_connect.window import ONE_DAY


class SnapshotCases:
    """Snapshots, by a sink that takes them; each case needs the fixture ``bench``.

    A sink that refuses them, or keeps the snapshot of each day beside the others, skips what is not about it.
    """

    @pytest.fixture
    def taking(self, bench: Bench) -> Bench:
        """Return the bench of a sink that takes snapshots."""
        if problems := bench.publisher.preflight(SCHEMA, DAYS, "snapshot"):
            pytest.skip(f"takes no snapshots: {problems[0]}")
        return bench

    @pytest.fixture
    def showing(self, taking: Bench) -> Iterator[Bench]:
        """Return the bench of a sink that shows the newest snapshot alone, which is Monday's."""
        taking.publish(_snapshot(taking, ["vanishes", "stays"], 1, MONDAY))
        if taking.ledger.newest(TUESDAY, "snapshot") is None:
            pytest.skip("keeps the snapshot of each day beside the others")
        yield taking
        # Whatever came before, the next one is shown whole.
        row = taking.publish(_snapshot(taking, ["last"], 99, WEDNESDAY + ONE_DAY))
        assert (row.rows, taking.readable()) == (1, [(row.day, "last")])

    def test_it_says_whether_a_snapshot_takes_the_place_of_the_whole(self, taking: Bench) -> None:
        """Offset and page would wait for ever for days that every publish is refused for."""
        taking.publish(_snapshot(taking, ["m"], 1, MONDAY))
        follows_another_day = taking.ledger.newest(TUESDAY, "snapshot") is not None
        assert taking.target.sink.replaces_whole("snapshot") == follows_another_day
        assert not taking.target.sink.replaces_whole("day")

    def test_an_older_snapshot_does_not_replace_a_newer_one(self, taking: Bench) -> None:
        """A late run of yesterday's snapshot would take today's rows away from everybody."""
        bench = taking
        late = _snapshot(bench, ["m"], 1, MONDAY)
        bench.publish(_snapshot(bench, ["t"], 1, TUESDAY))
        newest = bench.ledger.newest(MONDAY, "snapshot")
        if newest is None:  # this sink keeps the snapshot of each day beside the others
            assert bench.publish(late).generation == 1
            assert bench.readable() == [(MONDAY, "m"), (TUESDAY, "t")]
            return
        assert newest.day == TUESDAY
        before = bench.state()
        for staged in (late, _snapshot(bench, ["m"], 2, MONDAY)):
            with pytest.raises(SupersededError):
                bench.publish(staged)
        assert bench.state() == before
        bench.publish(_snapshot(bench, ["again"], 3, TUESDAY))
        assert bench.readable() == [(TUESDAY, "again")]

    def test_a_snapshot_takes_the_place_of_the_whole(self, showing: Bench) -> None:
        """A row that the source no longer has would stay for ever, and one that it still has would be there twice."""
        row = showing.publish(_snapshot(showing, ["new", "stays"], 1, TUESDAY, files=2))
        assert (row.day, row.generation, row.rows) == (TUESDAY, 1, 2)
        assert showing.readable() == [(TUESDAY, "new"), (TUESDAY, "stays")]
        newest = showing.ledger.newest(MONDAY, "snapshot")
        assert (newest.day, newest.generation, newest.rows) == (TUESDAY, 1, 2)
        assert list(showing.ledger.days()) == [MONDAY, TUESDAY], "a day is done even if its snapshot was replaced"

    def test_the_newest_snapshot_can_be_loaded_again(self, showing: Bench) -> None:
        """A reload is the day's next generation, and what it lacks is gone."""
        row = showing.publish(_snapshot(showing, ["stays"], 2, MONDAY))
        assert (row.day, row.generation) == (MONDAY, 2)
        assert showing.readable() == [(MONDAY, "stays")]

    def test_a_snapshot_polled_before_another_was_published_is_refused(self, showing: Bench) -> None:
        """Its answer may be the older one, though its day is the later: nobody would see what it lacks."""
        stale = _snapshot(showing, ["stale"], 2, TUESDAY)
        showing.publish(_snapshot(showing, ["fresh"], 3, MONDAY))
        before = showing.state()
        with pytest.raises(OvertakenError, match=r"run-3/task has published generation 2"):
            showing.publish(stale)
        assert showing.state() == before

    def test_a_retry_of_a_published_snapshot_changes_nothing(self, showing: Bench) -> None:
        """The commit's answer was lost; a later snapshot may be there by now, and must not be taken back."""
        staged = _snapshot(showing, ["stays"], 2, TUESDAY)
        row = showing.publish(staged)
        for later in (False, True):
            if later:
                showing.publish(_snapshot(showing, ["later"], 3, WEDNESDAY))
            before = showing.state()
            with showing.another_process() as other:
                again = showing.publish(staged, other)
            assert (again.day, again.generation, again.attempt) == (row.day, row.generation, row.attempt)
            assert showing.state() == before

    def test_a_snapshot_whose_driver_died_is_published_from_its_stage(self, showing: Bench) -> None:
        """Killed before its commit it has changed nothing; the next try polls nothing, and shows it once."""
        staged = _snapshot(showing, ["new", "stays"], 2, TUESDAY, files=2)
        before = showing.readable()
        showing.send(staged)
        assert showing.readable() == before
        with showing.another_process() as other:
            assert showing.publish(staged, other).rows == 2
        assert showing.readable() == [(TUESDAY, "new"), (TUESDAY, "stays")]

    @pytest.mark.parametrize("days", [(TUESDAY, TUESDAY), (TUESDAY, WEDNESDAY)], ids=["one day", "two days"])
    def test_two_snapshots_at_once_leave_one_whole_and_the_other_is_told(
        self, showing: Bench, days: tuple[dt.date, dt.date]
    ) -> None:
        """If both win, readers see rows of both, or an older answer over a newer one."""
        staged = [
            _snapshot(showing, [f"{number}-{i}" for i in range(20)], number, day)
            for number, day in zip((6, 7), days, strict=True)
        ]
        ended = all_at_once(showing, staged)
        (row,) = [end for end in ended if isinstance(end, LedgerRow)]
        (error,) = [end for end in ended if isinstance(end, ConnectError)]
        assert isinstance(error, RetriableError | SupersededError), error
        assert showing.readable() == sorted((row.day, f"{number_of(row)}-{i}") for i in range(20))
        newest = showing.ledger.newest(MONDAY, "snapshot")
        assert (newest.day, newest.generation) == (row.day, 1)

    def test_a_snapshot_without_rows_leaves_none_if_that_is_accepted(self, showing: Bench) -> None:
        """The source has nothing any more, and somebody has said so: what stays would be rows that are gone."""
        empty = dataclasses.replace(_snapshot(showing, [], 2, TUESDAY), on_empty="accept")
        row = showing.publish(empty)
        assert (row.generation, row.rows, showing.readable()) == (1, 0, [])
        assert showing.ledger.newest(MONDAY, "snapshot").rows == 0


def _snapshot(bench: Bench, rows: list[str], number: int, day: dt.date, files: int = 1) -> Publish:
    return bench.stage(day, rows, number, kind="snapshot", files=files)


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
