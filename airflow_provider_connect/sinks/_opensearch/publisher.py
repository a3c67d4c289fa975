"""Publishes a day into an index of its own, and switches the alias to it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.capabilities.publisher import KeepsNotes, StagesByExecutors, Sweeps
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.ledger import DefinitionInForce
from airflow_provider_connect.publishing import ledger_row, next_generation, require_definition
from airflow_provider_connect.sink import Ledger, LedgerRow, Publish, Publisher, StreamKey
from airflow_provider_connect.sinks._opensearch import ledger as notes
from airflow_provider_connect.sinks._opensearch.bulk import SWEPT, BulkTarget, send
from airflow_provider_connect.sinks._opensearch.client import OpenSearchClient, error_type
from airflow_provider_connect.sinks._opensearch.documents import read_documents, requests_of
from airflow_provider_connect.sinks._opensearch.ledger import AliasState, OpenSearchLedger
from airflow_provider_connect.sinks._opensearch.mapping import changed_types, mapping_of
from airflow_provider_connect.sinks._opensearch.names import Names, write_alias
from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.stage.rows import json_column_problems
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sinks._opensearch.options import OpenSearchOptions

KEPT_SECONDS = 86_400.0
"""Age at which an index that readers do not see may be deleted: one of them may still be reading it."""
_MAX_SWITCHES = 100


@dataclass(frozen=True)
class Token:
    """An attempt's index, and the columns that messages may name."""

    index: str
    columns: tuple[str, ...]


