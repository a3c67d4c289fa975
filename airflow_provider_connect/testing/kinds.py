"""Conformance cases of sinks with snapshots."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator

import pytest

from airflow_provider_connect.errors import ConnectError, OvertakenError, RetriableError, SupersededError
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.testing.bench import DAYS, MONDAY, SCHEMA, TUESDAY, WEDNESDAY, Bench, number_of
from airflow_provider_connect.testing.races import all_at_once
from airflow_provider_connect.window import ONE_DAY


class SnapshotCases:
    """Cases of snapshots. Skipped if the sink refuses them, or keeps one for each day."""

    @pytest.fixture
    def taking(self, bench: Bench) -> Bench:
        """Return the bench, unless the sink refuses snapshots."""
        if problems := bench.publisher.preflight(SCHEMA, DAYS, "snapshot"):
            pytest.skip(f"the sink refuses snapshots: {problems[0]}")
        return bench

    @pytest.fixture
    def showing(self, taking: Bench) -> Iterator[Bench]:
        """Return a bench that shows Monday's snapshot."""
        taking.publish(_snapshot(taking, ["vanishes", "stays"], 1, MONDAY))
        if taking.ledger.newest(TUESDAY, "snapshot") is None:
            pytest.skip("the sink keeps one snapshot for each day")
        yield taking
        # The next snapshot is complete after any earlier step.
        row = taking.publish(_snapshot(taking, ["last"], 99, WEDNESDAY + ONE_DAY))
        assert (row.rows, taking.readable()) == (1, [(row.day, "last")])

    def test_replaces_whole_is_true_only_if_a_snapshot_replaces_the_target(self, taking: Bench) -> None:
        """Offset and page would wait for ever for refused days."""
        taking.publish(_snapshot(taking, ["m"], 1, MONDAY))
        newest_is_of_another_day = taking.ledger.newest(TUESDAY, "snapshot") is not None
        assert taking.target.sink.replaces_whole("snapshot") == newest_is_of_another_day
        assert not taking.target.sink.replaces_whole("day")

    def test_an_older_snapshot_does_not_replace_a_newer_one(self, taking: Bench) -> None:
        """A late run of yesterday's snapshot would remove today's rows."""
        bench = taking
        late = _snapshot(bench, ["m"], 1, MONDAY)
        bench.publish(_snapshot(bench, ["t"], 1, TUESDAY))
        newest = bench.ledger.newest(MONDAY, "snapshot")
        if newest is None:  # the sink keeps one snapshot for each day
            assert bench.publish(late).generation == 1
            assert bench.readable() == [(MONDAY, "m"), (TUESDAY, "t")]
            return
        assert newest.day == TUESDAY
        state_before = bench.state()
        for staged in (late, _snapshot(bench, ["m"], 2, MONDAY)):
            with pytest.raises(SupersededError):
                bench.publish(staged)
        assert bench.state() == state_before
        bench.publish(_snapshot(bench, ["again"], 3, TUESDAY))
        assert bench.readable() == [(TUESDAY, "again")]

    def test_a_snapshot_takes_the_place_of_the_whole(self, showing: Bench) -> None:
        """Otherwise deleted rows would stay, and others appear twice."""
        row = showing.publish(_snapshot(showing, ["new", "stays"], 1, TUESDAY, files=2))
        assert (row.day, row.generation, row.rows) == (TUESDAY, 1, 2)
        assert showing.readable() == [(TUESDAY, "new"), (TUESDAY, "stays")]
        newest = showing.ledger.newest(MONDAY, "snapshot")
        assert (newest.day, newest.generation, newest.rows) == (TUESDAY, 1, 2)
        assert list(showing.ledger.days()) == [MONDAY, TUESDAY], "a day stays complete after its snapshot was replaced"

    def test_the_newest_snapshot_can_be_loaded_again(self, showing: Bench) -> None:
        """A reload is the day's next generation."""
        row = showing.publish(_snapshot(showing, ["stays"], 2, MONDAY))
        assert (row.day, row.generation) == (MONDAY, 2)
        assert showing.readable() == [(MONDAY, "stays")]

    def test_a_snapshot_polled_before_another_was_published_is_refused(self, showing: Bench) -> None:
        """A later day's snapshot, polled earlier, would remove newer rows."""
        stale = _snapshot(showing, ["stale"], 2, TUESDAY)
        showing.publish(_snapshot(showing, ["fresh"], 3, MONDAY))
        state_before = showing.state()
        with pytest.raises(OvertakenError, match=r"run-3/task has published generation 2"):
            showing.publish(stale)
        assert showing.state() == state_before

    def test_a_retry_of_a_published_snapshot_changes_nothing(self, showing: Bench) -> None:
        """A retry after a lost response must not replace a later snapshot."""
        staged = _snapshot(showing, ["stays"], 2, TUESDAY)
        row = showing.publish(staged)
        for after_later_publish in (False, True):
            if after_later_publish:
                showing.publish(_snapshot(showing, ["later"], 3, WEDNESDAY))
            state_before = showing.state()
            with showing.another_process() as other_publisher:
                retried = showing.publish(staged, other_publisher)
            assert (retried.day, retried.generation, retried.attempt) == (row.day, row.generation, row.attempt)
            assert showing.state() == state_before

    def test_a_snapshot_whose_driver_died_is_published_from_its_stage(self, showing: Bench) -> None:
        """A driver killed before its commit has changed nothing."""
        staged = _snapshot(showing, ["new", "stays"], 2, TUESDAY, files=2)
        rows_before = showing.readable()
        showing.send(staged)
        assert showing.readable() == rows_before
        with showing.another_process() as other_publisher:
            assert showing.publish(staged, other_publisher).rows == 2
        assert showing.readable() == [(TUESDAY, "new"), (TUESDAY, "stays")]

    @pytest.mark.parametrize("days", [(TUESDAY, TUESDAY), (TUESDAY, WEDNESDAY)], ids=["one day", "two days"])
    def test_two_snapshots_at_once_leave_one_whole_and_the_other_is_refused(
        self, showing: Bench, days: tuple[dt.date, dt.date]
    ) -> None:
        """Readers must not see rows of both, or the older answer."""
        staged = [
            _snapshot(showing, [f"{number}-{i}" for i in range(20)], number, day)
            for number, day in zip((6, 7), days, strict=True)
        ]
        results = all_at_once(showing, staged)
        (row,) = [result for result in results if isinstance(result, LedgerRow)]
        (error,) = [result for result in results if isinstance(result, ConnectError)]
        assert isinstance(error, RetriableError | SupersededError), error
        assert showing.readable() == sorted((row.day, f"{number_of(row)}-{i}") for i in range(20))
        newest = showing.ledger.newest(MONDAY, "snapshot")
        assert (newest.day, newest.generation) == (row.day, 1)

    def test_a_snapshot_without_rows_leaves_none_if_that_is_accepted(self, showing: Bench) -> None:
        """A user has accepted that the source is empty."""
        empty = dataclasses.replace(_snapshot(showing, [], 2, TUESDAY), on_empty="accept")
        row = showing.publish(empty)
        assert (row.generation, row.rows, showing.readable()) == (1, 0, [])
        assert showing.ledger.newest(MONDAY, "snapshot").rows == 0


def _snapshot(bench: Bench, rows: list[str], number: int, day: dt.date, files: int = 1) -> Publish:
    return bench.stage(day, rows, number, kind="snapshot", files=files)
