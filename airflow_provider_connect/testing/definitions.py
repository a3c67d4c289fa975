"""Conformance cases of sinks whose ledger keeps notes: definitions and alarms."""

from __future__ import annotations

import dataclasses
import datetime as dt
from functools import partial
from typing import Any

import pytest

from airflow_provider_connect.capabilities.publisher import Confirms, Erases, KeepsNotes
from airflow_provider_connect.errors import ConfigError, OvertakenError
from airflow_provider_connect.sink import DefinitionInForce, Intent, LedgerRow, Publish
from airflow_provider_connect.stage.definition import StreamDefinition
from airflow_provider_connect.stage.notes import (
    Acceptance,
    Alarm,
    LedgerNote,
    Resumption,
    acceptance_note,
    alarm_note,
    definition_note,
    position_note,
    resumption_note,
)
from airflow_provider_connect.testing.bench import (
    KEY,
    MONDAY,
    NOON,
    OTHER_KEY,
    TUESDAY,
    WEDNESDAY,
    Bench,
    Target,
    intent,
)
from airflow_provider_connect.testing.confirmations import ANSWER
from airflow_provider_connect.testing.races import all_at_once, in_threads
from airflow_provider_connect.window import ONE_DAY

SIGNUPS = StreamDefinition(
    reading={"kind": "day", "zone": "UTC"}, narrowing={"event": '["signup"]'}, key=("id: integer", "größe: text")
)
VIEWS = SIGNUPS.model_copy(
    update={"narrowing": {"event": '["page view 🙂"]', "where": '"it\'s" \\ = … #0123456789abcde'}}
)
RUN, OTHER_TASK = intent(1).run, "another_dag/scheduled__2026-10-05T00:00:00+00:00/load[7]"
ALARM = Alarm(number=3, position='{"id": "it\'s 7"}', reason="the source's log no longer reaches back: 7 … 9 are gone")


