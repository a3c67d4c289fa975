"""Sinks with one mistake each in showing snapshots. See ``wrong_sinks.py``."""

from __future__ import annotations

from airflow_provider_connect.publishing import ledger_row, next_generation
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.window import SourceKind
from tests.conformance.folder import FolderPublisher, FolderSink, State
from tests.conformance.wrong_sinks import Wrong, fails


@fails(
    "an_older_snapshot_does_not_replace_a_newer_one",
    "a_snapshot_polled_before_another_was_published_is_refused",
    "two_snapshots_at_once_leave_one_whole_and_the_other_is_refused[two days]",
)
class TestTakesAnySnapshot(Wrong):
    """Shows the snapshot that was published last, of any day."""

    class publisher(FolderPublisher):  # noqa: N801
        def row(self, publish: Publish) -> LedgerRow:
            newest = self.ledger.newest(publish.day.date, publish.kind)
            if newest is not None and newest.day != publish.day.date:
                return ledger_row(publish, 1)
            return ledger_row(publish, next_generation(publish, newest))


@fails("replaces_whole_is_true_only_if_a_snapshot_replaces_the_target")
class TestHidesThatDaysAreSuperseded(Wrong):
    """Refuses earlier snapshots, but does not declare it."""

    publisher = FolderPublisher

    class sink(FolderSink):  # noqa: N801
        def replaces_whole(self, kind: SourceKind) -> bool:
            return False


@fails(
    "a_snapshot_takes_the_place_of_the_whole",
    "the_newest_snapshot_can_be_loaded_again",
    "a_snapshot_polled_before_another_was_published_is_refused",
    "a_retry_of_a_published_snapshot_changes_nothing",
    "a_snapshot_without_rows_leaves_none_if_that_is_accepted",
    "a_snapshot_whose_driver_died_is_published_from_its_stage",
    "two_snapshots_at_once_leave_one_whole_and_the_other_is_refused[one day]",
    "two_snapshots_at_once_leave_one_whole_and_the_other_is_refused[two days]",
)
class TestKeepsWhatVanished(Wrong):
    """Calls a snapshot the newest, but keeps the rows of the previous one."""

    class publisher(FolderPublisher):  # noqa: N801
        def write(self, state: State) -> None:
            super().write(state.model_copy(update={"shown": self.read().shown | state.shown}))
