"""Sinks with one deliberate mistake each, run with the shipped suite. A decorator lists the cases that must fail.

Each sink is the correct one of ``folder.py`` with a few lines changed. ``test_wrong_connectors.py`` runs this file.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from airflow_provider_connect.capabilities.publisher import CommitCountsDifferences, TellsDifferences
from airflow_provider_connect.errors import OvertakenError, RetriableError
from airflow_provider_connect.publishing import ledger_row, require_definition
from airflow_provider_connect.sink import LedgerRow, Publish, Publisher, StreamKey
from airflow_provider_connect.stage.differences import Differences
from airflow_provider_connect.testing import SinkConformance, Target
from tests.conformance.folder import FolderLedger, FolderPublisher, FolderSink, State, fresh, read

EXPECTED: dict[str, set[str]] = {}
"""Cases that must fail, by test class."""

PAUSE_SECONDS = 0.2
"""Time that a store may take to answer."""


def pause() -> None:
    """Wait as for a slow store, so that other threads run in between. Does nothing in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        time.sleep(PAUSE_SECONDS)


def fails(*cases: str) -> Callable[[type], type]:
    """List the cases that a wrong sink must fail. It must pass all others."""

    def record_cases(cls: type) -> type:
        EXPECTED[cls.__name__] = {f"test_{case}" for case in cases}
        return cls

    return record_cases


class Wrong(SinkConformance):
    """Suite over the folder sink with a wrong publisher."""

    publisher: ClassVar[type[FolderPublisher]]
    sink: ClassVar[type[FolderSink]] = FolderSink

    def target(self, tmp_path: Path) -> Target:
        publisher, base = self.publisher, self.sink

        class WrongSink(base):  # type: ignore[misc, valid-type]  # the class is chosen when the case runs
            def open(self, key: Any, connections: Any) -> Publisher:
                return publisher(self.path, key)

        sink = WrongSink(path=fresh(tmp_path))
        return Target(sink=sink, rows=lambda: read(sink.path))

    def connector(self, tmp_path: Path) -> FolderSink:
        return FolderSink(path=str(tmp_path))


@fails("what_a_reload_changes_is_counted_and_nothing_is_changed_by_that")
class TestCountsNoDifference(Wrong):
    """Reports for every reload that it changes nothing."""

    class publisher(FolderPublisher, TellsDifferences):  # noqa: N801
        def differences(self, publish: Publish) -> Differences:
            return Differences(added=0, changed=0, vanished=0)


@fails("what_a_reload_changes_is_counted_and_nothing_is_changed_by_that")
class TestPromisesDifferences(Wrong):
    """Claims that its commit counts the differences of a reload, but counts none."""

    class publisher(FolderPublisher, CommitCountsDifferences):  # noqa: N801
        pass


@fails(
    "a_share_that_spark_sends_twice_counts_once",
    "a_share_that_spark_sends_twice_at_once_counts_once",
)
class TestShowsWhatLiesThere(Wrong):
    """Commits all files of the attempt instead of the files in the receipts."""

    class publisher(FolderPublisher):  # noqa: N801
        def commit(self, publish: Publish, token: str, receipts: Any) -> LedgerRow:
            files = [f"{token}/{file.name}" for file in (self.path / token).iterdir()]
            return super().commit(publish, token, [files])


@fails(
    "a_commit_may_be_repeated",
    "a_commit_whose_answer_was_lost_is_found_by_the_next_process",
    "a_commit_whose_answer_was_lost_may_be_aborted",
    "a_retry_after_a_reload_by_hand_finds_what_it_published",
    "one_intent_twice_at_once_is_published_once",
    "the_same_intent_again_changes_nothing",
    "a_retry_of_a_published_snapshot_changes_nothing",
    "a_retry_of_a_confirming_intent_finds_the_day_done",
    "who_published_what_others_confirm_still_finds_it",
    "a_retry_of_a_published_day_finds_it_under_any_definition",
)
class TestDoublesOnRetry(Wrong):
    """Adds the rows of an intent that has already published."""

    class publisher(FolderPublisher):  # noqa: N801
        def commit(self, publish: Publish, token: str, receipts: Any) -> LedgerRow:
            row = self.ledger.published(publish.day.date, publish.intent.token)
            if row is None:
                return super().commit(publish, token, receipts)
            with self.alone():
                state = self.read()
                added = tuple(name for receipt in receipts for name in receipt)
                shown = state.shown | {row.day: state.shown[row.day] + added}
                self.write(state.model_copy(update={"shown": shown}))
            return row


