"""Stands in for the store of the worked example: a search engine's primitives, and nothing atomic beyond them.

What one call does to one document, or to one alias, happens at once; a bulk write happens document by document, with
other callers in between. An alias call is a compare-and-set: Elasticsearch's has ``must_exist`` for that. Documents
have a ``seq_no``, as Elasticsearch's have for ``if_seq_no``.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

from tests.equipment.examples.json_server import Answer

USER, PASSWORD = "writer", "store-password-8d02"


class IndexStore:
    """Indexes and aliases, in memory.

    :ivar now: the store's clock, in seconds.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.indexes: dict[str, dict[str, tuple[int, Any]]] = {}
        self.aliases: dict[str, str] = {}
        self._made: dict[str, float] = {}
        self._seq_no = itertools.count()
        self._lock = threading.Lock()

    def __call__(self, method: str, path: str, query: dict[str, str], posted: Any) -> Answer:
        match (method, *path.strip("/").split("/")):
            case "POST", "indexes":
                return self._create(posted["name"])
            case "GET", "indexes":
                return self._list(query["prefix"])
            case "POST", "indexes", name, "delete":
                return self._delete(name)
            case "POST", "indexes", name, "bulk":
                return self._bulk(name, posted["documents"])
            case "GET", "indexes", name, "documents", document:
                return self._get(name, document)
            case "POST", "indexes", name, "documents", document:
                return self._put(name, document, posted["source"], posted["if_seq_no"])
            case "GET", "aliases":
                return 200, {a: i for a, i in self.aliases.copy().items() if a.startswith(query["prefix"])}
            case "POST", "aliases", alias:
                return self._switch(alias, posted["from"], posted["to"])
        return 404, {"error": "no such resource"}

    def search(self, prefix: str) -> list[tuple[str, Any]]:
        """Return alias and document of all that readers see."""
        with self._lock:
            seen = [(alias, index) for alias, index in self.aliases.items() if alias.startswith(prefix)]
            return [(alias, source) for alias, index in seen for _, source in self.indexes[index].values()]

    def _create(self, name: str) -> Answer:
        with self._lock:
            if name in self.indexes:
                return 409, {"error": "the index exists"}
            self.indexes[name] = {}
            self._made[name] = self.now
            return 201, {}

    def _list(self, prefix: str) -> Answer:
        with self._lock:
            return 200, {name: self.now - self._made[name] for name in self.indexes if name.startswith(prefix)}

    def _delete(self, name: str) -> Answer:
        """Delete an index, and with it the aliases that name it: nothing here protects what readers see."""
        with self._lock:
            if self.indexes.pop(name, None) is None:
                return 404, {"error": "no such index"}
            self.aliases = {alias: index for alias, index in self.aliases.items() if index != name}
            return 200, {}

    def _bulk(self, name: str, documents: dict[str, Any]) -> Answer:
        for document, source in documents.items():
            status, answer = self._put(name, document, source, None)
            if status != 200:
                return status, answer
        return 200, {}

    def _get(self, name: str, document: str) -> Answer:
        with self._lock:
            if document not in self.indexes.get(name, {}):
                return 404, {"error": "no such document"}
            seq_no, source = self.indexes[name][document]
            return 200, {"seq_no": seq_no, "source": source}

    def _put(self, name: str, document: str, source: Any, if_seq_no: int | None) -> Answer:
        """Write a document; if_seq_no: None for always, -1 if there is none yet."""
        with self._lock:
            if name not in self.indexes:
                return 404, {"error": "no such index"}
            here, _ = self.indexes[name].get(document, (-1, None))
            if if_seq_no not in (None, here):
                return 409, {"error": "the document has changed"}
            self.indexes[name][document] = (next(self._seq_no), source)
            return 200, {}

    def _switch(self, alias: str, here: str | None, there: str) -> Answer:
        with self._lock:
            if there not in self.indexes:
                return 404, {"error": "no such index"}
            if self.aliases.get(alias) != here:
                return 409, {"error": "the alias names another index"}
            self.aliases[alias] = there
            return 200, {}
