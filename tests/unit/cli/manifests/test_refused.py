"""Files that are no manifest are refused in one sentence, and streams without counterpart say what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.cli.manifests.translation import translate
from airflow_provider_connect.cli.manifests.trees import MAX_BYTES, read_tree
from airflow_provider_connect.errors import ConfigError
from tests.unit.cli.manifests.own import manifest, option, paged, stream, translated

HEAD = "version: 6.0.0\ntype: DeclarativeSource\n"
FILES = {
    "no YAML": ("a: [", "is not valid YAML at line"),
    "no text": (b"\xff\xfe\x00", "cannot be read"),
    "no object": ("- 1", "holds no object"),
    "no manifest": ("openapi: 3.0.0", "neither an Airbyte manifest"),
    "no version": ("type: DeclarativeSource\nstreams: []", "has version"),
    "a later version": ("version: 12.0.0\ntype: DeclarativeSource\nstreams: []", "has version '12.0.0'"),
    "no streams": (f"{HEAD}streams: []", "has no streams"),
    "a circle": (
        f"{HEAD}definitions: {{a: {{$ref: '#/definitions/a'}}}}\nstreams: ['#/definitions/a']",
        "form a circle",
    ),
    "no target": (f"{HEAD}streams: [{{$ref: '#/definitions/a'}}]", "has no target"),
    "another file": (f"{HEAD}streams: [{{$ref: 'other.yaml#/a'}}]", "refers to another file"),
    "a spec that is a list": (f"{HEAD}streams: []\nspec: [1]", "another form"),
    "resources that are numbers": ("client: {}\nresources: [{name: a, endpoint: 5}]", "another form"),
    "an anchor inside itself": (f"{HEAD}streams: &a [*a]", "nested too deeply"),
    "deep nesting": (f"{HEAD}streams: {'[' * 500}{']' * 500}", "nested too deeply"),
    "a bomb": (
        HEAD
        + "a0: &a0 [1, 1]\n"
        + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
        + "streams: *a39",
        "repeat too much",
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_no_manifest_is_refused_in_a_sentence(kind: str, tmp_path: Path) -> None:
    content, message = FILES[kind]
    file = tmp_path / "manifest.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match=message) as raised:
        translate(read_tree(file), "api", {})
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    with file.open("wb") as target:
        target.truncate(MAX_BYTES + 1)
    with pytest.raises(ConfigError, match="more than 16 MiB"):
        read_tree(file)


CUSTOM = {"type": "CustomThing", "class_name": "source_x.components.Thing"}
STREAMS: dict[str, tuple[dict[str, Any], str]] = {
    "custom requester": ({"requester": {"type": "CustomRequester", "class_name": "a.B"}}, "custom code, 'a.B'"),
    "custom extractor": ({"selector": {"extractor": CUSTOM}}, "extracted by 'source_x.components.Thing'"),
    "custom paginator": ({"paginator": CUSTOM}, "pages are requested by"),
    "custom strategy": ({"paginator": paged(CUSTOM, option("page"))}, "pages are requested by"),
    "custom router": ({"router": CUSTOM}, "partitions are listed by"),
    "unused static list": (
        {"router": {"type": "ListPartitionRouter", "values": ["a", "b"]}},
        "the request has no {parent.partition}",
    ),
    "other method": ({"requester": {"http_method": "DELETE"}}, "requests by DELETE"),
    "secret in the path": ({"path": "/{{ config['api_key'] }}/things"}, "holds the secret config 'api_key'"),
    "host of a parent": ({"requester": {"url_base": "https://{{ response.x }}.example.com"}}, "has no counterpart"),
    "page in a header": (
        {"paginator": paged({"type": "PageIncrement"}, option("page", "header"))},
        "the page is sent in a header",
    ),
    "page in the form of a GET": (
        {"paginator": paged({"type": "PageIncrement"}, option("page", "body_data"))},
        "paging.put: requires request.method='POST'",
    ),
    "computed token": (
        {"paginator": paged({"type": "CursorPagination", "cursor_value": "{{ response.a | length }}"}, option("p"))},
        "computed by an expression",
    ),
    "body as text": ({"requester": {"http_method": "POST", "request_body_data": "a=b"}}, "its body is text"),
    "body by GET": ({"requester": {"request_body_json": {"a": 1}}}, "a body by GET"),
    "strange form": ({"selector": {"extractor": [1]}}, "another form"),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_without_counterpart_says_why(kind: str) -> None:
    parts, reason = STREAMS[kind]
    translation = translated(manifest(stream(**parts), stream("good")))
    assert reason in translation.refused["things"]
    assert [item.name for item in translation.streams] == ["good"]


def test_a_job_says_that_it_is_one() -> None:
    job = stream() | {"retriever": {"type": "AsyncRetriever"}}
    assert "creates a job" in translated(manifest(job, stream("good"))).refused["things"]


def test_literal_credentials_are_never_written() -> None:
    tree = manifest(stream(requester={"request_parameters": {"api_key": "abc123secret"}}), stream("good"))
    reason = translated(tree).refused["things"]
    assert "credential" in reason
    assert "abc123secret" not in reason
