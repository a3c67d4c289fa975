"""A manifest of our own becomes declarations, which load every row of an API that serves its shapes."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import yaml

from airflow_provider_connect import registry
from airflow_provider_connect.cli.manifests.translation import Translation, translate
from airflow_provider_connect.cli.manifests.trees import read_tree
from airflow_provider_connect.cli.manifests.writing import connections_yaml, stream_yaml
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.testing.polls import Poll, poll
from airflow_provider_connect.window import Day
from tests.equipment.rest_api.server import Answer, Request, RestApi

HARBOR = Path(__file__).parent / "harbor.yaml"
DAY = Day(date=dt.date(2026, 3, 1))
SHIPS = [{"id": f"s{number}", "name": f"Ship {number}", "length": 90.5} for number in range(5)]
TIMES = ["2026-02-28T23:59:59Z", "2026-03-01T00:00:00Z", "2026-03-01T23:59:59.9Z", "2026-03-02T00:00:00Z"]


def translated() -> Translation:
    return translate(read_tree(HARBOR), "harbor", {})


def serve(request: Request) -> Answer:
    """Answer as the API of the manifest does. Its bounds are inclusive, which the manifest does not say."""
    assert request.headers["authorization"] == "Bearer k3y"
    if request.path == "/v2/ships":
        page, size = int(request.first("page")), int(request.first("per_page"))
        return Answer({"ships": SHIPS[(page - 1) * size : page * size]})
    if request.path == "/v2/arrivals":
        since, until = request.first("since"), request.first("until")
        numbers = [number for number, time in enumerate(TIMES) if since <= time.replace(".9", "") <= until]
        first = int(request.first("from", "0"))
        rows = [{"id": str(number), "at": TIMES[number], "tons": 1.5} for number in numbers[first : first + 2]]
        link = f"/v2/arrivals?since={since}&until={until}&from={first + 2}" if numbers[first + 2 :] else None
        return Answer({"arrivals": rows, "next": link})
    ship = request.path.split("/")[3]
    assert request.first("token") == "t0ken"
    assert request.first("kind") == "all"
    first = int(request.first("cursor", "0"))
    rows = [{"id": number, "place": {"berth": f"{ship}-{number}"}} for number in range(3)]
    return Answer({"calls": rows[first : first + 2], "meta": {"next": first + 2} if first == 0 else {}})


def load(stream: str, tmp_path: Path) -> Poll:
    """Write a stream's file, read it, and load it from the API."""
    translation = translated()
    declaration = next(item for item in translation.streams if item.name == stream)
    (tmp_path / "stream.yaml").write_text(stream_yaml(declaration))
    source = registry.source_class("rest").from_file(tmp_path / "stream.yaml")  # type: ignore[attr-defined]
    fields = yaml.safe_load(connections_yaml(translation.connections))["harbor"]
    with RestApi() as api:
        api.faults.append(serve)
        extra = fields["extra"] | {"credentials": {"query": {"token": "t0ken"}}}
        connection = Connection(conn_id="harbor", host=f"http://127.0.0.1:{api.port}", password="k3y", extra=extra)
        return poll(source, connection, DAY)


def column(polled: Poll, name: str) -> list[Any]:
    return [value for _, _, batch in polled.batches for value in batch.column(name).to_pylist()]


def test_each_stream_is_written_with_its_connection() -> None:
    translation = translated()
    assert [stream.name for stream in translation.streams] == ["ships", "calls", "arrivals"]
    assert not translation.refused
    assert not [gap for stream in translation.streams for gap in stream.remarks.gaps]
    fields = yaml.safe_load(connections_yaml(translation.connections))["harbor"]
    assert fields == {
        "conn_type": "http",
        "host": "https://eu.harbor.example",
        "password": "FILL_IN",
        "extra": {"auth": "bearer", "credentials": {"query": {"token": "FILL_IN"}}},
    }


def test_pages_by_number_load_whole(tmp_path: Path) -> None:
    assert column(load("ships", tmp_path), "id") == [ship["id"] for ship in SHIPS]


def test_children_load_whole_with_the_parent_in_their_key(tmp_path: Path) -> None:
    polled = load("calls", tmp_path)
    assert sorted(column(polled, "berth")) == sorted(f"s{ship}-{number}" for ship in range(5) for number in range(3))
    assert len(set(column(polled, "record_key"))) == 15


def test_a_day_is_exact_though_the_manifest_names_no_bounds(tmp_path: Path) -> None:
    assert column(load("arrivals", tmp_path), "id") == ["1", "2"]
