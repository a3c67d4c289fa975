"""Bulk requests, whose items succeed or fail one by one."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_connect.errors import DataError, RetriableError
from airflow_provider_connect.patience import FROM_HALF, Patience, doubling_pauses
from airflow_provider_connect.sinks._opensearch.client import OpenSearchClient, error_type
from airflow_provider_connect.sinks._opensearch.documents import Document

PATIENCE_SECONDS = 300.0
_PAUSES = doubling_pauses(0.5, 30.0)
_TOO_MANY, _SERVER_ERROR = 429, 500
_BUSY = (_TOO_MANY, 503)
_FIELD = re.compile(r"field \[([^\]]+)\]")
SWEPT = "the attempt's index is gone, perhaps swept, before it was published: the next try fills another"


@dataclass(frozen=True)
class BulkTarget:
    """Where documents go.

    :param alias: of one index. Requests through an alias that is gone create nothing.
    :param columns: names that a message may quote.
    """

    client: OpenSearchClient
    alias: str
    columns: Collection[str]


def send(target: BulkTarget, documents: Sequence[Document]) -> None:
    """Write documents. Busy items alone are sent again.

    :raises DataError: the server refuses a document.
    :raises RetriableError: the server stays busy, or the alias is gone.
    """
    patience = Patience(PATIENCE_SECONDS, _PAUSES, jitter=FROM_HALF)
    waiting = [*documents]
    while waiting := _send_once(target, waiting):
        if not patience.wait_and_retry():
            raise RetriableError(
                f"connection {target.client.name!r}: OpenSearch is busy: {len(waiting)} documents wait"
            )


def _send_once(target: BulkTarget, documents: list[Document]) -> list[Document]:
    """Return the documents to send again."""
    body = b"".join(document.lines for document in documents)
    path, params = f"/{target.alias}/_bulk", {"require_alias": "true"}
    status, answer = target.client.ask("POST", path, body, params=params, allowed=(400, 404, 413, *_BUSY))
    if status in _BUSY:
        return documents
    if status == 404:
        raise RetriableError(SWEPT)
    if status in (400, 413):
        return _send_halves(target, documents, status, error_type(answer))
    items = [next(iter(item.values())) for item in answer["items"]]
    return [document for document, item in zip(documents, items, strict=True) if _is_busy(item, document, target)]


def _send_halves(target: BulkTarget, documents: list[Document], status: int, reason: str) -> list[Document]:
    if len(documents) == 1:
        [document] = documents
        raise DataError(
            f"row {document.position}: OpenSearch refuses its document of {len(document.lines):,} bytes with status "
            f"{status} ({'http.max_content_length' if status == 413 else reason}). Leave out or shorten a column"
        )
    middle = len(documents) // 2
    halves = documents[:middle], documents[middle:]
    return [document for half in halves for document in _send_once(target, half)]


def _is_busy(item: dict[str, Any], document: Document, target: BulkTarget) -> bool:
    """Return True if an item must be sent again.

    :raises DataError: it is refused.
    """
    status = item["status"]
    if status < 300 or status == 409:  # 409: a later row of the same _id is there
        return False
    if status == _TOO_MANY or status >= _SERVER_ERROR:
        return True
    if status == 404:
        raise RetriableError(SWEPT)
    kind = error_type(item)
    if status == 403:
        name = target.client.name
        raise RetriableError(f"connection {name!r}: OpenSearch blocks writes ({kind}), perhaps its disk is full")
    raise DataError(
        f"row {document.position}: OpenSearch refuses the document with status {status} ({kind})"
        f"{_column_named(item, target.columns)}. Cast the column, or choose its type in mapping"
    )


def _column_named(item: dict[str, Any], columns: Collection[str]) -> str:
    """Return the field that an error is about, if it is one of ours. The rest of the reason quotes values."""
    match = _FIELD.search(str(item.get("error", {}).get("reason", "")))
    name = match[1] if match else ""
    return f" for column {name!r}" if name.partition(".")[0] in columns else ""