@fails(
    "a_new_attempt_does_not_wait_for_one_that_died",
    "a_put_that_fails_half_way_shows_nothing",
    "a_share_that_spark_sends_twice_counts_once",
    "a_share_that_spark_sends_twice_at_once_counts_once",
    "a_dead_attempt_can_be_published_from_its_stage",
    "only_rows_of_the_attempt_that_commits_are_seen",
    "rows_of_an_aborted_attempt_are_never_seen",
    "one_intent_twice_at_once_is_published_once",
    "two_publishers_at_once_leave_one_whole_answer_and_the_other_is_refused",
    "a_snapshot_whose_driver_died_is_published_from_its_stage",
    "a_publish_that_did_not_see_the_definition_in_force_is_refused",
)
class TestForgetsAbort(Wrong):
    """Uses one folder for each day and intent, publishes all files in it, and keeps them after an error."""

    class publisher(FolderPublisher):  # noqa: N801
        def begin(self, publish: Publish) -> str:
            name = f"{publish.day}-{publish.intent.token}"
            (self.path / name).mkdir(exist_ok=True)
            return name

        def commit(self, publish: Publish, token: str, receipts: Any) -> LedgerRow:
            files = [f"{token}/{file.name}" for file in (self.path / token).iterdir()]
            return super().commit(publish, token, [files])

        def abort(self, publish: Publish, token: str) -> None:
            pass


@fails(
    "a_dead_attempt_can_be_published_from_its_stage",
    "a_new_attempt_does_not_wait_for_one_that_died",
    "an_abort_touches_nothing_and_the_day_can_still_be_published",
    "an_abort_after_the_commit_takes_nothing_back",
    "a_put_that_fails_half_way_shows_nothing",
    "only_rows_of_the_attempt_that_commits_are_seen",
    "rows_of_an_aborted_attempt_are_never_seen",
    "an_older_snapshot_does_not_replace_a_newer_one",
    "a_snapshot_whose_driver_died_is_published_from_its_stage",
    "a_publish_that_did_not_see_the_definition_in_force_is_refused",
)
class TestKeepsItsLock(Wrong):
    """Locks the day in begin() and unlocks it only in the commit."""

    class publisher(FolderPublisher):  # noqa: N801
        def begin(self, publish: Publish) -> str:
            try:
                (self.path / f"{publish.day}.locked").mkdir()
            except FileExistsError:
                raise RetriableError(f"{publish.day} is locked") from None
            return super().begin(publish)

        def commit(self, publish: Publish, token: str, receipts: Any) -> LedgerRow:
            row = super().commit(publish, token, receipts)
            shutil.rmtree(self.path / f"{publish.day}.locked", ignore_errors=True)
            return row

        def abort(self, publish: Publish, token: str) -> None:
            pass


class _Remembering(FolderLedger):
    def rows(self) -> tuple[LedgerRow, ...]:
        publisher: Any = self.publisher
        if publisher.remembered is None:
            publisher.remembered = super().rows()
        return publisher.remembered  # type: ignore[no-any-return]


@fails(
    "another_process_finds_the_ledger_row_right_after_the_commit",
    "one_intent_twice_at_once_is_published_once",
    "two_publishers_at_once_leave_one_whole_answer_and_the_other_is_refused",
    "a_snapshot_whose_driver_died_is_published_from_its_stage",
    "two_snapshots_at_once_leave_one_whole_and_the_other_is_refused[one day]",
    "two_snapshots_at_once_leave_one_whole_and_the_other_is_refused[two days]",
    "a_changed_answer_is_published_over_a_confirmed_one",
    "a_confirmation_writes_no_data_and_no_generation",
    "a_retry_of_a_confirming_intent_finds_the_day_done",
    "two_at_once_leave_one_and_the_other_is_refused[a confirmation and a publish]",
    "two_at_once_leave_one_and_the_other_is_refused[two confirmations]",
    "who_lost_to_a_confirmation_of_a_later_clear_of_its_run_is_told_not_to_poll_again",
    "who_published_what_others_confirm_still_finds_it",
    "two_definitions_at_once_leave_one_and_the_other_is_refused",
)
class TestLedgerLags(Wrong):
    """Reads the ledger only for a commit. Otherwise it answers from its cache."""

    class publisher(FolderPublisher):  # noqa: N801
        remembered: tuple[LedgerRow, ...] | None = None

        def commit(self, publish: Publish, token: str, receipts: Any) -> LedgerRow:
            self.remembered = None
            try:
                return super().commit(publish, token, receipts)
            finally:
                self.remembered = None

        @property
        def ledger(self) -> FolderLedger:
            return _Remembering(self)


@fails(
    "a_clock_that_is_set_back_decides_nothing",
    "the_older_answer_of_two_is_refused_and_nothing_changes",
    "two_publishers_at_once_leave_one_whole_answer_and_the_other_is_refused",
    "who_lost_to_a_later_clear_of_its_own_run_is_told_not_to_poll_again",
    "an_older_answer_does_not_land_on_a_confirmed_one",
    "two_at_once_leave_one_and_the_other_is_refused[a confirmation and a publish]",
)
class TestDecidesByClock(Wrong):
    """Publishes the answer with the later poll time."""

    class publisher(FolderPublisher):  # noqa: N801
        def commit(self, publish: Publish, token: str, receipts: Any) -> LedgerRow:
            pause()
            return super().commit(publish, token, receipts)

        def row(self, publish: Publish) -> LedgerRow:
            newest = self.ledger.newest(publish.day.date, publish.kind)
            if newest is None:
                return ledger_row(publish, 1)
            if publish.kind == "snapshot":
                return super().row(publish)
            if newest.polled_at and publish.manifest.polled_at and newest.polled_at > publish.manifest.polled_at:
                raise OvertakenError("an answer polled later is published")
            return ledger_row(publish, newest.generation + 1)


