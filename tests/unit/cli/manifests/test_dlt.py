"""A rest_api config of dlt becomes declarations, and loads whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.equipment.rest_api.server import Request
from tests.unit.cli.manifests.own import ROWS, loaded, options_of, translated

CLIENT: dict[str, Any] = {"base_url": "https://api.example.com/v1/", "paginator": "single_page"}


def config(*resources: Any, **client: Any) -> dict[str, Any]:
    defaults = {"primary_key": "id", "endpoint": {"data_selector": "data"}}
    return {"client": CLIENT | client, "resource_defaults": defaults, "resources": list(resources)}


def things(**endpoint: Any) -> dict[str, Any]:
    return {"name": "things", "columns": {"id": {"data_type": "bigint"}}, "endpoint": {"path": "things", **endpoint}}


def _by_offset(request: Request) -> Any:
    first, size = int(request.first("start")), int(request.first("limit"))
    return {"data": ROWS[first : first + size], "meta": {"total": len(ROWS)}}


def _by_token(request: Request) -> Any:
    first = int(request.first("token", "0"))
    return {"data": ROWS[first : first + 3], "next": str(first + 3) if first < 6 else None}


def _by_link(request: Request) -> Any:
    first = int(request.first("at", "0"))
    return {"data": ROWS[first : first + 3], "links": {"next": f"/v1/things?at={first + 3}" if first < 6 else None}}


PAGED: dict[str, tuple[dict[str, Any], Any]] = {
    "offset": ({"type": "offset", "limit": 3, "offset_param": "start", "total_path": "meta.total"}, _by_offset),
    "cursor": ({"type": "cursor", "cursor_path": "next", "cursor_param": "token"}, _by_token),
    "link": ({"type": "json_link", "next_url_path": "links.next"}, _by_link),
    "one page": ({"type": "single_page"}, lambda _: {"data": ROWS}),
}


@pytest.mark.parametrize("kind", PAGED)
def test_every_row_is_loaded(kind: str, tmp_path: Path) -> None:
    paginator, serve = PAGED[kind]
    assert loaded(config(things(paginator=paginator)), serve, tmp_path) == [row["id"] for row in ROWS]


@pytest.mark.parametrize(
    "endpoint",
    [
        {"path": "ships/{resources.ships.code}/things"},
        {"path": "ships/{c}/things", "params": {"c": {"type": "resolve", "resource": "ships", "field": "code"}}},
    ],
)
def test_children_are_loaded(endpoint: dict[str, Any], tmp_path: Path) -> None:
    def serve(request: Request) -> Any:
        if request.path == "/v1/ships":
            return {"data": [{"id": 1, "code": "a"}, {"id": 2, "code": "b"}]}
        return {"data": [{"id": request.path.split("/")[3]}]}

    child = {"name": "things", "include_from_parent": ["id"], "endpoint": endpoint}
    assert loaded(config("ships", child), serve, tmp_path) == ["a", "b"]
    declaration = translated(config("ships", child)).streams[-1].options
    assert declaration["parent_columns"] == {"_ships_id": "id", "code": "code"}


def test_an_incremental_parameter_becomes_the_days_bounds() -> None:
    since = {"type": "incremental", "cursor_path": "meta.updated", "initial_value": "2024-01-01T00:00:00Z"}
    declaration = options_of(config(things(params={"since": since})))
    assert declaration["request"]["params"] == {"since": "{day.start}"}
    assert declaration["records"]["columns"]["meta_updated"] == {"type": "timestamp", "at": "/meta/updated"}
    assert (declaration["records"]["day"], declaration["records"]["outside"]) == ("meta_updated", "drop")


def test_what_has_no_counterpart_says_why() -> None:
    circle = {"name": "things", "endpoint": "things/{resources.things.id}"}
    resources = [things(paginator="auto") | {"name": "a"}, things(data_selector="$..x") | {"name": "b"}, circle]
    refused = translated(config(*resources)).refused
    assert "detected while it runs" in refused["a"]
    assert "selects by more than names" in refused["b"]
    assert "form a circle" in refused["things"]


def test_values_of_credentials_are_never_written() -> None:
    tree = config("things", auth={"type": "api_key", "name": "X-Key", "api_key": "s3cret"}, headers={"X-App": "s3cret"})
    fields = translated(tree).connections["api"].as_fields()
    assert "s3cret" not in str(fields)
    assert fields["extra"]["send_as"] == "X-Key"
    assert fields["extra"]["credentials"] == {"header": {"X-App": "FILL_IN"}}
