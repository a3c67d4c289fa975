"""Records of one key that differ: no row is lost in silence, and a declared version is loaded whatever the order."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import ALONE, PollContext
from airflow_provider_connect.sources._rest.building.version_spool import latest_versions
from airflow_provider_connect.sources._rest.preflight import inspect
from airflow_provider_connect.sources._rest.records import Records, row_schema
from airflow_provider_connect.sources.rest import PageNumber, RestSource, Single
from tests.equipment.rest_api.reading import DAY, counts, declared, read
from tests.equipment.rest_api.server import Answer, Request, RestApi

COLUMNS = {"order": "bigint", "line": "bigint", "changed": "timestamp"}
PAGING = PageNumber(ends="empty_page")


def line(order: int, number: int, second: int = 0, **fields: Any) -> dict[str, Any]:
    return {"order": order, "line": number, "changed": f"2026-10-05T00:00:{second:02}Z"} | fields


def orders(key: tuple[str, ...] = ("order",), **options: Any) -> RestSource:
    return declared("/x", PAGING, records={"key": key, "columns": COLUMNS} | options)


def serving(*pages: list[dict[str, Any]]) -> RestApi:
    api = RestApi()

    def serve(asked: Request) -> Answer:
        number = int(asked.first("page", "1"))
        return Answer(pages[number - 1] if number <= len(pages) else [])

    api.faults.append(serve)
    return api


def lines(api: RestApi, source: RestSource) -> dict[int, list[int]]:
    loaded: dict[int, list[int]] = {}
    for _, _, batch in read(api, source).batches:
        for row in batch.to_pylist():
            loaded.setdefault(row["order"], []).append(row["line"])
    return loaded


LINES = [line(order, number) for order in range(20) for number in range(3)]


def test_a_key_that_does_not_identify_is_polled_once_more_and_then_fails_the_day() -> None:
    """60 order lines keyed by order were 20 rows."""
    with serving(LINES[:30], LINES[30:]) as api, orders().open(api.connection, ALONE) as poller:
        (part,) = poller.plan([DAY])
        errors: list[Exception] = []
        for _ in range(2):
            with pytest.raises((RetriableError, DataError)) as caught, closing(poller.poll(part, Tally([DAY]))) as rows:  # type: ignore[type-var]
                list(rows)
            errors.append(caught.value)
    assert [isinstance(error, DataError) for error in errors] == [False, True]
    assert "20 records have the key of an earlier record and differ from it in a declared column" in str(errors[1])
    assert "Add the column that tells them apart to records.key" in str(errors[1])
    with serving(LINES[:30], LINES[30:]) as api:
        assert lines(api, orders(("order", "line"))) == {order: [0, 1, 2] for order in range(20)}


def test_a_record_that_changes_during_one_poll_is_loaded_by_the_next() -> None:
    pages = iter([[line(1, 0)], [line(1, 1), line(2, 0)], [line(1, 1)], [line(2, 0)], []])
    with RestApi() as api, orders().open(api.connection, PollContext(looks_ahead=False)) as poller:
        api.faults.append(lambda _: Answer(next(pages)))
        (part,) = poller.plan([DAY])
        with pytest.raises(RetriableError), closing(poller.poll(part, Tally([DAY]))) as rows:  # type: ignore[type-var]
            list(rows)
        with closing(poller.poll(part, Tally([DAY]))) as rows:  # type: ignore[type-var]
            assert [row["line"] for _, batch in rows for row in batch.to_pylist()] == [1, 0]


@pytest.mark.parametrize("on_duplicate", ["fail", "first", "last"])
def test_records_that_differ_only_in_an_undeclared_field_are_the_same(on_duplicate: str) -> None:
    source = orders(("order", "line"), on_duplicate=on_duplicate)
    with serving([line(1, 1, seen=1)], [line(1, 1, seen=2), line(1, 2)]) as api:
        polled = read(api, source)
    found = counts(polled)
    assert (sum(batch.num_rows for _, _, batch in polled.batches), found["duplicates"]) == (2, 1)
    assert "differing_duplicates" not in found


VERSIONS = (
    [line(1, 1, 10), line(2, 1, 5)],
    [line(1, 2, 30), line(3, 1, 5)],
    [line(1, 3, 20), line(2, 1, 5), line(4, 1, 1)],
)


@pytest.mark.parametrize(
    ("on_duplicate", "version"), [("first", 1), ("last", 3), ({"newest_by": "changed"}, 2), ({"newest_by": "line"}, 3)]
)
def test_the_declared_version_of_a_record_is_loaded(on_duplicate: Any, version: int) -> None:
    with serving(*VERSIONS) as api:
        polled = read(api, orders(on_duplicate=on_duplicate))
    loaded = [(row["order"], row["line"]) for _, _, batch in polled.batches for row in batch.to_pylist()]
    assert sorted(loaded) == [(1, version), (2, 1), (3, 1), (4, 1)]
    assert (counts(polled)["duplicates"], counts(polled)["differing_duplicates"]) == (3, 2)


def test_records_that_are_equally_new_and_differ_fail_the_day() -> None:
    by_time = orders(on_duplicate={"newest_by": "changed"})
    with serving(LINES) as api, pytest.raises(RetriableError, match=r"40 records have .* equally new by 'changed'"):
        read(api, by_time)
    with serving([line(1, 1, 5), line(1, 2, 5), line(1, 3, 9)]) as api:
        assert lines(api, by_time) == {1: [3]}


def test_a_parent_in_several_versions_has_its_children_read_once() -> None:
    parent = {
        "conn_id": "api",
        "stream": "orders",
        "request": {"path": "/orders"},
        "paging": PAGING,
        "records": {"key": ["order"], "columns": COLUMNS, "on_duplicate": {"newest_by": "changed"}},
        "snapshot": "replace",
    }
    child = declared(
        "/orders/{parent.line}", Single(), parent=parent, records={"key": ["id"], "columns": {"id": "bigint"}}
    )
    with serving(*VERSIONS) as api:
        api.faults.insert(0, lambda asked: Answer([]) if asked.path != "/orders" else None)
        polled = read(api, child)
        asked = sorted(request.path for request in api.asked if request.path != "/orders")
    assert asked == ["/orders/1", "/orders/1", "/orders/1", "/orders/2"]
    assert (counts(polled)["parents"], counts(polled)["parent_differing_duplicates"]) == (4, 2)


def test_a_check_requests_one_page_though_the_last_version_counts() -> None:
    with serving(*VERSIONS) as api:
        (finding,) = inspect(orders(on_duplicate="last"), api.connection, DAY, None)
        assert (finding.level, len(api.asked)) == ("ok", 1)


@pytest.mark.parametrize(
    ("column", "text"),
    [("chnged", "'chnged' is not a column; .*changed"), ("name", "column 'name' is none of timestamp, date, bigint")],
)
def test_the_column_of_the_newest_version_can_be_compared(column: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"on_duplicate.newest_by: {text}"):
        orders(columns=COLUMNS | {"name": "string"}, on_duplicate={"newest_by": column})


@given(st.lists(st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(-3, 3)), min_size=1), max_size=5))
def test_the_newest_of_drawn_versions_is_kept(pages: list[list[tuple[int, int | None]]]) -> None:
    import pyarrow as pa

    versions = Records(
        key=["id"], columns={"id": "bigint", "x": "bigint"}, on_duplicate={"newest_by": "x"}, undeclared="drop"
    )
    schema = row_schema(versions, ())
    batches = [
        pa.RecordBatch.from_pylist([{"id": key, "x": x, "record_key": f"{key:032x}"} for key, x in page], schema=schema)
        for page in pages
    ]
    newest: dict[int, int | None] = {}
    for key, x in (version for page in pages for version in page):
        newest[key] = max(newest.get(key), x, key=lambda value: -9 if value is None else value)
    tally = Tally([DAY])
    kept = [row for batch in latest_versions(iter(batches), versions, tally) for row in batch.to_pylist()]
    assert {row["id"]: row["x"] for row in kept} == newest
    assert len(kept) == len(newest)
    differing = sum(x != newest[key] for page in pages for key, x in page)
    assert tally.counts.get("differing_duplicates", 0) == differing
