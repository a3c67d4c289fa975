"""A sink's target in a real OpenSearch, empty for each test."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sinks._opensearch import publisher
from airflow_provider_connect.sinks.opensearch import OpenSearchSink
from airflow_provider_connect.testing import Target
from tests.equipment.opensearch.node import OpenSearchNode


def call(node: OpenSearchNode, method: str, path: str, body: Any = None) -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False
        return session.request(method, node.url + path, json=body, timeout=30)


def connection_to(node: OpenSearchNode, **fields: Any) -> Connection:
    return Connection(conn_id="opensearch_default", conn_type="http", host="http://127.0.0.1", port=node.port, **fields)


def hits(node: OpenSearchNode, alias: str) -> list[dict[str, Any]]:
    """Return the documents that readers see."""
    answer = call(node, "POST", f"/{alias}/_search?size=10000").json()
    return [] if "error" in answer else answer["hits"]["hits"]


def day_of(hit: dict[str, Any]) -> dt.date:
    return dt.date.fromisoformat(hit["_index"].split("-")[-2])


@contextlib.contextmanager
def opensearch_sink_target(
    node: OpenSearchNode, sink: OpenSearchSink, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Target]:
    """Give the target for a test, and delete its indices afterwards."""

    def rows() -> list[tuple[dt.date, str]]:
        return [(day_of(hit), hit["_source"]["event"]) for hit in hits(node, sink.alias)]

    def age() -> None:
        monkeypatch.setattr(publisher, "KEPT_SECONDS", -3600.0)

    try:
        yield Target(sink, rows, {sink.conn_id: connection_to(node)}, age)
    finally:
        call(node, "DELETE", f"/connect-{sink.alias}-*?expand_wildcards=all")
