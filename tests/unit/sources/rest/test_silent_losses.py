"""Faults that a hostile review of the declarations found: each lost rows, or refused what the pages allow."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, DataError, RetriableError, SetupError
from airflow_provider_connect.sources.rest import Offset, RestSource, Single, Total
from tests.equipment.rest_api.reading import BOUNDS, declared, read
from tests.equipment.rest_api.server import Answer, Request, RestApi

ID = {"key": ["id"], "columns": {"id": "bigint"}, "undeclared": "drop"}
PARENT = {"conn_id": "api", "stream": "parents", "request": {"path": "/p"}, "paging": Single(), "snapshot": "replace"}


def as_json(value: Any) -> Answer:
    return Answer(raw=json.dumps(value).encode())


def rows(serve: Any, source: RestSource) -> list[dict[str, Any]]:
    with RestApi() as api:
        api.faults.append(serve)
        return [row for _, _, batch in read(api, source).batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("total", "error", "text"),
    [(3, SetupError, "announced 3 records and sends more"), ("1.000", RetriableError, "has no total in 'total'")],
)
def test_a_page_beyond_the_total_and_a_total_that_may_be_a_thousand_end_no_listing(
    total: Any, error: type[Exception], text: str
) -> None:
    """Pages of two of five records: the second exceeds a total of 3."""

    def serve(asked: Request) -> Answer:
        offset = int(asked.first("offset", "0"))
        return as_json({"total": total, "items": [{"id": i} for i in range(offset, min(offset + 2, 5))]})

    source = declared("/x", Offset(param="offset", ends=Total(at="total")), records=ID | {"at": "items"})
    with pytest.raises(error, match=text):
        rows(serve, source)


def test_a_child_of_two_parents_is_not_lost_if_its_parent_column_differs() -> None:
    def serve(asked: Request) -> Answer:
        return as_json([{"id": 1}, {"id": 2}] if asked.path == "/p" else [{"id": 77}])

    def children(**options: Any) -> RestSource:
        records = ID | {"key": options.pop("key", ["id"])} | options
        parent = PARENT | {"records": ID}
        return declared("/c/{parent.id}", Single(), parent=parent, parent_columns={"pid": "id"}, records=records)

    with pytest.raises(RetriableError, match="add a parent column"):
        rows(serve, children())
    assert [row["pid"] for row in rows(serve, children(on_duplicate="first"))] == [1]
    assert [row["pid"] for row in rows(serve, children(key=["pid", "id"]))] == [1, 2]


def test_a_required_column_of_the_parent_that_no_parent_has_fails_the_day() -> None:
    records = ID | {"columns": {"id": "bigint", "archived": "boolean"}, "absent": "fail"}
    source = declared(
        "/c/{parent.id}",
        Single(),
        parent=PARENT | {"records": records},
        parent_where={"archived": [False, None]},
        records=ID,
    )

    def serving(parents: list[dict[str, Any]]) -> Any:
        return lambda asked: as_json(parents if asked.path == "/p" else [{"id": 10}])

    with pytest.raises(DataError, match=r"parents: no record of .* has the field of column 'archived'"):
        rows(serving([{"id": 1}]), source)
    assert [row["id"] for row in rows(serving([{"id": 1, "archived": False}]), source)] == [10]


@pytest.mark.parametrize("value", ["1791244799.9999999", 1791244799.9999998, "1791244799.999999"])
def test_an_instant_just_before_midnight_stays_in_its_day(value: Any) -> None:
    """Rounded up, it would be in the next day, for which the API does not send it."""
    records = ID | {"columns": {"id": "bigint", "at": {"type": "timestamp", "format": "epoch_s"}}, "day": "at"}
    (row,) = rows(
        lambda asked: as_json([{"id": 1, "at": value}]), declared("/x", Single(), records=records | {"outside": "drop"})
    )
    assert row["at"] == dt.datetime(2026, 10, 5, 23, 59, 59, 999999, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "options",
    [
        {"request": {"path": "/x", "method": "POST", "params": BOUNDS, "body": {"filters": [{"token": "{{ t }}"}]}}},
        {"request": {"path": "/x", "method": "POST", "params": BOUNDS, "body": [{"token": "{{ t }}"}]}},
        {
            "request": {"path": "/x", "params": BOUNDS},
            "count": {"request": {"path": "/c", "params": BOUNDS | {"token": "{{ t }}"}}, "at": "n"},
        },
    ],
    ids=["list in an object", "list", "count"],
)
def test_a_templated_credential_passes_wherever_it_stands(options: dict[str, Any]) -> None:
    source = RestSource(conn_id="api", stream="i", paging=Single(), records=ID, **options)
    checked = source.rendered(lambda text: text.replace("{{ t }}", "canary")).checked()
    assert "canary" in checked.model_dump_json()


@pytest.mark.parametrize(("body", "place"), [([{"a": 1}], "/"), ({"page": [1]}, "/page"), ({"page": 5}, "/page")])
def test_paging_replaces_no_part_of_the_body(body: Any, place: str) -> None:
    paging = Offset(put="/page/offset", ends=Total(at="total"))
    request = {"path": "/x", "method": "POST", "params": BOUNDS, "body": body}
    with pytest.raises(ConfigError, match=f"paging.put: request.body has no object at '{place}'"):
        declared("/x", paging, records=ID | {"at": "items"}, request=request)
