"""Conformance suite of sinks that merge by key."""

from __future__ import annotations

import pytest

from airflow_provider_connect.errors import ConfigError, ConnectError, OvertakenError
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.testing.bench import MONDAY, TUESDAY, WEDNESDAY, Bench, number_of
from airflow_provider_connect.testing.increments import increment
from airflow_provider_connect.testing.races import all_at_once, in_threads
from airflow_provider_connect.testing.sinks import SinkConformance
from airflow_provider_connect.window import ONE_DAY


class MergeConformance(SinkConformance):
    """Suite for a sink that merges rows by the key ``event``.

    ``target`` has a sink without options for deletes and order. The later day wins, within a day the later row. A row
    lies in the day that wrote its newest version.
    """

    keeps_rows_that_a_reload_lacks = True

    test_a_new_intent_replaces_the_day_and_no_other = None  # type: ignore[assignment]
    test_a_day_that_became_empty_shows_no_old_rows = None  # type: ignore[assignment]
    test_the_newer_answer_wins_whoever_started_first = None  # type: ignore[assignment]
    test_a_clock_that_is_set_back_decides_nothing = None  # type: ignore[assignment]
    test_the_ledger_returns_the_newest_row_of_each_day_between_two_days = None  # type: ignore[assignment]
    test_what_a_reload_changes_is_counted_and_nothing_is_changed_by_that = None  # type: ignore[assignment]
    test_a_day_that_is_loaded_again_keeps_its_own_span = None  # type: ignore[assignment]
    test_an_abort_touches_nothing_and_the_day_can_still_be_published = None  # type: ignore[assignment]
    test_rows_of_an_aborted_attempt_are_never_seen = None  # type: ignore[assignment]
    test_a_put_that_fails_half_way_shows_nothing = None  # type: ignore[assignment]
    test_a_sweep_spares_what_is_published_and_what_is_alive = None  # type: ignore[assignment]
    test_two_publishers_at_once_leave_one_whole_answer_and_the_other_is_refused = None  # type: ignore[assignment]

    def test_a_second_increment_of_a_day_is_refused_before_it_is_polled(self, bench: Bench) -> None:
        """Deletes are remembered by day: a clear of the first run would bring rows back."""
        if not bench.target.sink.keeps_spans:
            pytest.skip("the sink does not keep spans")
        bench.publish(increment(bench, MONDAY, ["a", "b"], 1, to="2"))
        state_before = bench.state()
        with pytest.raises(ConfigError, match=r"day .* has an increment of .* keeps one increment a day"):
            increment(bench, MONDAY, ["c"], 2, to="3")
        assert bench.state() == state_before
        assert bench.publish(increment(bench, MONDAY, ["a", "c"], 1, clear_number=1, to="2")).generation == 2
        assert bench.publish(increment(bench, TUESDAY, ["d"], 2, to="3")).generation == 1
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b"), (MONDAY, "c"), (TUESDAY, "d")]

    def test_a_later_day_updates_its_keys_and_no_other(self, bench: Bench) -> None:
        """Two rows of one key would double sums."""
        bench.publish(bench.stage(MONDAY, ["a", "b"], 1))
        row = bench.publish(bench.stage(TUESDAY, ["b", "c"], 2))
        assert (row.generation, row.rows) == (1, 2)
        assert bench.readable() == [(MONDAY, "a"), (TUESDAY, "b"), (TUESDAY, "c")]

    def test_an_older_day_that_is_loaded_later_changes_no_newer_row(self, bench: Bench) -> None:
        """A backfill would set rows back to old values."""
        bench.publish(bench.stage(TUESDAY, ["a", "b"], 1))
        row = bench.publish(bench.stage(MONDAY, ["b", "c"], 2))
        assert row.rows == 1
        assert bench.readable() == [(MONDAY, "c"), (TUESDAY, "a"), (TUESDAY, "b")]

    def test_a_reload_updates_and_adds_and_its_retry_changes_nothing(self, bench: Bench) -> None:
        """A key that the reload lacks stays."""
        bench.publish(bench.stage(MONDAY, ["a", "b"], 1))
        bench.publish(bench.stage(TUESDAY, ["b"], 1))
        reload = bench.stage(MONDAY, ["b", "c"], 2)
        assert bench.publish(reload).generation == 2
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "c"), (TUESDAY, "b")]
        state_before = bench.state()
        bench.publish(reload)
        assert bench.state() == state_before

    def test_a_key_that_a_day_has_several_times_becomes_one_row(self, bench: Bench) -> None:
        """Sources of changes return each version of a row."""
        row = bench.publish(bench.stage(MONDAY, ["a", "b", "a", "a", "b", "c"], 1, files=2))
        assert row.rows == 3
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b"), (MONDAY, "c")]

    def test_days_at_once_leave_one_row_for_each_key(self, bench: Bench) -> None:
        """A key could get two rows."""
        dates = [MONDAY + ONE_DAY * number for number in range(4)]
        staged = [bench.stage(date, ["shared", f"own {date.day}"], 1) for date in dates]
        rows = in_threads([lambda publish=publish: bench.publish(publish) for publish in staged])  # type: ignore[misc]
        assert [(row.day, row.generation) for row in rows] == [(date, 1) for date in dates]
        assert bench.readable() == sorted([*((date, f"own {date.day}") for date in dates), (dates[-1], "shared")])

    def test_of_two_merges_of_one_day_at_once_one_is_refused(self, bench: Bench) -> None:
        """The older answer could replace the newer one in a green task."""
        staged = [bench.stage(MONDAY, [f"{number}", "shared"], number) for number in (6, 7)]
        results = all_at_once(bench, staged)
        (row,) = [result for result in results if isinstance(result, LedgerRow)]
        (error,) = [result for result in results if isinstance(result, ConnectError)]
        assert isinstance(error, OvertakenError), error
        assert bench.readable() == [(MONDAY, f"{number_of(row)}"), (MONDAY, "shared")]

    def test_rows_of_an_attempt_without_a_commit_are_never_merged(self, bench: Bench) -> None:
        """Rows that were sent and not committed may be older or cut."""
        bench.publish(bench.stage(MONDAY, ["a"], 1))
        staged = bench.stage(TUESDAY, ["a", "lost"], 2)
        token, _ = bench.send(staged)
        bench.abort(staged, token)
        bench.publish(bench.stage(WEDNESDAY, ["b"], 3))
        assert bench.readable() == [(MONDAY, "a"), (WEDNESDAY, "b")]
