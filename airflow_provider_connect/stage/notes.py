"""Notes: facts that a ledger keeps beside its days. A note has no day and no generation, and is never changed.

``definition``  the parts of a :class:`.StreamDefinition`, under its digest
``acceptance``  a person has accepted that days published from now on have another definition
``alarm``       rows of a followed table may be lost: the stream stands still until the alarm is answered
``resumption``  the answer to an alarm: where the stream goes on

Writing a note again, or by two at once, leaves one note: its id says all that makes it another one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from airflow_provider_connect.stage.definition import StreamDefinition, digest_of
from airflow_provider_connect.stage.spans import MOST_CHARACTERS
from airflow_provider_connect.wire import Wire

NoteKind = Literal["definition", "acceptance", "alarm", "resumption"]
NOTE_ID = r"^[0-9a-f]{15}$"


class LedgerNote(Wire):
    """One note of one stream.

    :param id: 15 hex digits, unique among the notes of its kind and stream.
    :param run: who wrote it, as :class:`.Intent` names runs; a person's command for an acceptance.
    :param content: plain JSON without secrets and without values of records, by the functions below.
    """

    kind: NoteKind
    id: str = Field(pattern=NOTE_ID)
    noted_at: dt.datetime
    run: str
    content: dict[str, Any] = Field(default_factory=dict)


class Alarm(Wire):
    """Rows that may be lost.

    :param number: number of the stream's newest span when the alarm was raised.
    :param position: where that span ends.
    :param reason: why rows behind it may be lost, as the source words it.
    """

    number: int
    position: str = Field(max_length=MOST_CHARACTERS)
    reason: str

    @property
    def id(self) -> str:
        """The note's id: one alarm for each position that the stream stands at."""
        return digest_of(["alarm", self.number, self.position])


class Resumption(Wire):
    """The answer to an alarm.

    :param alarm: the alarm's id.
    :param position: the position behind which the stream goes on; None if all rows are read again.
    :param answers_before: how many the alarm had: of several, the last counts.
    """

    alarm: str = Field(pattern=NOTE_ID)
    position: str | None = Field(default=None, max_length=MOST_CHARACTERS)
    answers_before: int = Field(default=0, ge=0)


class Acceptance(Wire):
    """A person's word that another definition is meant.

    :param published: digest of the definition of the stream's newest row.
    :param accepted: options digest of the definition that may follow it.
    """

    published: str = Field(pattern=NOTE_ID)
    accepted: str = Field(pattern=NOTE_ID)


def definition_note(definition: StreamDefinition, run: str) -> LedgerNote:
    """Return the note that keeps a definition."""
    return _note("definition", definition.digest, run, definition)


def acceptance_note(acceptance: Acceptance, run: str) -> LedgerNote:
    """Return the note that keeps an acceptance."""
    return _note("acceptance", digest_of([acceptance.published, acceptance.accepted]), run, acceptance)


def alarm_note(alarm: Alarm, run: str) -> LedgerNote:
    """Return the note that keeps an alarm."""
    return _note("alarm", alarm.id, run, alarm)


def resumption_note(resumption: Resumption, run: str) -> LedgerNote:
    """Return the note that keeps the answer to an alarm."""
    note_id = digest_of([resumption.alarm, resumption.position, resumption.answers_before])
    return _note("resumption", note_id, run, resumption)


def _note(kind: NoteKind, note_id: str, run: str, content: Wire) -> LedgerNote:
    noted_at = dt.datetime.now(dt.UTC)
    return LedgerNote(kind=kind, id=note_id, noted_at=noted_at, run=run, content=content.model_dump(mode="json"))


def notes_of(notes: Iterable[LedgerNote], kind: NoteKind) -> list[LedgerNote]:
    """Return the notes of one kind."""
    return [note for note in notes if note.kind == kind]


def definitions_in(notes: Iterable[LedgerNote]) -> dict[str, StreamDefinition]:
    """Return the definitions that notes keep, by digest."""
    return {note.id: StreamDefinition.model_validate(note.content) for note in notes_of(notes, "definition")}


def newest_alarm(notes: Iterable[LedgerNote]) -> Alarm | None:
    """Return the alarm of the newest span, the last one raised if there are several; None if there is none."""
    alarms = notes_of(notes, "alarm")
    newest = max(alarms, key=lambda note: (note.content["number"], note.noted_at), default=None)
    return None if newest is None else Alarm.model_validate(newest.content)


def answers_before(notes: Iterable[LedgerNote], alarm: Alarm) -> int:
    """Return how many answers an alarm has."""
    return len(_answers(notes, alarm))


def last_answer(notes: Iterable[LedgerNote], alarm: Alarm) -> Resumption | None:
    """Return the answer to an alarm that counts; None if nobody has answered it."""
    last = max(_answers(notes, alarm), key=lambda note: (note.content["answers_before"], note.noted_at), default=None)
    return None if last is None else Resumption.model_validate(last.content)


def _answers(notes: Iterable[LedgerNote], alarm: Alarm) -> list[LedgerNote]:
    return [note for note in notes_of(notes, "resumption") if note.content["alarm"] == alarm.id]