@fails(
    "what_the_source_set_aside_is_counted_and_no_row",
    "the_ledger_returns_the_newest_row_of_each_day_between_two_days",
    "a_confirmation_writes_no_data_and_no_generation",
)
class TestLosesRejects(Wrong):
    """Counts only the rows that it shows."""

    class publisher(FolderPublisher):  # noqa: N801
        def row(self, publish: Publish) -> LedgerRow:
            return super().row(publish).model_copy(update={"counts": {"rows_read": publish.manifest.polled.rows_read}})


@fails("the_ledger_returns_the_newest_row_of_each_day_between_two_days")
class TestForgetsZeros(Wrong):
    """Stores only counts other than zero."""

    class publisher(FolderPublisher):  # noqa: N801
        def row(self, publish: Publish) -> LedgerRow:
            row = super().row(publish)
            return row.model_copy(update={"counts": {name: count for name, count in row.counts.items() if count}})


@fails(
    "one_intent_twice_at_once_is_published_once",
    "two_publishers_at_once_leave_one_whole_answer_and_the_other_is_refused",
    "two_snapshots_at_once_leave_one_whole_and_the_other_is_refused[one day]",
    "two_snapshots_at_once_leave_one_whole_and_the_other_is_refused[two days]",
    "two_at_once_leave_one_and_the_other_is_refused[a confirmation and a publish]",
    "two_definitions_at_once_leave_one_and_the_other_is_refused",
)
class TestLooksBeforeItLocks(Wrong):
    """Decides on a read made before the committing step, without compare-and-set."""

    class publisher(FolderPublisher):  # noqa: N801
        def commit(self, publish: Publish, token: str, receipts: Any) -> LedgerRow:
            if (row := self.ledger.published(publish.day.date, publish.intent.token)) is not None:
                return row
            row = self.row(publish)
            require_definition(publish, self.ledger.definition_in_force())
            pause()
            pause()
            with self.alone():
                self.show(publish, row, receipts)
            return row

        def confirm(self, publish: Publish) -> LedgerRow:
            pause()  # until the other confirmation has read
            return super().confirm(publish)


@fails(
    "a_commit_may_be_repeated",
    "a_commit_whose_answer_was_lost_is_found_by_the_next_process",
)
class TestCommitsOnlyOnce(Wrong):
    """Moves the rows before it checks whether they are already published."""

    class publisher(FolderPublisher):  # noqa: N801
        def commit(self, publish: Publish, token: str, receipts: Any) -> LedgerRow:
            folder = uuid.uuid4().hex
            try:
                (self.path / token).rename(self.path / folder)
            except FileNotFoundError:
                raise RetriableError("the rows that were sent are gone") from None
            try:
                names = [[name.replace(token, folder) for name in receipt] for receipt in receipts]
                return super().commit(publish, folder, names)
            except OvertakenError:
                super().abort(publish, folder)
                raise


@fails(
    "a_retry_after_a_reload_by_hand_finds_what_it_published",
    "a_retry_of_a_confirming_intent_finds_the_day_done",
    "who_published_what_others_confirm_still_finds_it",
)
class TestForgetsEarlierTokens(Wrong):
    """Remembers only the newest publish of a day."""

    class publisher(FolderPublisher):  # noqa: N801
        def write(self, state: State) -> None:
            newest_numbers = {row.day: number for number, row in enumerate(state.rows)}
            rows = tuple(row for number, row in enumerate(state.rows) if newest_numbers[row.day] == number)
            super().write(state.model_copy(update={"rows": rows}))


@fails(
    "another_stream_has_another_ledger",
    "the_ledger_returns_the_newest_row_of_each_day_between_two_days",
    "a_confirmation_writes_no_data_and_no_generation",
    "in_force_is_the_definition_of_the_newest_publish_of_whatever_day",
    "a_note_is_there_for_every_process_before_the_first_publish",
)
class TestOneLedgerForAll(Wrong):
    """Uses one ledger for all streams."""

    class publisher(FolderPublisher):  # noqa: N801
        def __init__(self, path: str, key: StreamKey) -> None:
            super().__init__(path, StreamKey(connector="any", stream="any"))


@fails("several_days_at_once_by_one_publisher_do_not_mix")
class TestRemembersTheLastBegin(Wrong):
    """Keeps the state of one day in the publisher."""

    class publisher(FolderPublisher):  # noqa: N801
        def begin(self, publish: Publish) -> str:
            self.day = publish.day
            token = super().begin(publish)
            pause()
            return token

        def commit(self, publish: Publish, token: str, receipts: Any) -> LedgerRow:
            self.day = getattr(self, "day", publish.day)
            if self.day != publish.day:
                raise RetriableError(f"{publish.day} was not begun")
            return super().commit(publish, token, receipts)
