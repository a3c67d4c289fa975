"""Each shape of a manifest loads whole, from an API that serves it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from tests.equipment.rest_api.server import Answer, Request
from tests.unit.cli.manifests.own import ROWS, loaded, manifest, option, options_of, paged, remarks_of, stream

Serve = Callable[[Request], Any]
LINK = {"type": "RequestPath"}


def _cursor(value: str, stop: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"type": "CursorPagination", "cursor_value": value} | ({"stop_condition": stop} if stop else {}) | fields


def _by_offset(request: Request) -> Any:
    first, size = int(request.first("skip", "0")), int(request.first("limit"))
    return {"data": ROWS[first : first + size]}


def _by_page(request: Request) -> Any:
    page = int(request.first("page"))
    return {"data": ROWS[page * 3 : page * 3 + 3]}


def _by_token(request: Request) -> Any:
    first = int(request.first("after", "0"))
    assert request.first("size") == "3"
    return {"data": ROWS[first : first + 3], "meta": {"next": str(first + 3) if first + 3 < len(ROWS) else None}}


def _by_token_in_body(request: Request) -> Any:
    assert request.method == "POST"
    assert request.document["filter"] == {"kind": "ship"}
    first = int(request.document.get("page", {}).get("token", 0))
    return {"data": ROWS[first : first + 3]} | ({"next": first + 3} if first + 3 < len(ROWS) else {})


def _by_flag(request: Request) -> Any:
    first = int(request.first("after", "0"))
    return {"data": ROWS[first : first + 3], "next": str(first + 3), "more": first + 3 < len(ROWS)}


def _by_link(request: Request) -> Any:
    first = int(request.first("at", "0"))
    return {"data": ROWS[first : first + 3]} | ({"links": {"next": f"/things?at={first + 3}"}} if first < 6 else {})


def _by_link_header(request: Request) -> Any:
    first = int(request.first("at", "0"))
    link = f'<http://{request.headers["host"]}/things?at={first + 3}>; rel="next"'
    return Answer({"data": ROWS[first : first + 3]}, headers={"Link": link} if first < 6 else {})


def _by_next_number(request: Request) -> Any:
    page = int(request.first("page", "1"))
    return {"data": ROWS[page * 3 - 3 : page * 3], "page": page}


def _by_last_record(request: Request) -> Any:
    tokens = [row["token"] for row in ROWS]
    first = tokens.index(request.first("cursor")) + 1 if request.first("cursor") else 0
    return {"data": ROWS[first : first + 3]}


PAGED: dict[str, tuple[dict[str, Any], Serve]] = {
    "offset": (
        {"paginator": paged({"type": "OffsetIncrement", "page_size": 3}, option("skip"), option("limit"))},
        _by_offset,
    ),
    "page from 0": ({"paginator": paged({"type": "PageIncrement"}, option("page"))}, _by_page),
    "token": (
        {
            "paginator": paged(
                _cursor("{{ response['meta']['next'] }}", "{{ response.meta.next is none }}", page_size="{{ 3 }}"),
                option("after"),
                option("size"),
            )
        },
        _by_token,
    ),
    "token in the body": (
        {
            "requester": {"http_method": "POST", "request_body_json": {"filter": {"kind": "ship"}}},
            "paginator": paged(
                _cursor("{{ response.get('next') }}"),
                {"inject_into": "body_json", "field_path": ["page", "token"]},
            ),
        },
        _by_token_in_body,
    ),
    "flag": (
        {"paginator": paged(_cursor("{{ response.next }}", "{{ not response.get('more') }}"), option("after"))},
        _by_flag,
    ),
    "link": (
        {"paginator": paged(_cursor("{{ response.get('links', {}) }}", "{{ not response.links.next }}"), LINK)},
        _by_link,
    ),
    "link header": ({"paginator": paged(_cursor("{{ headers['link']['next']['url'] }}"), LINK)}, _by_link_header),
    "next number": ({"paginator": paged(_cursor("{{ response['page'] + 1 }}"), option("page"))}, _by_next_number),
    "last record": ({"paginator": paged(_cursor("{{ last_record['token'] }}"), option("cursor"))}, _by_last_record),
    "one page": ({"paginator": {"type": "NoPagination"}}, lambda _: {"data": ROWS}),
    "items by wildcard": ({"field_path": ["data", "*"]}, lambda _: {"data": ROWS}),
    "objects inside items": ({"field_path": ["a", "*", "b"]}, lambda _: {"a": [{"b": row} for row in ROWS]}),
    "lists inside items": ({"field_path": ["a", "*", "*"]}, lambda _: {"a": [ROWS[:3], [], ROWS[3:]]}),
    "entries of an object": ({"field_path": ["*"]}, lambda _: {row["token"]: row for row in ROWS}),
    "the whole answer": ({"field_path": []}, lambda _: ROWS),
}


@pytest.mark.parametrize("shape", PAGED)
def test_every_row_is_loaded(shape: str, tmp_path: Path) -> None:
    parts, serve = PAGED[shape]
    assert loaded(manifest(stream(**parts)), serve, tmp_path) == [row["id"] for row in ROWS]


RANGE = {"type": "DatetimeBasedCursor", "cursor_field": "at", "start_datetime": "{{ config['start_date'] }}"}


def _times(request: Request) -> Any:
    rows = [{"id": 1, "at": 1772323199}, {"id": 2, "at": 1772323200}, {"id": 3, "at": 1772409599}]
    since, until = int(request.first("from")), int(request.first("to"))
    return {"data": [row for row in [*rows, {"id": 4, "at": 1772409600}] if since <= row["at"] <= until]}


def test_bounds_of_numbers_load_exactly_the_day(tmp_path: Path) -> None:
    cursor = RANGE | {"datetime_format": "%s", "start_time_option": option("from"), "end_time_option": option("to")}
    schema = {"properties": {"id": {"type": "integer"}, "at": {"type": "integer"}}}
    assert loaded(manifest(stream(incremental_sync=cursor, schema=schema)), _times, tmp_path) == [2, 3]


def test_bounds_inside_a_text_load_exactly_the_day(tmp_path: Path) -> None:
    def serve(request: Request) -> Any:
        assert request.first("filter") == "at>=2026-03-01 and at<2026-03-02"
        return {"data": [*ROWS, {"id": 99, "at": "2026-03-02T00:00:00Z"}]}

    text = "at>={{ stream_interval.start_time }} and at<{{ format_datetime(stream_slice['end_time'], '%Y-%m-%d') }}"
    tree = manifest(
        stream(
            incremental_sync=RANGE | {"datetime_format": "%Y-%m-%d"}, requester={"request_parameters": {"filter": text}}
        )
    )
    assert loaded(tree, serve, tmp_path) == [row["id"] for row in ROWS]


def test_a_child_sends_the_parents_value_as_an_option(tmp_path: Path) -> None:
    def serve(request: Request) -> Any:
        if request.path == "/harbors":
            return {"data": [{"code": "HAM"}, {"code": "RTM"}]}
        return {"data": [{"id": f"{request.first('harbor')}-{number}"} for number in range(2)]}

    schema = {"properties": {"code": {"type": "string"}}}
    parent = stream("harbors", path="/harbors", schema=schema, primary_key="code")
    config = {"parent_key": "code", "partition_field": "harbor", "stream": parent, "request_option": option("harbor")}
    router = {"type": "SubstreamPartitionRouter", "parent_stream_configs": [config]}
    child = stream(router=router, schema={"properties": {"id": {"type": "string"}}})
    assert loaded(manifest(parent, child), serve, tmp_path) == ["HAM-0", "HAM-1", "RTM-0", "RTM-1"]


def test_records_that_are_expanded_load_whole(tmp_path: Path) -> None:
    tree = manifest(stream())
    extractor = tree["streams"][0]["retriever"]["record_selector"]["extractor"]
    extractor["record_expander"] = {"type": "RecordExpander", "expand_records_from_field": ["lines", "data"]}
    answer = {"data": [{"lines": {"data": ROWS[:2]}}, {"lines": {"data": ROWS[2:]}}]}
    assert options_of(tree)["records"]["at"] == "/data/*/lines/data"
    assert loaded(tree, lambda _: answer, tmp_path) == [row["id"] for row in ROWS]


def test_a_page_in_a_form_loads_whole(tmp_path: Path) -> None:
    def serve(request: Request) -> Any:
        fields = dict(parse_qsl(request.document))
        assert fields["size"] == "3"
        return {"data": ROWS[int(fields["from"]) : int(fields["from"]) + 3]}

    strategy = {"type": "OffsetIncrement", "page_size": 3}
    paginator = paged(strategy, option("from", "body_data"), option("size", "body_data"))
    tree = manifest(stream(paginator=paginator, requester={"http_method": "POST"}))
    assert loaded(tree, serve, tmp_path) == [row["id"] for row in ROWS]


CSV_ROWS = b"id;at\n" + b"".join(b"%d;2026-03-01T00:00:00Z\n" % row["id"] for row in ROWS)
DECODERS: dict[str, tuple[dict[str, Any], bytes]] = {
    "csv": ({"type": "CsvDecoder", "delimiter": ";"}, CSV_ROWS),
    "raw csv": ({"type": "CompositeRawDecoder", "parser": {"type": "CsvParser", "delimiter": ";"}}, CSV_ROWS),
    "json lines": ({"type": "JsonlDecoder"}, b"\n".join(json.dumps(row).encode() for row in ROWS)),
    "raw json": (
        {"type": "CompositeRawDecoder", "parser": {"type": "JsonParser"}},
        json.dumps({"data": ROWS}).encode(),
    ),
}


@pytest.mark.parametrize("kind", DECODERS)
def test_answers_in_other_formats_load_whole(kind: str, tmp_path: Path) -> None:
    decoder, body = DECODERS[kind]
    tree = manifest(stream())
    tree["streams"][0]["retriever"]["decoder"] = decoder
    assert loaded(tree, lambda _: Answer(raw=body), tmp_path) == [row["id"] for row in ROWS]


def values_router(field: str, values: Any, **parts: Any) -> dict[str, Any]:
    return {"type": "ListPartitionRouter", "cursor_field": field, "values": values} | parts


def test_static_partitions_are_requested_in_each_combination(tmp_path: Path) -> None:
    def serve(request: Request) -> Any:
        number = int(request.path.rpartition("/")[2])
        return {"data": [{"id": number * 10 + ["eu", "us"].index(request.first("region"))}]}

    routers = [values_router("region", ["eu", "us"], request_option=option("region")), values_router("part", [1, 2])]
    tree = manifest(stream(router=routers, path="/things/{{ stream_partition.part }}"))
    assert options_of(tree)["parent_values"] == {"region": ["eu", "us"], "part": [1, 2]}
    assert sorted(loaded(tree, serve, tmp_path)) == [10, 11, 20, 21]


def test_static_partitions_of_the_config_are_to_be_filled_in() -> None:
    router = values_router("region", "{{ config['regions'] }}", request_option=option("region"))
    tree = manifest(stream(router=router))
    assert options_of(tree, regions=["eu", "us"])["parent_values"] == {"region": ["eu", "us"]}
    assert any("regions" in remark for remark in remarks_of(tree))


def test_the_parents_of_parents_load_whole(tmp_path: Path) -> None:
    def serve(request: Request) -> Any:
        steps = request.path.strip("/").split("/")
        if len(steps) == 1:
            return {"data": [{"id": 1}, {"id": 2}]}
        if len(steps) == 3:
            return {"data": [{"id": int(steps[1]) * 10, "url": f"/lists/{steps[1]}/boards/{steps[1]}/cards"}]}
        return {"data": [{"id": int(steps[1]) * 100 + number} for number in range(2)]}

    lists = stream("lists", path="/lists")
    of_lists = {"parent_stream_configs": [{"parent_key": "id", "partition_field": "list", "stream": lists}]}
    schema = {"properties": {"id": {"type": "integer"}, "url": {"type": "string"}}}
    boards = stream("boards", path="/lists/{{ stream_partition.list }}/boards", router=of_lists, schema=schema)
    of_boards = {"parent_stream_configs": [{"parent_key": "url", "partition_field": "board", "stream": boards}]}
    cards = stream("cards", path="{{ stream_partition.board }}", router=of_boards)
    assert loaded(manifest(lists, boards, cards), serve, tmp_path) == [100, 101, 200, 201]


def test_a_path_that_names_a_record_reads_one_object(tmp_path: Path) -> None:
    def serve(request: Request) -> Any:
        return {"data": ROWS[:2]} if request.path == "/list" else {"id": int(request.path.split("/")[2])}

    parent = stream("list", path="/list")
    router = {"parent_stream_configs": [{"parent_key": "id", "partition_field": "id", "stream": parent}]}
    child = stream(path="/things/{{ stream_slice.id }}", field_path=[], router=router)
    assert loaded(manifest(parent, child), serve, tmp_path) == [0, 1]


def test_a_start_that_the_api_excludes_loses_no_row(tmp_path: Path) -> None:
    def serve(request: Request) -> Any:
        rows = [{"id": number, "at": f"2026-03-0{number}T00:00:00Z"} for number in (1, 2)]
        return {"data": [row for row in rows if request.first("from") < row["at"] < request.first("to")]}

    bounds = {"start_time_option": option("from"), "end_time_option": option("to")}
    cursor = RANGE | {"datetime_format": "%Y-%m-%dT%H:%M:%SZ"} | bounds
    assert loaded(manifest(stream(incremental_sync=cursor)), serve, tmp_path) == [1]


def test_a_feed_without_bounds_is_read_to_the_edge_of_the_day(tmp_path: Path) -> None:
    pages: list[int] = []

    def serve(request: Request) -> Any:
        pages.append(int(request.first("page")))
        hours = range(30 - 10 * pages[-1], 20 - 10 * pages[-1], -1)
        start = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
        return {"data": [{"id": hour, "at": (start + dt.timedelta(hours=hour)).isoformat()} for hour in hours]}

    cursor = RANGE | {"datetime_format": "%Y-%m-%dT%H:%M:%SZ", "is_data_feed": True}
    tree = manifest(stream(incremental_sync=cursor, paginator=paged({"type": "PageIncrement"}, option("page"))))
    assert sorted(loaded(tree, serve, tmp_path)) == list(range(24))
    assert max(pages) == 4


def test_a_page_that_the_api_filters_ends_nothing(tmp_path: Path) -> None:
    def serve(request: Request) -> Any:
        page = int(request.first("page"))
        return {"data": [row for row in ROWS[page * 3 : page * 3 + 3] if row["id"] != 1]}

    paginator = paged({"type": "PageIncrement", "page_size": 3}, option("page"), option("size"))
    assert loaded(manifest(stream(paginator=paginator)), serve, tmp_path) == [0, 2, 3, 4, 5, 6]
