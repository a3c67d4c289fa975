"""Long positions: a reference in the span, the position in a note."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.capabilities.publisher import KeepsNotes
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.spark.capabilities.positions import PositionKeeper
from airflow_provider_connect.stage.notes import LedgerNote, position_note
from airflow_provider_connect.stage.spans import MAX_POSITION_CHARACTERS

LONG = "1,2 " * MAX_POSITION_CHARACTERS


class Notes(KeepsNotes):
    """A publisher that has notes alone, and is its own ledger."""

    def __init__(self) -> None:
        self.notes: dict[str, LedgerNote] = {}

    @property
    def ledger(self) -> Notes:
        return self

    def note(self, note: LedgerNote) -> None:
        self.notes[note.id] = note

    def position_note(self, note_id: str) -> LedgerNote | None:
        return self.notes.get(note_id)


def keeper(publisher: Any) -> PositionKeeper:
    return PositionKeeper(publisher, "dag/run/task")


def test_a_source_sees_positions_and_the_ledger_references() -> None:
    publisher = Notes()
    reference = keeper(publisher).follow(lambda after, to: LONG, None, None)
    assert len(reference) < 20
    seen: list[str | None] = []
    again = keeper(publisher).follow(lambda *positions: seen.extend(positions) or LONG, "short", reference)
    assert (seen, again) == (["short", LONG], reference), "the same position has the same reference"
    assert keeper(publisher).follow(lambda after, to: str(after), "short", None) == "short"
    assert len(publisher.notes) == 1


def test_a_lost_note_and_a_sink_without_notes_are_refused() -> None:
    reference = f"#{position_note(LONG, 'r').id}"
    with pytest.raises(ConfigError, match="its note is missing"):
        keeper(Notes()).follow(lambda after, to: LONG, reference, None)
    with pytest.raises(ConfigError, match=r"has 4,000 characters, and this sink keeps 1,000"):
        keeper(object()).follow(lambda after, to: LONG, None, None)
