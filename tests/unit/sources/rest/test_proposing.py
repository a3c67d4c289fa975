"""What is proposed: whatever an API looks like, a declaration that can be read and says what it guesses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError, ConnectError, DataError
from airflow_provider_connect.sources._rest.proposing.declaration import declaration_yaml
from airflow_provider_connect.sources._rest.proposing.openapi import OpenApi
from airflow_provider_connect.sources._rest.proposing.response_shape import Parameter, ResponseShape, detect_shape
from airflow_provider_connect.sources.rest import RestSource

RECORD = {"id": 7, "name": "a", "created_at": "2026-03-01T10:00:00Z", "price": 1.5, "tags": ["x"], "gone": None}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def loaded(text: str, folder: Path) -> RestSource:
    path = folder / "proposed.yaml"
    path.write_text(text, encoding="utf-8")
    return RestSource.from_file(path, conn_id="shop")


def by_answer(answer: Any, parameters: list[Parameter] | None = None, **headers: str) -> str:
    return declaration_yaml("/v1/items", parameters or [], detect_shape(json.dumps(answer).encode(), headers))


def test_a_sample_gives_columns_key_and_the_place_of_the_records(tmp_path: Path) -> None:
    text = by_answer({"meta": {"total": 3}, "data": {"items": [RECORD, RECORD | {"id": 8, "price": 2}]}})
    source = loaded(text, tmp_path)
    kinds = {name: column.type for name, column in source.records.columns.items()}
    assert kinds == {"id": "bigint", "name": "string", "created_at": "timestamp", "price": "double"}
    assert (source.records.at, source.records.key, source.stream) == ("/data/items", ("id",), "items")
    assert source.snapshot == "replace"
    assert "2026-03-01" not in text, "no value of a record"


@pytest.mark.parametrize(
    ("answer", "names", "headers", "expected"),
    [
        ([RECORD], [], {"link": '<https://x/?page=2>; rel="next"'}, {"kind": "link_header", "rule": "no_token"}),
        ({"items": [RECORD], "next": "https://x/2"}, [], {}, {"kind": "next_link", "at": "next", "rule": "no_token"}),
        ({"value": [RECORD], "@odata.nextLink": "https://x"}, [], {}, {"kind": "next_link", "at": "@odata.nextLink"}),
        (
            {"items": [RECORD], "meta": {"next_cursor": "abc"}},
            ["cursor"],
            {},
            {"kind": "cursor", "at": "/meta/next_cursor", "param": "cursor"},
        ),
        (
            {"data": [RECORD], "has_more": True},
            ["starting_after"],
            {},
            {"kind": "last_key", "param": "starting_after", "rule": "flag"},
        ),
        ({"items": [RECORD], "total": 9}, ["offset", "limit"], {}, {"kind": "offset", "rule": "total"}),
        ({"items": [RECORD]}, ["page"], {}, {"kind": "page_number", "rule": "empty_page"}),
        ([RECORD], [], {}, {"kind": "single"}),
    ],
)
def test_each_way_to_page_is_proposed_with_an_end_rule_to_check(
    answer: Any, names: list[str], headers: dict[str, str], expected: dict[str, str], tmp_path: Path
) -> None:
    text = by_answer(answer, [Parameter(name) for name in names], **headers)
    paging = loaded(text, tmp_path).paging.model_dump()
    found = paging | paging.get("ends", {})
    assert {name: found[name] for name in expected} == expected
    (line,) = [line for line in text.splitlines() if line.startswith("paging:")]
    assert "# guess:" in line
    assert "lost" in line, "what happens if it is wrong"


OPENAPI: dict[str, Any] = {
    "openapi": "3.1.0",
    "paths": {
        "/issues": {
            "parameters": [{"$ref": "#/components/parameters/size"}],
            "get": {
                "parameters": [
                    {"name": "since", "in": "query", "schema": {"type": "string", "format": "date-time"}},
                    {"name": "until", "in": "query", "schema": {"type": "integer"}},
                    {"name": "page", "in": "query", "schema": {"type": "integer"}},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                ],
                "responses": {"200": {"$ref": "#/components/responses/issues"}},
            },
        },
        "/round": {"get": {"responses": {"200": {"$ref": "#/components/responses/round"}}}},
        "/none": {"post": {}},
    },
    "components": {
        "parameters": {
            "size": {"name": "per_page", "in": "query", "schema": {"type": "integer", "maximum": 250}},
        },
        "responses": {
            "round": {"$ref": "#/components/responses/round"},
            "issues": {
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "properties": {
                                "issues": {"type": "array", "items": {"$ref": "#/components/schemas/issue"}},
                                "total_count": {"type": "integer"},
                            },
                        }
                    }
                }
            },
        },
        "schemas": {
            "issue": {
                "allOf": [{"$ref": "#/components/schemas/base"}],
                "properties": {
                    "title": {"type": ["string", "null"]},
                    "parent": {"$ref": "#/components/schemas/issue"},
                    "due": {"type": "string", "format": "date"},
                },
            },
            "base": {
                "type": "object",
                "properties": {
                    "number": {"type": "integer"},
                    "uuid": {"type": "string"},
                    "updated_at": {"type": "string", "format": "date-time"},
                },
            },
        },
    },
}


def test_an_openapi_document_gives_bounds_too(tmp_path: Path) -> None:
    source = loaded(declaration_yaml("/issues", *OpenApi(OPENAPI).describe_get("/issues")), tmp_path)
    assert source.request.params == {"since": "{day.start}", "until": "{day.end:epoch_s}"}
    assert source.snapshot is None
    assert (source.records.key, source.records.day, source.records.at) == (("uuid",), "updated_at", "issues")
    kinds = {name: column.type for name, column in source.records.columns.items()}
    assert kinds == {"number": "bigint", "uuid": "string", "updated_at": "timestamp", "title": "string", "due": "date"}
    paging = source.paging.model_dump()
    assert (paging["kind"], paging["size_param"], paging["size"]) == ("page_number", "per_page", 250)
    assert paging["ends"] == {"rule": "total", "at": "total_count", "header": None, "of": "records"}


@pytest.mark.parametrize(
    ("document", "path", "text"),
    [
        (OPENAPI, "/isues", "did you mean '/issues'"),
        (OPENAPI, "/none", "no GET"),
        (OPENAPI, "/round", "form a circle"),
        ({"swagger": "2.0"}, "/issues", "not an OpenAPI 3"),
    ],
)
def test_documents_that_say_nothing_are_refused(document: dict[str, Any], path: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        OpenApi(document).describe_get(path)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"a": 1}', b"[1, 2]"])
def test_an_answer_without_records_is_refused(body: bytes) -> None:
    with pytest.raises(DataError):
        detect_shape(body, {})


@given(
    names=st.lists(TEXT, min_size=1, max_size=5, unique=True),
    beside=st.dictionaries(TEXT, st.sampled_from(["link", "string", "integer", "boolean", "null"]), max_size=4),
    parameters=st.lists(TEXT | st.sampled_from(["since", "until", "cursor", "page", "offset", "limit"]), max_size=4),
    at=TEXT,
)
def test_whatever_fields_are_called_the_proposal_can_be_read(
    names: list[str], beside: dict[str, str], parameters: list[str], at: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Or it is refused with an error of ours; never a file that says something else than was meant."""
    shape = ResponseShape(at=at.replace("/", ""), columns=dict.fromkeys(names, "string"), other_fields=beside)
    text = declaration_yaml("/a", [Parameter(name) for name in parameters if name], shape)
    try:
        source = loaded(text, tmp_path_factory.mktemp("proposed"))
    except ConnectError as error:
        assert "repeated" in str(error) or "place" in str(error), text  # noqa: PT017
        return
    if source.templates:
        return  # a name with {{ waits until a task renders it
    assert len(source.records.columns) == len(names)
