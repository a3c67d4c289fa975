"""Bulk requests, whose items succeed or fail one by one."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from airflow_provider_connect.errors import DataError, RetriableError
from airflow_provider_connect.patience import FROM_HALF, Patience, doubling_pauses
from airflow_provider_connect.sinks._opensearch.client import OpenSearchClient, error_type
from airflow_provider_connect.sinks._opensearch.documents import Document

PATIENCE_SECONDS = 300.0
_PAUSES = doubling_pauses(0.5, 30.0)
_BUSY = (429, 503)
_FIELD = re.compile(r"field \[([^\]]+)\]")
SWEPT = "the attempt's index is gone, perhaps swept, before it was published: the next try fills another"


def send(client: OpenSearchClient, alias: str, documents: Sequence[Document], columns: Collection[str]) -> None:
    """Write documents through an alias. Busy items alone are sent again.

    :param columns: names that a message may quote.
    :raises DataError: the server refuses a document.
    :raises RetriableError: the server stays busy, or the alias is gone.
    """
    patience = Patience(PATIENCE_SECONDS, _PAUSES, jitter=FROM_HALF)
    waiting = [*documents]
    while waiting := _send_once(client, alias, waiting, columns):
        if not patience.wait_and_retry():
            raise RetriableError(f"connection {client.name!r}: OpenSearch is busy: {len(waiting)} documents wait")


def _send_once(
    client: OpenSearchClient, alias: str, documents: list[Document], columns: Collection[str]
) -> list[Document]:
    """Return the documents to send again."""
    body = b"".join(document.lines for document in documents)
    path, params = f"/{alias}/_bulk", {"require_alias": "true"}
    status, answer = client.ask("POST", path, body, params=params, allowed=(400, 404, *_BUSY, 413))
    if status in _BUSY:
        return documents
    if status == 404:
        raise RetriableError(SWEPT)
    if status in (400, 413):
        return _send_halves(client, alias, documents, columns, status, error_type(answer))
    items = [next(iter(item.values())) for item in answer["items"]]
    return [
        document for document, item in zip(documents, items, strict=True) if _is_busy(item, document, client, columns)
    ]


def _send_halves(
    client: OpenSearchClient,
    alias: str,
    documents: list[Document],
    columns: Collection[str],
    status: int,
    reason: str,
) -> list[Document]:
    if len(documents) == 1:
        size = len(documents[0].lines)
        raise DataError(
            f"row {documents[0].position}: OpenSearch refuses its document of {size:,} bytes with status {status} "
            f"({'http.max_content_length' if status == 413 else reason})"
        )
    middle = len(documents) // 2
    halves = documents[:middle], documents[middle:]
    return [document for half in halves for document in _send_once(client, alias, half, columns)]


def _is_busy(item: dict[str, Any], document: Document, client: OpenSearchClient, columns: Collection[str]) -> bool:
    """Return True if an item must be sent again.

    :raises DataError: it is refused.
    """
    status = item["status"]
    if status < 300 or status == 409:  # 409: a later row of the same _id is there
        return False
    if status in _BUSY:
        return True
    if status == 404:
        raise RetriableError(SWEPT)
    kind = error_type(item)
    if status == 403:
        raise RetriableError(f"connection {client.name!r}: OpenSearch blocks writes ({kind}), perhaps its disk is full")
    raise DataError(
        f"row {document.position}: OpenSearch refuses the document with status {status} ({kind})"
        f"{_field_named(item, columns)}. Cast the column, or choose its type in mapping"
    )


def _field_named(item: dict[str, Any], columns: Collection[str]) -> str:
    """Return the field that an error is about, if it is one of ours. The rest of the reason quotes values."""
    match = _FIELD.search(str(item.get("error", {}).get("reason", "")))
    name = match[1] if match else ""
    return f" for column {name!r}" if name.partition(".")[0] in columns else ""
