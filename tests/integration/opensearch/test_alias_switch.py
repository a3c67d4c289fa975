"""What a document sink's commit would rest on, measured on a real OpenSearch: it has no sink yet."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import requests

from tests.equipment.opensearch.node import HERE, SOURCE_SHA256, OpenSearchNode, opensearch

__all__ = ["opensearch"]

pytestmark = pytest.mark.slow


def call(node: OpenSearchNode, method: str, path: str, body: Any = None) -> requests.Response:
    return requests.request(method, node.url + path, json=body, timeout=30)


def switch(node: OpenSearchNode, alias: str, old: str, new: str) -> int:
    remove = {"remove": {"index": old, "alias": alias, "must_exist": True}}
    add = {"add": {"index": new, "alias": alias}}
    return call(node, "POST", "/_aliases", {"actions": [remove, add]}).status_code


def bulk(node: OpenSearchNode, path: str, *lines: dict[str, Any]) -> requests.Response:
    body = "".join(json.dumps(line) + "\n" for line in lines)
    return requests.post(node.url + path, data=body, headers={"Content-Type": "application/x-ndjson"}, timeout=30)


def test_the_class_is_compiled_of_the_source_beside_it() -> None:
    assert hashlib.sha256((HERE / "OpenSearchNode.java").read_bytes()).hexdigest() == SOURCE_SHA256


def test_a_stale_switch_of_an_alias_changes_nothing(opensearch: OpenSearchNode) -> None:
    for index in ("s1", "s2", "s3"):
        call(opensearch, "PUT", f"/{index}").raise_for_status()
    call(opensearch, "PUT", "/s1/_alias/s").raise_for_status()
    assert switch(opensearch, "s", "s1", "s2") == 200
    assert switch(opensearch, "s", "s1", "s3") == 404
    assert list(call(opensearch, "GET", "/_alias/s").json()) == ["s2"]


def test_a_bulk_through_a_removed_alias_writes_nothing(opensearch: OpenSearchNode) -> None:
    call(opensearch, "PUT", "/r1", {"aliases": {"attempt-1": {}}}).raise_for_status()
    path = "/attempt-1/_bulk?require_alias=true&refresh=true"
    assert bulk(opensearch, path, {"index": {"_id": "a"}}, {"n": 1}).json()["errors"] is False
    call(opensearch, "DELETE", "/r1/_alias/attempt-1").raise_for_status()
    late = bulk(opensearch, path, {"index": {"_id": "b"}}, {"n": 2}).json()
    assert [item["index"]["status"] for item in late["items"]] == [404]
    assert call(opensearch, "GET", "/r1/_count").json()["count"] == 1


def test_an_id_over_512_bytes_refuses_its_neighbours_too(opensearch: OpenSearchNode) -> None:
    call(opensearch, "PUT", "/i1").raise_for_status()
    lines: list[dict[str, Any]] = [{"index": {"_id": "a"}}, {"n": 1}, {"index": {"_id": "x" * 513}}, {"n": 2}]
    assert bulk(opensearch, "/i1/_bulk?refresh=true", *lines).status_code == 400
    assert call(opensearch, "GET", "/i1/_count").json()["count"] == 0