class OpenSearchPublisher(Publisher, KeepsNotes, StagesByExecutors, Sweeps):
    """Publisher of one stream."""

    def __init__(self, sink: OpenSearchOptions, key: StreamKey, connection: Connection) -> None:
        self._sink, self._client = sink, OpenSearchClient(connection)
        self._names = Names(sink.alias, key)
        self._ledger = OpenSearchLedger(self._client, self._names)

    @property
    def ledger(self) -> Ledger:
        """The stream's ledger."""
        return self._ledger

    def preflight(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Create the ledger and the head, and compare columns with the published ones."""
        problems = json_column_problems(schema) + self._sink.kind_problems(kind)
        problems += [
            f"column {name!r} of id_columns is not in the rows: they have {', '.join(schema.names)}"
            for name in self._sink.id_columns
            if name not in schema.names
        ]
        if problems := problems or self._lost_notes():
            return problems
        self._create(self._names.ledger, {"mappings": notes.MAPPING})
        # Created once and never deleted: of all who come first, one alone can take the head from it.
        self._create(self._names.first, {"aliases": {self._names.head: {}}, "settings": {"number_of_shards": 1}})
        indices = self._client.ask("GET", f"/{self._sink.alias}", allowed=(404,))
        if indices.status == 200 and self._sink.alias in indices.document:
            return [f"{self._sink.alias!r} is an index: choose another alias, or delete the index"]
        return self._changed_types(schema)

    def _lost_notes(self) -> list[str]:
        """Return a problem if the ledger lacks the note of the newest publish, which was written before it."""
        head = self._ledger.alias_state().head
        if head in (None, self._names.first) or self._ledger.note(head).source:
            return []
        return [
            f"index {self._names.ledger} lacks the note of {head}, the newest publish: it was deleted or replaced, and "
            "days would count as never published. Restore it from a snapshot of the cluster, or choose another alias"
        ]

    def _changed_types(self, schema: pa.Schema) -> list[str]:
        head = self._ledger.alias_state().head
        if head in (None, self._names.first):
            return []
        status, document = self._client.ask("GET", f"/{head}/_mapping", allowed=(404,))
        if status == 404:
            return []
        published = document[head]["mappings"].get("properties", {})
        return changed_types(schema, self._sink.mapping, published)

    def _create(self, index: str, body: dict[str, Any]) -> None:
        status, document = self._client.ask("PUT", f"/{index}", body, allowed=(400,))
        if status == 400 and error_type(document) != "resource_already_exists_exception":
            raise ConfigError(
                f"OpenSearch refuses to create index {index} ({error_type(document)}). Correct mapping and settings"
            )

    def begin(self, publish: Publish) -> Token:
        """Create the attempt's index."""
        index = self._names.new_index(publish.day.date)
        body = {
            "mappings": mapping_of(publish.schema, self._sink.mapping),
            "settings": {"index": {"refresh_interval": "-1"}} | self._sink.settings,
            "aliases": {write_alias(index): {}},
        }
        self._create(index, body)
        return Token(index, tuple(publish.schema.names))

    def put(self, token: Token, stage: str, share: tuple[StagedFile, ...]) -> int:
        """Write the share's rows. Returns their number."""
        rows, target = 0, BulkTarget(self._client, write_alias(token.index), token.columns)
        for file in share:
            for documents in read_documents(stage, file.path, self._sink.id_columns):
                for request in requests_of(documents, self._sink.bulk_bytes, self._sink.bulk_documents):
                    send(target, request)
                rows += len(documents)
        return rows

    def commit(self, publish: Publish, token: Token, receipts: list[int]) -> LedgerRow:
        """Switch the alias to the attempt's index."""
        documents: int | None = None
        for _ in range(_MAX_SWITCHES):
            note = self._ledger.note(token.index)  # before the ledger, so that it does not overwrite a newer one
            alias_state = self._ledger.alias_state()
            published_row = self._ledger.published(publish.day.date, publish.intent.token)
            if published_row is not None:
                return published_row
            if documents is None:
                documents = self._complete(token.index, sum(receipts))
            if "swept" in note.source:
                raise RetriableError(SWEPT)
            definition = self._ledger.definition_at(alias_state)
            require_definition(publish, definition)
            newest = self._ledger.newest(publish.day.date, publish.kind)
            row = ledger_row(publish, next_generation(publish, newest), rows=documents)
            if publish.definition is not None:
                definition = DefinitionInForce(publish.definition, publish.intent.task_digest)
            source = {
                "day": f"{row.day}",
                "replaces": alias_state.head,
                "row": row.model_dump(mode="json"),
                "definition": definition,
            }
            if self._switches(publish, token.index, alias_state, source, note):
                return row
        raise RetriableError(f"{publish.key} {publish.day}: other days of the stream were published first, many times")

    def _complete(self, index: str, rows: int) -> int:
        """Make the documents searchable, and return their number."""
        interval = self._sink.settings.get("refresh_interval")
        settings = {"index": {"refresh_interval": interval}}
        for method, path, body in (("PUT", "_settings", settings), ("POST", "_refresh", None), ("GET", "_count", None)):
            status, document = self._client.ask(method, f"/{index}/{path}", body, allowed=(404,))
            if status == 404:
                raise RetriableError(SWEPT)
        count = int(document["count"])
        if count > rows or (count < rows and not self._sink.id_columns) or (rows and not count):
            raise RetriableError(f"index {index} has {count} documents of {rows} rows: it stays unpublished")
        return count

    def _switches(
        self, publish: Publish, index: str, alias_state: AliasState, source: dict[str, Any], note: notes.Note
    ) -> bool:
        """Write the note, then switch. Returns False if another publish came first."""
        if alias_state.head is None:
            raise ConfigError(f"alias {self._names.head} is gone. Restore it from a snapshot of the cluster")
        if alias_state.head != self._names.first:
            self._ledger.mark_published(alias_state.head)
        if not self._ledger.write(index, source, note):
            return False
        whole = self._sink.replaces_whole(publish.kind)
        old = [other for other in alias_state.indices if whole or self._names.day_of(other) == publish.day.date]
        removed = [(alias_state.head, self._names.head), *((other, self._sink.alias) for other in old)]
        actions: list[dict[str, Any]] = [
            {"remove": {"index": other, "alias": alias, "must_exist": True}} for other, alias in removed
        ]
        actions += [{"add": {"index": index, "alias": alias}} for alias in (self._names.head, self._sink.alias)]
        return self._client.ask("POST", "/_aliases", {"actions": actions}, allowed=(404,)).status != 404

    def note(self, note: LedgerNote) -> None:
        """Add a note to the ledger."""
        self._ledger.add(note)

    def abort(self, publish: Publish, token: Token) -> None:
        """Delete the attempt's index, unless it may be published."""
        self._bury(token.index)

    def leftovers(self) -> list[str]:
        """Return the indices that :meth:`sweep` would delete."""
        alias_state = self._ledger.alias_state()
        return [index for index in self._old() if not self._may_show(index, self._ledger.note(index), alias_state)]

    def sweep(self) -> int:
        """Delete the indices that readers do not see, a day after they were created."""
        return sum(self._bury(index) for index in self._old())

    def _old(self) -> list[str]:
        params = {"flat_settings": "true"}
        indices = self._client.ask("GET", f"/{self._names.prefix}*/_settings", params=params).document
        newest = (time.time() - KEPT_SECONDS) * 1000
        return [
            index
            for index, entry in indices.items()
            if self._names.day_of(index) and float(entry["settings"]["index.creation_date"]) < newest
        ]

    @staticmethod
    def _may_show(index: str, note: notes.Note, alias_state: AliasState) -> bool:
        """Tell whether readers see an index, or a switch that is on its way would show it."""
        if index == alias_state.head or index in alias_state.indices:
            return True
        return (
            "replaces" in note.source
            and not note.source.get("published")
            and note.source["replaces"] == alias_state.head
        )

    def _bury(self, index: str) -> bool:
        note = self._ledger.note(index)  # before the aliases, so that a later publish changes its version
        if self._may_show(index, note, self._ledger.alias_state()):
            return False
        # A commit does not overwrite this.
        if not note.source.get("published") and not self._ledger.write(index, note.source | {"swept": True}, note):
            return False
        return self._client.ask("DELETE", f"/{index}", allowed=(404,)).status != 404

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
