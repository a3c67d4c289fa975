"""What a sink must do whose ledger keeps notes: each day's definition, the one in force, and notes beside the days."""

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
    """Definitions and notes; each case needs the fixture ``bench``. A sink without ``note`` skips them."""

    @pytest.fixture
    def noting(self, bench: Bench) -> Bench:
        """Return the bench of a sink that keeps notes."""
        if not isinstance(bench.publisher, KeepsNotes):
            pytest.skip("has no note(): its ledger keeps no definitions")
        return bench

    def test_of_what_does_not_exist_no_definition_is_in_force_and_nothing_is_noted(self, target: Target) -> None:
        """Every new stream asks before its first publish: an error there fails it."""
        with target.sink.open(KEY, target.connections) as publisher:
            assert publisher.ledger.definition_in_force() is None
            assert list(publisher.ledger.notes()) == []

    def test_a_published_day_keeps_the_definition_that_it_was_loaded_with(self, noting: Bench) -> None:
        """Without it nobody can tell which days were loaded otherwise, and are to be loaded again."""
        noting.publish(noting.stage(MONDAY, ["a"], 1, definition=SIGNUPS.digest))
        noting.publish(noting.stage(TUESDAY, ["b"], 1))
        noting.publish(noting.stage(WEDNESDAY, ["c"], 1, definition=VIEWS.digest))
        with noting.another_process() as other:
            ledger = other.ledger
            known = [SIGNUPS.digest, None, VIEWS.digest]
            days = (MONDAY, TUESDAY, WEDNESDAY)
            assert [_definition(ledger.row(day)) for day in days] == known
            assert [_definition(ledger.newest(day, "day")) for day in days] == known
            assert [_definition(ledger.published(day, intent(1).token)) for day in days] == known
            assert [row.definition for row in ledger.between(MONDAY, WEDNESDAY)] == known
        noting.publish(noting.stage(MONDAY, ["a"], 2, definition=VIEWS.digest))
        assert _definition(noting.ledger.row(MONDAY)) == VIEWS.digest

    def test_in_force_is_the_definition_of_the_newest_publish_of_whatever_day(self, noting: Bench) -> None:
        """If it were that of the latest day, a reload of old days under another definition would be found by nobody."""
        assert noting.ledger.definition_in_force() is None
        published = (
            (TUESDAY, SIGNUPS, RUN),
            (MONDAY, VIEWS, OTHER_TASK),
            (WEDNESDAY, VIEWS, RUN),
            (TUESDAY, SIGNUPS, RUN),
        )
        for number, (day, definition, run) in enumerate(published, 1):
            made = _by(run, noting.stage(day, ["a"], number, definition=definition.digest))
            noting.publish(made)
            with noting.another_process() as other:
                in_force = DefinitionInForce(definition.digest, made.intent.task_digest)
                assert other.ledger.definition_in_force() == in_force
        noting.publish(noting.stage(WEDNESDAY, ["unknown"], 5))
        noting.publish(noting.stage(WEDNESDAY + ONE_DAY, ["unknown"], 5))
        assert noting.ledger.definition_in_force() == in_force
        with noting.another_process(OTHER_KEY) as other:
            assert other.ledger.definition_in_force() is None

    def test_a_confirmation_leaves_the_day_s_definition_and_the_one_in_force(self, noting: Bench) -> None:
        """It publishes nothing: the day has the rows that it had, and the newest publish is still another."""
        if not isinstance(noting.publisher, Confirms):
            pytest.skip("has no confirm(): an unchanged day is published again")
        noting.publish(noting.stage(MONDAY, ["a"], 1, answer=ANSWER, definition=SIGNUPS.digest))
        noting.publish(noting.stage(TUESDAY, ["b"], 2, definition=VIEWS.digest))
        in_force = noting.ledger.definition_in_force()
        row = noting.confirm(noting.stage(MONDAY, ["a"], 3, answer=ANSWER, definition=VIEWS.digest))
        assert (row.checks, row.definition) == (1, SIGNUPS.digest)
        assert _definition(noting.ledger.row(MONDAY)) == SIGNUPS.digest
        assert [each.definition for each in noting.ledger.between(MONDAY, TUESDAY)] == [SIGNUPS.digest, VIEWS.digest]
        assert noting.ledger.definition_in_force() == in_force

    def test_a_publish_that_did_not_see_the_definition_in_force_is_refused(self, noting: Bench) -> None:
        """Two tasks that read different rows of one stream would take each other's away, each of its own days."""
        first = noting.stage(MONDAY, ["a"], 1, definition=SIGNUPS.digest)
        same = noting.stage(WEDNESDAY, ["c"], 3, definition=VIEWS.digest)
        noting.publish(_by(OTHER_TASK, noting.stage(TUESDAY, ["b"], 2, definition=VIEWS.digest)))
        before = noting.state()
        with pytest.raises(OvertakenError, match=VIEWS.digest) as caught:
            noting.publish(first)
        assert (caught.value.by, caught.value.may_poll_again) == (f"definition {VIEWS.digest}", True)
        assert noting.state() == before
        assert noting.ledger.published(MONDAY, intent(1).token) is None
        noting.publish(same)  # of the definition that came into force meanwhile
        noting.publish(noting.stage(MONDAY, ["a"], 1, "2", definition=SIGNUPS.digest))  # and this one has seen it
        assert noting.readable() == [(MONDAY, "a"), (TUESDAY, "b"), (WEDNESDAY, "c")]

    def test_what_a_publish_has_seen_may_be_gone_when_its_own_definition_came_into_force(self, noting: Bench) -> None:
        """It is the definition of the newest days: there is nothing to look at again."""
        noting.publish(noting.stage(MONDAY, ["a"], 1, definition=SIGNUPS.digest))
        late = noting.stage(WEDNESDAY, ["c"], 3, definition=VIEWS.digest)
        noting.publish(noting.stage(TUESDAY, ["b"], 2, definition=VIEWS.digest))
        assert noting.publish(late).definition == VIEWS.digest

    def test_a_retry_of_a_published_day_finds_it_under_any_definition(self, noting: Bench) -> None:
        """The commit's answer was lost: the day is published, whatever came into force since."""
        staged = noting.stage(MONDAY, ["a"], 1, definition=SIGNUPS.digest)
        noting.publish(staged)
        noting.publish(noting.stage(TUESDAY, ["b"], 2, definition=VIEWS.digest))
        before = noting.state()
        with noting.another_process() as other:
            row = noting.publish(staged, other)
        assert (row.generation, row.definition) == (1, SIGNUPS.digest)
        assert noting.state() == before

    def test_two_definitions_at_once_leave_one_and_the_other_is_told(self, noting: Bench) -> None:
        """They are of different days, so no day's generation tells them apart: the sink itself must see it."""
        staged = [
            noting.stage(day, [f"{number}-{i}" for i in range(3)], number, definition=definition.digest)
            for number, day, definition in ((2, MONDAY, SIGNUPS), (3, WEDNESDAY, VIEWS))
        ]
        ended = all_at_once(noting, staged)
        (row,) = [end for end in ended if isinstance(end, LedgerRow)]
        assert len([end for end in ended if isinstance(end, OvertakenError)]) == 1, ended
        assert noting.ledger.definition_in_force() == (row.definition, intent(1).task_digest)
        number = 2 if row.day == MONDAY else 3
        assert noting.readable() == [(row.day, f"{number}-{i}") for i in range(3)]

    def test_an_erase_leaves_the_day_s_definition_and_the_one_in_force(self, noting: Bench) -> None:
        """An erase asks no source: whoever it takes out, the rest of the day was loaded as before."""
        if not isinstance(noting.publisher, Erases):
            pytest.skip("has no erase()")
        noting.publish(noting.stage(MONDAY, ["a", "b"], 1, definition=SIGNUPS.digest))
        noting.publish(noting.stage(TUESDAY, ["c"], 1, definition=VIEWS.digest))
        in_force = noting.ledger.definition_in_force()
        try:
            noting.publisher.erase("event", ["a"], "day")
        except ConfigError as refused:
            pytest.skip(f"cannot erase from this target: {refused}")
        with noting.another_process() as other:
            assert other.ledger.definition_in_force() == in_force
            row = other.ledger.row(MONDAY)
            assert row is not None
            assert (row.generation, row.definition) == (2, SIGNUPS.digest)
            assert [each.definition for each in other.ledger.between(MONDAY, TUESDAY)] == [SIGNUPS.digest, VIEWS.digest]

    def test_a_note_is_there_for_every_process_before_the_first_publish(self, noting: Bench) -> None:
        """A day names its definition by digest: if the note came after it, a kill between would leave a bare digest."""
        made = [
            definition_note(SIGNUPS, RUN),
            definition_note(VIEWS, OTHER_TASK),
            acceptance_note(
                Acceptance(published=SIGNUPS.digest, accepted=VIEWS.options_digest), "airflow connect accept"
            ),
            alarm_note(ALARM, RUN),
            resumption_note(Resumption(alarm=ALARM.id, position=None), "airflow connect resume"),
        ]
        for note in made:
            noting.note(note)
        for _ in range(2):
            with noting.another_process() as other:
                assert _sorted(other.ledger.notes()) == _sorted(made)
            with noting.another_process(OTHER_KEY) as other:
                assert list(other.ledger.notes()) == []
            assert noting.readable() == []
            assert len(noting.ledger.days()) == 0
            assert noting.publisher.preflight(noting.stage(MONDAY, [], 1).schema, (), "day") == []
        assert StreamDefinition(**next(n.content for n in made if n.id == VIEWS.digest)) == VIEWS

    def test_a_note_that_is_there_already_stays_as_it_is(self, noting: Bench) -> None:
        """Each job notes what it goes by: if that were kept each time, a ledger would grow for ever."""
        first = definition_note(SIGNUPS, RUN)
        noting.note(first)
        noting.publish(noting.stage(MONDAY, ["a"], 1, definition=SIGNUPS.digest))
        again = first.model_copy(update={"run": OTHER_TASK, "noted_at": first.noted_at + dt.timedelta(hours=1)})
        for _ in range(2):
            with noting.another_process() as other:
                noting.note(again, other)
        assert list(noting.ledger.notes()) == [first]

    def test_a_note_by_several_at_once_is_one_note(self, noting: Bench) -> None:
        """Many mapped tasks begin at the same moment, and each notes the same definition."""
        made = definition_note(SIGNUPS, RUN)
        with noting.another_process() as one, noting.another_process() as other:
            in_threads([partial(noting.note, made, to) for to in (one, other, noting.publisher)])
        others = definition_note(VIEWS, RUN), alarm_note(ALARM, RUN)
        in_threads([partial(noting.note, note) for note in others])
        kept = noting.ledger.notes()
        assert sorted((note.kind, note.id) for note in kept) == sorted(
            [("definition", SIGNUPS.digest), ("definition", VIEWS.digest), ("alarm", ALARM.id)]
        )

    def test_notes_of_one_id_and_two_kinds_are_two(self, noting: Bench) -> None:
        """An id is unique among the notes of its kind alone."""
        made = [LedgerNote(kind=kind, id="0" * 15, noted_at=NOON, run=RUN) for kind in ("alarm", "acceptance")]
        for note in made:
            noting.note(note)
        assert _sorted(noting.ledger.notes()) == _sorted(made)


def _definition(row: LedgerRow | None) -> str | None:
    assert row is not None
    return row.definition


def _by(run: str, staged: Publish) -> Publish:
    """Return a publish by another run."""
    return dataclasses.replace(staged, intent=Intent(token=staged.intent.token, run=run))


def _sorted(notes: Any) -> list[LedgerNote]:
    return sorted(notes, key=lambda note: (note.kind, note.id))
