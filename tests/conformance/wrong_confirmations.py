"""Sinks with one mistake each in confirming unchanged days. See ``wrong_sinks.py``."""

from __future__ import annotations

import dataclasses
from typing import Any

from airflow_provider_connect.publishing import confirmed_row, ledger_row, next_generation, seen_publish
from airflow_provider_connect.sink import LedgerRow, Publish
from tests.conformance.folder import FolderPublisher
from tests.conformance.wrong_sinks import Wrong, fails, pause


@fails(
    "an_older_answer_does_not_land_on_a_confirmed_one",
    "two_at_once_leave_one_and_the_other_is_refused[a confirmation and a publish]",
)
class TestComparesNoChecks(Wrong):
    """Publishes over a confirmation as if only generations counted."""

    class publisher(FolderPublisher):  # noqa: N801
        def commit(self, publish: Publish, token: str, receipts: Any) -> LedgerRow:
            pause()
            return super().commit(publish, token, receipts)

        def row(self, publish: Publish) -> LedgerRow:
            newest = self.ledger.newest(publish.day.date, publish.kind)
            if newest is not None:
                newest = newest.model_copy(update={"checks": publish.manifest.seen.checks})
            return ledger_row(publish, next_generation(publish, newest))


@fails(
    "an_older_answer_does_not_land_on_a_confirmed_one",
    "a_confirmation_that_comes_after_another_publish_is_refused[another answer]",
    "a_confirmation_that_comes_after_another_publish_is_refused[the same answer]",
    "who_lost_to_a_confirmation_of_a_later_clear_of_its_run_is_told_not_to_poll_again",
    "two_at_once_leave_one_and_the_other_is_refused[two confirmations]",
    "two_at_once_leave_one_and_the_other_is_refused[a confirmation and a publish]",
)
class TestConfirmsWhateverIsThere(Wrong):
    """Counts a check without comparing it with the state that the attempt saw."""

    class publisher(FolderPublisher):  # noqa: N801
        def confirm(self, publish: Publish) -> LedgerRow:
            pause()
            return super().confirm(publish)

        def check(self, publish: Publish, newest: LedgerRow | None) -> LedgerRow:
            assert newest is not None
            publish_of_newest = dataclasses.replace(
                publish,
                answer=newest.answer,
                manifest=publish.manifest.model_copy(update={"seen": seen_publish(newest)}),
            )
            return confirmed_row(publish_of_newest, newest)


@fails(
    "a_confirmation_writes_no_data_and_no_generation",
    "a_retry_of_a_confirming_intent_finds_the_day_done",
    "an_older_answer_does_not_land_on_a_confirmed_one",
    "who_lost_to_a_confirmation_of_a_later_clear_of_its_run_is_told_not_to_poll_again",
    "who_published_what_others_confirm_still_finds_it",
)
class TestConfirmsForNobody(Wrong):
    """Counts a check, but does not record which intent confirmed."""

    class publisher(FolderPublisher):  # noqa: N801
        def check(self, publish: Publish, newest: LedgerRow | None) -> LedgerRow:
            row = super().check(publish, newest)
            assert newest is not None
            return row.model_copy(update={"token": newest.token, "run": newest.run})


@fails(
    "a_confirmation_writes_no_data_and_no_generation",
    "a_changed_answer_is_published_over_a_confirmed_one",
    "a_day_whose_driver_died_before_it_confirmed_is_confirmed_by_the_next",
    "a_retry_of_a_confirming_intent_finds_the_day_done",
    "an_older_answer_does_not_land_on_a_confirmed_one",
    "who_published_what_others_confirm_still_finds_it",
    "two_at_once_leave_one_and_the_other_is_refused[two confirmations]",
    "two_at_once_leave_one_and_the_other_is_refused[a confirmation and a publish]",
    "a_confirmation_leaves_the_day_s_definition_and_the_one_in_force",
)
class TestCountsAConfirmationAsAGeneration(Wrong):
    """Keeps the same rows, but under a new generation."""

    class publisher(FolderPublisher):  # noqa: N801
        def check(self, publish: Publish, newest: LedgerRow | None) -> LedgerRow:
            row = super().check(publish, newest)
            return row.model_copy(update={"generation": row.generation + 1, "checks": 0})

        def commit(self, publish: Publish, token: str, receipts: Any) -> LedgerRow:
            pause()
            return super().commit(publish, token, receipts)
