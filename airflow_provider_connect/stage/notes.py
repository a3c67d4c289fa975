"""Notes: facts about a stream in its ledger. A note never changes.

``definition``  a :class:`.StreamDefinition` (options that decide a day's rows), under its digest
``acceptance``  a person has accepted that later days have another definition
``alarm``       rows of a followed table may be lost. The stream stands still until the alarm is answered
``resumption``  the answer to an alarm: the position from which the stream continues
``position``    a position that is too long for a span, which has a reference to it

The same fact always has the same id.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from airflow_provider_connect.stage.definition import StreamDefinition, digest_of
from airflow_provider_connect.stage.spans import MAX_POSITION_CHARACTERS
from airflow_provider_connect.wire import Wire

NoteKind = Literal["definition", "acceptance", "alarm", "resumption", "position"]
NOTE_ID = r"^[0-9a-f]{15}$"
_REFERENCE = "#"
_POSITION = "position"


class LedgerNote(Wire):
    """One note of one stream.

    :param id: 15 hex digits.
    :param run: of the writer, or a person's command.
    :param content: plain JSON without secrets or values.
    """

    kind: NoteKind
    id: str = Field(pattern=NOTE_ID)
    noted_at: dt.datetime
    run: str
    content: dict[str, Any] = Field(default_factory=dict)


class Alarm(Wire):
    """Alarm that rows may be lost.

    :param number: of the newest span.
    :param position: its end.
    :param reason: the source's message.
    """

    number: int
    position: str = Field(max_length=MAX_POSITION_CHARACTERS)
    reason: str

    @property
    def id(self) -> str:
        """The note's id, which all alarms about one position of the stream share."""
        return digest_of(["alarm", self.number, self.position])


class Resumption(Wire):
    """The answer to an alarm.

    :param position: rows after it are read. None for all rows.
    :param answers_before: number of earlier answers. The last one is valid.
    """

    alarm: str = Field(pattern=NOTE_ID)
    position: str | None = Field(default=None, max_length=MAX_POSITION_CHARACTERS)
    answers_before: int = Field(default=0, ge=0)


class Acceptance(Wire):
    """A person's acceptance of a changed definition.

    :param published: digest of the newest publish's definition.
    :param accepted: options digest of the definition that may follow.
    """

    published: str = Field(pattern=NOTE_ID)
    accepted: str = Field(pattern=NOTE_ID)


def definition_note(definition: StreamDefinition, run: str) -> LedgerNote:
    """Return a note with a definition."""
    return _note("definition", definition.digest, run, definition)


def acceptance_note(acceptance: Acceptance, run: str) -> LedgerNote:
    """Return a note with an acceptance."""
    return _note("acceptance", digest_of([acceptance.published, acceptance.accepted]), run, acceptance)


def alarm_note(alarm: Alarm, run: str) -> LedgerNote:
    """Return a note with an alarm."""
    return _note("alarm", alarm.id, run, alarm)


def resumption_note(resumption: Resumption, run: str) -> LedgerNote:
    """Return a note with the answer to an alarm."""
    note_id = digest_of([resumption.alarm, resumption.position, resumption.answers_before])
    return _note("resumption", note_id, run, resumption)


def position_note(position: str, run: str) -> LedgerNote:
    """Return a note with a long position."""
    noted_at, note_id = dt.datetime.now(dt.UTC), digest_of([_POSITION, position])
    return LedgerNote(kind="position", id=note_id, noted_at=noted_at, run=run, content={_POSITION: position})


def position_reference(note: LedgerNote) -> str:
    """Return the reference to a note's position, for a span."""
    return f"{_REFERENCE}{note.id}"


def referenced_note(position: str) -> str | None:
    """Return the id of the note that a span's position refers to, or None if it is the position itself."""
    return position.removeprefix(_REFERENCE) if position.startswith(_REFERENCE) else None


def position_in(note: LedgerNote) -> str:
    """Return the position in a note."""
    return str(note.content[_POSITION])


def _note(kind: NoteKind, note_id: str, run: str, content: Wire) -> LedgerNote:
    noted_at = dt.datetime.now(dt.UTC)
    return LedgerNote(kind=kind, id=note_id, noted_at=noted_at, run=run, content=content.model_dump(mode="json"))


def notes_of_kind(notes: Iterable[LedgerNote], kind: NoteKind) -> list[LedgerNote]:
    """Return the notes of one kind."""
    return [note for note in notes if note.kind == kind]


def definitions_by_digest(notes: Iterable[LedgerNote]) -> dict[str, StreamDefinition]:
    """Return the definitions among notes, by digest."""
    return {note.id: StreamDefinition.model_validate(note.content) for note in notes_of_kind(notes, "definition")}


def newest_alarm(notes: Iterable[LedgerNote]) -> Alarm | None:
    """Return the alarm with the highest span number, the latest of several, or None."""
    alarms = notes_of_kind(notes, "alarm")
    newest = max(alarms, key=lambda note: (note.content["number"], note.noted_at), default=None)
    return None if newest is None else Alarm.model_validate(newest.content)


def count_answers(notes: Iterable[LedgerNote], alarm: Alarm) -> int:
    """Return how often a person has answered an alarm about lost rows."""
    return len(_answers(notes, alarm))


def last_answer(notes: Iterable[LedgerNote], alarm: Alarm) -> Resumption | None:
    """Return the last and valid answer to an alarm, or None."""
    last = max(_answers(notes, alarm), key=lambda note: (note.content["answers_before"], note.noted_at), default=None)
    return None if last is None else Resumption.model_validate(last.content)


def _answers(notes: Iterable[LedgerNote], alarm: Alarm) -> list[LedgerNote]:
    return [note for note in notes_of_kind(notes, "resumption") if note.content["alarm"] == alarm.id]