class DefinitionCases:
    """Cases of definitions and other notes."""

    @pytest.fixture
    def noting(self, bench: Bench) -> Bench:
        """Return the bench. Skips the case without ``note``."""
        if not isinstance(bench.publisher, KeepsNotes):
            pytest.skip("has no note(): its ledger keeps no definitions")
        return bench

    def test_of_what_does_not_exist_no_definition_is_in_force_and_nothing_is_noted(self, target: Target) -> None:
        """An error before the first publish would fail every new stream."""
        with target.sink.open(KEY, target.connections) as publisher:
            assert publisher.ledger.definition_in_force() is None
            assert list(publisher.ledger.notes()) == []

    def test_a_published_day_keeps_the_definition_that_it_was_loaded_with(self, noting: Bench) -> None:
        """Users must see which days need a reload under a new definition."""
        noting.publish(noting.stage(MONDAY, ["a"], 1, definition=SIGNUPS.digest))
        noting.publish(noting.stage(TUESDAY, ["b"], 1))
        noting.publish(noting.stage(WEDNESDAY, ["c"], 1, definition=VIEWS.digest))
        with noting.another_process() as other_publisher:
            ledger = other_publisher.ledger
            expected_digests = [SIGNUPS.digest, None, VIEWS.digest]
            days = (MONDAY, TUESDAY, WEDNESDAY)
            assert [_definition(ledger.row(day)) for day in days] == expected_digests
            assert [_definition(ledger.newest(day, "day")) for day in days] == expected_digests
            assert [_definition(ledger.published(day, intent(1).token)) for day in days] == expected_digests
            assert [row.definition for row in ledger.between(MONDAY, WEDNESDAY)] == expected_digests
        noting.publish(noting.stage(MONDAY, ["a"], 2, definition=VIEWS.digest))
        assert _definition(noting.ledger.row(MONDAY)) == VIEWS.digest

    def test_in_force_is_the_definition_of_the_newest_publish_of_whatever_day(self, noting: Bench) -> None:
        """A reload of old days under another definition must not go unnoticed."""
        assert noting.ledger.definition_in_force() is None
        published = (
            (TUESDAY, SIGNUPS, RUN),
            (MONDAY, VIEWS, OTHER_TASK),
            (WEDNESDAY, VIEWS, RUN),
            (TUESDAY, SIGNUPS, RUN),
        )
        for number, (day, definition, run) in enumerate(published, 1):
            staged = _with_run(run, noting.stage(day, ["a"], number, definition=definition.digest))
            noting.publish(staged)
            with noting.another_process() as other_publisher:
                in_force = DefinitionInForce(definition.digest, staged.intent.task_digest)
                assert other_publisher.ledger.definition_in_force() == in_force
        noting.publish(noting.stage(WEDNESDAY, ["unknown"], 5))
        noting.publish(noting.stage(WEDNESDAY + ONE_DAY, ["unknown"], 5))
        assert noting.ledger.definition_in_force() == in_force
        with noting.another_process(OTHER_KEY) as other_publisher:
            assert other_publisher.ledger.definition_in_force() is None

    def test_a_confirmation_leaves_the_day_s_definition_and_the_one_in_force(self, noting: Bench) -> None:
        """A confirmation publishes no rows, so both definitions stay true."""
        if not isinstance(noting.publisher, Confirms):
            pytest.skip("has no confirm(): an unchanged day is published again")
        noting.publish(noting.stage(MONDAY, ["a"], 1, answer=ANSWER, definition=SIGNUPS.digest))
        noting.publish(noting.stage(TUESDAY, ["b"], 2, definition=VIEWS.digest))
        in_force = noting.ledger.definition_in_force()
        row = noting.confirm(noting.stage(MONDAY, ["a"], 3, answer=ANSWER, definition=VIEWS.digest))
        assert (row.checks, row.definition) == (1, SIGNUPS.digest)
        assert _definition(noting.ledger.row(MONDAY)) == SIGNUPS.digest
        assert [ledger_row.definition for ledger_row in noting.ledger.between(MONDAY, TUESDAY)] == [
            SIGNUPS.digest,
            VIEWS.digest,
        ]
        assert noting.ledger.definition_in_force() == in_force

    def test_a_publish_that_did_not_see_the_definition_in_force_is_refused(self, noting: Bench) -> None:
        """Tasks that load different rows into one stream would replace each other's days."""
        unaware = noting.stage(MONDAY, ["a"], 1, definition=SIGNUPS.digest)
        same_definition = noting.stage(WEDNESDAY, ["c"], 3, definition=VIEWS.digest)
        noting.publish(_with_run(OTHER_TASK, noting.stage(TUESDAY, ["b"], 2, definition=VIEWS.digest)))
        state_before = noting.state()
        with pytest.raises(OvertakenError, match=VIEWS.digest) as caught:
            noting.publish(unaware)
        assert (caught.value.by, caught.value.may_poll_again) == (f"definition {VIEWS.digest}", True)
        assert noting.state() == state_before
        assert noting.ledger.published(MONDAY, intent(1).token) is None
        noting.publish(same_definition)  # has the definition that came into force meanwhile
        noting.publish(noting.stage(MONDAY, ["a"], 1, "2", definition=SIGNUPS.digest))  # has seen the new definition
        assert noting.readable() == [(MONDAY, "a"), (TUESDAY, "b"), (WEDNESDAY, "c")]

    def test_a_publish_of_a_definition_that_came_into_force_meanwhile_is_accepted(self, noting: Bench) -> None:
        """A publish with the definition in force causes no conflict."""
        noting.publish(noting.stage(MONDAY, ["a"], 1, definition=SIGNUPS.digest))
        late = noting.stage(WEDNESDAY, ["c"], 3, definition=VIEWS.digest)
        noting.publish(noting.stage(TUESDAY, ["b"], 2, definition=VIEWS.digest))
        assert noting.publish(late).definition == VIEWS.digest

    def test_a_retry_of_a_published_day_finds_it_under_any_definition(self, noting: Bench) -> None:
        """A retry would publish the day twice."""
        staged = noting.stage(MONDAY, ["a"], 1, definition=SIGNUPS.digest)
        noting.publish(staged)
        noting.publish(noting.stage(TUESDAY, ["b"], 2, definition=VIEWS.digest))
        state_before = noting.state()
        with noting.another_process() as other_publisher:
            row = noting.publish(staged, other_publisher)
        assert (row.generation, row.definition) == (1, SIGNUPS.digest)
        assert noting.state() == state_before

    def test_two_definitions_at_once_leave_one_and_the_other_is_refused(self, noting: Bench) -> None:
        """The days' generations do not conflict, but the definitions do."""
        staged = [
            noting.stage(day, [f"{number}-{i}" for i in range(3)], number, definition=definition.digest)
            for number, day, definition in ((2, MONDAY, SIGNUPS), (3, WEDNESDAY, VIEWS))
        ]
        results = all_at_once(noting, staged)
        (row,) = [result for result in results if isinstance(result, LedgerRow)]
        assert len([result for result in results if isinstance(result, OvertakenError)]) == 1, results
        assert noting.ledger.definition_in_force() == (row.definition, intent(1).task_digest)
        number = 2 if row.day == MONDAY else 3
        assert noting.readable() == [(row.day, f"{number}-{i}") for i in range(3)]

    def test_an_erase_leaves_the_day_s_definition_and_the_one_in_force(self, noting: Bench) -> None:
        """The remaining rows were loaded under the old definition."""
        if not isinstance(noting.publisher, Erases):
            pytest.skip("has no erase()")
        noting.publish(noting.stage(MONDAY, ["a", "b"], 1, definition=SIGNUPS.digest))
        noting.publish(noting.stage(TUESDAY, ["c"], 1, definition=VIEWS.digest))
        in_force = noting.ledger.definition_in_force()
        try:
            noting.publisher.erase("event", ["a"], "day")
        except ConfigError as error:
            pytest.skip(f"cannot erase from this target: {error}")
        with noting.another_process() as other_publisher:
            assert other_publisher.ledger.definition_in_force() == in_force
            row = other_publisher.ledger.row(MONDAY)
            assert row is not None
            assert (row.generation, row.definition) == (2, SIGNUPS.digest)
            assert [ledger_row.definition for ledger_row in other_publisher.ledger.between(MONDAY, TUESDAY)] == [
                SIGNUPS.digest,
                VIEWS.digest,
            ]

    def test_a_note_is_there_for_every_process_before_the_first_publish(self, noting: Bench) -> None:
        """A kill would lose the day's definition."""
        notes = [
            definition_note(SIGNUPS, RUN),
            definition_note(VIEWS, OTHER_TASK),
            acceptance_note(
                Acceptance(published=SIGNUPS.digest, accepted=VIEWS.options_digest), "airflow connect accept"
            ),
            alarm_note(ALARM, RUN),
            resumption_note(Resumption(alarm=ALARM.id, position=None), "airflow connect resume"),
        ]
        for note in notes:
            noting.note(note)
        for _ in range(2):
            with noting.another_process() as other_publisher:
                assert _sort_notes(other_publisher.ledger.notes()) == _sort_notes(notes)
            with noting.another_process(OTHER_KEY) as other_publisher:
                assert list(other_publisher.ledger.notes()) == []
            assert noting.readable() == []
            assert len(noting.ledger.days()) == 0
            assert noting.publisher.preflight(noting.stage(MONDAY, [], 1).schema, (), "day") == []
        assert (
            StreamDefinition(**next(note_read.content for note_read in notes if note_read.id == VIEWS.digest)) == VIEWS
        )

    def test_a_note_that_is_there_already_stays_as_it_is(self, noting: Bench) -> None:
        """Copies would make the ledger grow for ever."""
        first_note = definition_note(SIGNUPS, RUN)
        noting.note(first_note)
        noting.publish(noting.stage(MONDAY, ["a"], 1, definition=SIGNUPS.digest))
        repeated_note = first_note.model_copy(
            update={"run": OTHER_TASK, "noted_at": first_note.noted_at + dt.timedelta(hours=1)}
        )
        for _ in range(2):
            with noting.another_process() as other_publisher:
                noting.note(repeated_note, other_publisher)
        assert list(noting.ledger.notes()) == [first_note]

    def test_a_note_by_several_at_once_is_one_note(self, noting: Bench) -> None:
        """Many mapped tasks store the same note concurrently."""
        shared_note = definition_note(SIGNUPS, RUN)
        with noting.another_process() as first_publisher, noting.another_process() as other_publisher:
            in_threads(
                [
                    partial(noting.note, shared_note, publisher)
                    for publisher in (first_publisher, other_publisher, noting.publisher)
                ]
            )
        other_notes = definition_note(VIEWS, RUN), alarm_note(ALARM, RUN)
        in_threads([partial(noting.note, note) for note in other_notes])
        stored_notes = noting.ledger.notes()
        assert sorted((note.kind, note.id) for note in stored_notes) == sorted(
            [("definition", SIGNUPS.digest), ("definition", VIEWS.digest), ("alarm", ALARM.id)]
        )

    def test_a_long_position_is_read_by_its_id_in_every_process(self, noting: Bench) -> None:
        """A stream of many partitions could not go on from where it ended."""
        note = position_note("offset 1 " * 5_000, RUN)
        assert noting.ledger.position_note(note.id) is None
        for _ in range(2):
            noting.note(note)
        with noting.another_process() as other_publisher:
            assert other_publisher.ledger.position_note(note.id) == note
            assert other_publisher.ledger.position_note("0" * 15) is None
        with noting.another_process(OTHER_KEY) as other_publisher:
            assert other_publisher.ledger.position_note(note.id) is None

    def test_notes_of_one_id_and_two_kinds_are_two(self, noting: Bench) -> None:
        """An id is unique only among notes of one kind."""
        notes = [LedgerNote(kind=kind, id="0" * 15, noted_at=NOON, run=RUN) for kind in ("alarm", "acceptance")]
        for note in notes:
            noting.note(note)
        assert _sort_notes(noting.ledger.notes()) == _sort_notes(notes)


def _definition(row: LedgerRow | None) -> str | None:
    assert row is not None
    return row.definition


def _with_run(run: str, staged: Publish) -> Publish:
    return dataclasses.replace(staged, intent=Intent(token=staged.intent.token, run=run))


def _sort_notes(notes: Any) -> list[LedgerNote]:
    return sorted(notes, key=lambda note: (note.kind, note.id))
