"""The ledger: a note for each index, and the alias that names the index that was published last, the head.

A note counts if the head names its index, or if it is marked ``published``. A publish marks the note of the
head's index before it moves the head.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any, NamedTuple

from airflow_provider_connect.ledger import DefinitionInForce
from airflow_provider_connect.sink import Ledger, LedgerRow
from airflow_provider_connect.sinks._opensearch.client import OpenSearchClient
from airflow_provider_connect.sinks._opensearch.names import Names
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.window import DaySet, SourceKind

_PAGE = 1_000
_KEYWORD = {"type": "keyword"}
MAPPING = {
    "dynamic": False,
    "properties": {
        "stream": _KEYWORD,
        "index": _KEYWORD,
        "day": {"type": "date"},
        "published": {"type": "boolean"},
        "note_kind": _KEYWORD,
    },
}


class Note(NamedTuple):
    """A note with the numbers of its version. Without one the numbers are -1."""

    source: dict[str, Any]
    seq_no: int = -1
    primary_term: int = -1

    @property
    def definition(self) -> DefinitionInForce | None:
        """The stream's definition once the note's index was published."""
        return DefinitionInForce(*self.source["definition"]) if self.source.get("definition") else None


class AliasState(NamedTuple):
    """Indices that the aliases name.

    :param head: index that was published last. None before ``preflight``.
    :param indices: indices that readers see.
    """

    head: str | None
    indices: tuple[str, ...]


class OpenSearchLedger(Ledger):
    """The published days of one stream."""

    def __init__(self, client: OpenSearchClient, names: Names) -> None:
        self._client, self._names = client, names

    def row(self, day: dt.date) -> LedgerRow | None:
        """Return the day's newest row."""
        return max(self.rows(day), key=lambda row: row.generation, default=None)

    def days(self) -> DaySet:
        """Return all published days."""
        return DaySet.from_dates(row.day for row in self.rows())

    def between(self, first: dt.date, last: dt.date) -> list[LedgerRow]:
        """Return the newest row of each day, by one search."""
        rows = sorted(self.rows(), key=lambda row: (row.day, row.generation))
        newest = {row.day: row for row in rows if first <= row.day <= last}
        return [*newest.values()]

    def newest(self, day: dt.date, kind: SourceKind) -> LedgerRow | None:
        """Return the day's newest row, or the stream's for snapshots."""
        if kind != "snapshot":
            return self.row(day)
        return max(self.rows(), key=lambda row: (row.day, row.generation), default=None)

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return the row of an intent."""
        return next((row for row in self.rows(day) if row.token == token), None)

    def alias_state(self) -> AliasState:
        """Return the indices that the aliases name now."""
        indices = self._client.ask("GET", f"/{self._names.prefix}*/_alias").document
        named = {index: entry["aliases"] for index, entry in indices.items()}
        head = next((index for index, aliases in named.items() if self._names.head in aliases), None)
        return AliasState(
            head, tuple(sorted(index for index, aliases in named.items() if self._names.alias in aliases))
        )

    def rows(self, day: dt.date | None = None) -> list[LedgerRow]:
        """Return all rows of a day, or of the stream."""
        head = self.alias_state().head
        notes = {} if head in (None, self._names.first) else {head: self.note(head).source}
        if head:
            terms: list[dict[str, Any]] = [{"term": {"published": True}}]
            terms += [] if day is None else [{"term": {"day": day.isoformat()}}]
            notes |= {source["index"]: source for source in self._search(terms)}
        rows = [LedgerRow.model_validate(source["row"]) for source in notes.values() if "row" in source]
        return [row for row in rows if day in (None, row.day)]

    def definition_in_force(self) -> DefinitionInForce | None:
        """Return the definition of the stream's newest publish that has one."""
        return self.definition_at(self.alias_state())

    def definition_at(self, alias_state: AliasState) -> DefinitionInForce | None:
        """Return the definition in force with the publish that the head names."""
        return None if alias_state.head is None else self.note(alias_state.head).definition

    def notes(self) -> list[LedgerNote]:
        """Return the notes of the stream that are not of one index, without positions."""
        if self.alias_state().head is None:
            return []
        terms = {"filter": {"exists": {"field": "note_kind"}}, "must_not": {"term": {"note_kind": "position"}}}
        return [LedgerNote.model_validate(source["note"]) for source in self._search([{"bool": terms}])]

    def position_note(self, note_id: str) -> LedgerNote | None:
        """Return the note with a long position, or None."""
        note = self.note(self._note_name("position", note_id))
        return LedgerNote.model_validate(note.source["note"]) if note.source else None

    def add(self, note: LedgerNote) -> None:
        """Write a note of the stream. An existing note stays."""
        name = self._note_name(note.kind, note.id)
        self.write(name, {"note_kind": note.kind, "note": note.model_dump(mode="json")}, Note({}))

    def _note_name(self, kind: str, note_id: str) -> str:
        return f"{self._names.stream}-{kind}-{note_id}"

    def note(self, index: str) -> Note:
        """Return an index's note, also one that was just written."""
        status, document = self._client.ask("GET", self._path(index), allowed=(404,))
        if status == 404:
            return Note({})
        return Note(document["_source"], document["_seq_no"], document["_primary_term"])

    def write(self, index: str, source: dict[str, Any], over: Note) -> bool:
        """Write a note over the version that was read. Returns False if it has changed since."""
        params: dict[str, Any] = {"refresh": "true"}
        if over.seq_no < 0:
            params["op_type"] = "create"
        else:
            params |= {"if_seq_no": over.seq_no, "if_primary_term": over.primary_term}
        entry = {"stream": self._names.stream, "index": index} | source
        return self._client.ask("PUT", self._path(index), entry, params=params, allowed=(409,)).status != 409

    def mark_published(self, index: str) -> None:
        """Mark the note of the head, so that it counts when the head moves on."""
        while (note := self.note(index)).source and not note.source.get("published"):
            # A twin of the attempt may write its note once more: without the mark, the row would be lost.
            self.write(index, note.source | {"published": True}, note)

    def _path(self, index: str) -> str:
        return f"/{self._names.ledger}/_doc/{index}"

    def _search(self, terms: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        filters = [{"term": {"stream": self._names.stream}}, *terms]
        query = {"size": _PAGE, "sort": ["index"], "query": {"bool": {"filter": filters}}}
        self._client.ask("POST", f"/{self._names.ledger}/_refresh")
        while True:
            hits = self._client.ask("POST", f"/{self._names.ledger}/_search", query).document["hits"]["hits"]
            yield from (hit["_source"] for hit in hits)
            if len(hits) < _PAGE:
                return
            query["search_after"] = hits[-1]["sort"]
