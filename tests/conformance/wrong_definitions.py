"""Sinks with one mistake each in storing definitions and notes. See ``wrong_sinks.py``."""

from __future__ import annotations

from typing import Any

from airflow_provider_connect.ledger import task_of
from airflow_provider_connect.sink import DefinitionInForce, LedgerRow, Publish
from airflow_provider_connect.stage.definition import digest_of
from airflow_provider_connect.stage.notes import LedgerNote
from tests.conformance.folder import FolderLedger, FolderPublisher
from tests.conformance.wrong_sinks import Wrong, fails, pause


@fails(
    "a_published_day_keeps_the_definition_that_it_was_loaded_with",
    "in_force_is_the_definition_of_the_newest_publish_of_whatever_day",
    "a_confirmation_leaves_the_day_s_definition_and_the_one_in_force",
    "a_publish_that_did_not_see_the_definition_in_force_is_refused",
    "a_publish_of_a_definition_that_came_into_force_meanwhile_is_accepted",
    "a_retry_of_a_published_day_finds_it_under_any_definition",
    "two_definitions_at_once_leave_one_and_the_other_is_refused",
)
class TestForgetsDefinitions(Wrong):
    """Publishes days without their definition."""

    class publisher(FolderPublisher):  # noqa: N801
        def row(self, publish: Publish) -> LedgerRow:
            return super().row(publish).model_copy(update={"definition": None})


class _Blind(FolderLedger):
    def definition_in_force(self) -> DefinitionInForce | None:
        publisher: Any = self.publisher
        return None if publisher.is_committing else super().definition_in_force()


@fails(
    "a_publish_that_did_not_see_the_definition_in_force_is_refused",
    "two_definitions_at_once_leave_one_and_the_other_is_refused",
)
class TestCommitsUnderAnyDefinition(Wrong):
    """Stores the definition in force, but does not compare it in the committing step."""

    class publisher(FolderPublisher):  # noqa: N801
        is_committing = False

        @property
        def ledger(self) -> FolderLedger:
            return _Blind(self)

        def commit(self, publish: Publish, token: str, receipts: Any) -> LedgerRow:
            self.is_committing = True
            try:
                return super().commit(publish, token, receipts)
            finally:
                self.is_committing = False


class _OfTheLatestDay(FolderLedger):
    def definition_in_force(self) -> DefinitionInForce | None:
        row = max(self.rows(), key=lambda row: (row.day, row.generation), default=None)
        if row is None or row.definition is None:
            return None
        return DefinitionInForce(row.definition, digest_of(task_of(str(row.run))))


@fails("in_force_is_the_definition_of_the_newest_publish_of_whatever_day")
class TestFollowsTheLatestDay(Wrong):
    """Takes the latest day's definition for the one in force, and has none if that day has none."""

    class publisher(FolderPublisher):  # noqa: N801
        @property
        def ledger(self) -> FolderLedger:
            return _OfTheLatestDay(self)


@fails("a_confirmation_leaves_the_day_s_definition_and_the_one_in_force")
class TestConfirmsUnderAnotherDefinition(Wrong):
    """Stores the current definition with a confirmed day, instead of the one that it was loaded with."""

    class publisher(FolderPublisher):  # noqa: N801
        def check(self, publish: Publish, newest: LedgerRow | None) -> LedgerRow:
            return super().check(publish, newest).model_copy(update={"definition": publish.definition})


@fails(
    "a_note_that_is_there_already_stays_as_it_is",
    "a_note_by_several_at_once_is_one_note",
)
class TestNotesAgain(Wrong):
    """Stores a note each time it is written."""

    class publisher(FolderPublisher):  # noqa: N801
        def note(self, note: LedgerNote) -> None:
            with self.alone():
                state = self.read()
                self.write(state.model_copy(update={"notes": (*state.notes, note)}))


@fails("a_note_by_several_at_once_is_one_note")
class TestLosesNotes(Wrong):
    """Reads the notes, then writes them back with its own. Notes written in between are lost."""

    class publisher(FolderPublisher):  # noqa: N801
        def note(self, note: LedgerNote) -> None:
            state = self.read()
            pause()
            if all((stored.kind, stored.id) != (note.kind, note.id) for stored in state.notes):
                self.write(state.model_copy(update={"notes": (*state.notes, note)}))


@fails("notes_of_one_id_and_two_kinds_are_two")
class TestNotesByIdAlone(Wrong):
    """Confuses notes of different kinds with the same id."""

    class publisher(FolderPublisher):  # noqa: N801
        def note(self, note: LedgerNote) -> None:
            if all(stored.id != note.id for stored in self.read().notes):
                super().note(note)
