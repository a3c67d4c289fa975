"""Long positions of followed streams: a span has a reference, and a note of the ledger has the position.

The note is written before the publish that refers to it, and never changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_connect.capabilities.publisher import KeepsNotes
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import Publisher
from airflow_provider_connect.stage.notes import position_in, position_note, position_reference, referenced_note
from airflow_provider_connect.stage.spans import MAX_POSITION_CHARACTERS


@dataclass(frozen=True)
class PositionKeeper:
    """Keeps long positions in a sink's ledger.

    :param run: of the intent, for people.
    """

    publisher: Publisher
    run: str

    def follow(self, follow: Callable[[str | None, str | None], str], after: str | None, to: str | None) -> str:
        """Call a poller with positions instead of references, and return a reference to a long answer."""
        return self._shorten(follow(self._expand(after), self._expand(to)))

    def _expand(self, position: str | None) -> str | None:
        note_id = None if position is None else referenced_note(position)
        if note_id is None:
            return position
        note = self.publisher.ledger.position_note(note_id)
        if note is None:
            raise ConfigError(
                f"the ledger names the position {note_id}, but its note is missing. Restore the notes of the ledger, "
                "or load the stream into its own target"
            )
        return position_in(note)

    def _shorten(self, position: str) -> str:
        if len(position) <= MAX_POSITION_CHARACTERS:
            return position
        if not isinstance(self.publisher, KeepsNotes):
            raise ConfigError(
                f"the stream's position has {len(position):,} characters, and this sink keeps "
                f"{MAX_POSITION_CHARACTERS:,}. Share the stream out over several tasks"
            )
        note = position_note(position, self.run)
        self.publisher.note(note)
        return position_reference(note)
