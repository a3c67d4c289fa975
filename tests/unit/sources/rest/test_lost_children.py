"""Where users of other frameworks lost the children of some parents, or read all of them each time."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from airflow_provider_connect.completeness import Rules, findings
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.sources.rest import Cap, ErrorRule, PageNumber, RestSource, Single
from airflow_provider_connect.stage.manifest import PollResult
from tests.equipment.rest_api.items import DATE, items_of, parents
from tests.equipment.rest_api.reading import counts, declared, ids, read, records
from tests.equipment.rest_api.server import Answer, Request, RestApi

ALL = list(range(1, 36))


def test_children_of_all_parents_are_read_not_only_of_those_on_the_first_page() -> None:
    """airbyte #40734."""
    with RestApi(items_of(DATE, 35)) as server:
        polled = read(server, children())
        assert sorted(ids(polled)) == ALL
        assert counts(polled)["parents"] == len(parents())


def test_the_first_child_is_asked_for_before_the_second_page_of_parents() -> None:
    """airbyte PR #46343: all parents read before the first child, and time-outs."""
    with RestApi(items_of(DATE, 35)) as server:
        read(server, children())
        paths = [(request.path, request.first("page")) for request in server.asked]
    assert paths.index(("/parents", "2")) > paths.index(("/parents/p%2F0/items", "1"))


def test_an_ignored_answer_ends_one_parents_children_not_the_reading() -> None:
    """dlt: an ignored reply ends the whole paging."""
    gone = ErrorRule(status=404, then="ignore")
    with RestApi(items_of(DATE, 35)) as server:
        server.faults.append(lambda asked: Answer("gone", 404) if "p%2F3" in asked.path else None)
        polled = read(server, children(errors=(gone,)))
    assert sorted(ids(polled)) == [number for number in ALL if number % 7 != 3]
    assert counts(polled)["ignored_parents"] == 1


def test_an_ignored_answer_may_be_empty() -> None:
    """dlt #1849: the log parsed its body as JSON."""
    gone = ErrorRule(status=404, then="ignore")
    with RestApi(items_of(DATE, 35)) as server:
        server.faults.append(lambda asked: Answer(status=404, raw=b"") if "p%2F3" in asked.path else None)
        assert len(ids(read(server, children(errors=(gone,))))) == 30


def test_a_parent_that_vanishes_between_two_pages_of_its_children_is_not_half_loaded() -> None:
    gone = ErrorRule(status=404, then="ignore")
    with RestApi(items_of(DATE, 35)) as server:
        server.faults.append(
            lambda asked: Answer("gone", 404) if "p%2F3" in asked.path and asked.first("page") == "2" else None
        )
        with pytest.raises(RetriableError, match="page 2 is empty by a rule of errors"):
            read(server, children(errors=(gone,)))


def test_a_parent_that_vanishes_between_two_listings_of_its_children_is_not_half_loaded() -> None:
    """Its first listing ended at the cap; what lies beyond is asked for anew, by a first page."""
    gone = ErrorRule(status=404, then="ignore")
    whole = children()
    paging = PageNumber(ends="empty_page", cap=Cap(records=2, param="since", field="at"))
    source = RestSource(**whole.serialize() | {"paging": paging, "errors": (gone,)})
    with RestApi(items_of(DATE, 35)) as server:
        assert sorted(ids(read(server, source))) == ALL
        server.faults.append(
            lambda asked: (
                Answer("gone", 404)
                if "p%2F3" in asked.path and asked.first("since") != "2026-10-05T00:00:00Z"
                else None
            )
        )
        with pytest.raises(RetriableError, match="listing 2: page 1 is empty by a rule of errors"):
            read(server, source)


def test_an_empty_day_because_all_parents_were_ignored_is_no_quiet_one() -> None:
    """A token that lost a right gets a 404 for each: the driver is told by these counts, and fails the day."""
    with RestApi(items_of(DATE, 35)) as server:
        server.faults.append(lambda asked: Answer("gone", 404) if asked.path.endswith("/items") else None)
        polled = read(server, children(errors=(ErrorRule(status=404, then="ignore"),)))
    assert ids(polled) == []
    found = findings(
        DATE, PollResult(files=(), counts=counts(polled)), on_empty="fail", rules=Rules(), replaced=None, earlier=None
    )
    assert [each.is_fatal for each in found] == [True]


def test_children_are_asked_for_by_the_day_and_not_in_full() -> None:
    """airbyte #34337, #28278: all children were read each time, since the parent's state was not used."""
    with RestApi([*items_of(DATE, 35), *items_of(DATE - dt.timedelta(days=1), 70, 100)]) as server:
        assert sorted(ids(read(server, children()))) == ALL
        of_children = [asked for asked in server.asked if asked.path.endswith("/items")]
    assert {asked.first("since") for asked in of_children} == {"2026-10-05T00:00:00Z"}


def test_a_child_that_changed_is_found_though_its_parent_did_not() -> None:
    """airbyte PR #77040: no API has to touch a parent's time for a child, so all parents are asked."""
    old = DATE - dt.timedelta(days=400)
    mine = children()
    with RestApi(items_of(DATE, 35)) as server:
        server.faults.append(
            lambda asked: (
                Answer([{"id": "p/1", "changed": f"{old}T00:00:00Z"}] if asked.first("page") == "1" else [])
                if asked.path == "/parents"
                else None
            )
        )
        polled = read(server, mine)
    assert sorted(ids(polled)) == [number for number in ALL if number % 7 == 1]


def test_children_whose_key_is_unique_within_their_parent_only_are_not_lost() -> None:
    """Comment 1 of each issue: all but one parent's were dropped as duplicates."""

    def counted_by_parent(asked: Request) -> Answer | None:
        if not asked.path.endswith("/items"):
            return None
        parent = int(asked.path.split("%2F")[1][0])
        items = [each | {"name": f"of {parent}"} for each in items_of(DATE, 3)]
        return Answer(items if asked.first("page") == "1" else [])

    with RestApi() as server:
        server.faults.append(counted_by_parent)
        for undeclared in ("json", "drop"):
            with pytest.raises(RetriableError, match=r"3 records have the key of another parent.*parent_columns"):
                read(server, children(records=records(undeclared=undeclared)))
        keyed = children(parent_columns={"parent": "id"}, records=records(key=("parent", "id")))
        assert sorted(ids(read(server, keyed))) == sorted([1, 2, 3] * len(parents()))


def test_the_same_record_under_two_parents_is_one_row() -> None:
    with RestApi() as server:
        same = items_of(DATE, 25)
        server.faults.append(
            lambda asked: (
                Answer(same[(page := int(asked.first("page"))) * 5 - 5 : page * 5])
                if asked.path.endswith("/items")
                else None
            )
        )
        polled = read(server, children())
    assert (ids(polled), counts(polled)["duplicates"]) == (ALL[:25], 25 * (len(parents()) - 1))


@pytest.mark.parametrize("is_next_page", [True, False])
def test_a_child_that_changes_while_its_parent_is_read_is_a_duplicate(*, is_next_page: bool) -> None:
    """H17 under a parent: it is the same record."""
    before, after = items_of(DATE, 20), [item | {"name": "changed"} for item in items_of(DATE, 20)[:10]]
    pages = {"1": before, "2": after} if is_next_page else {"1": [*before, *after]}

    with RestApi() as server:
        server.faults.append(
            lambda asked: (
                Answer(pages.get(asked.first("page"), []) if "p%2F3" in asked.path else [])
                if asked.path.endswith("/items")
                else None
            )
        )
        polled = read(server, children(records=records(on_duplicate="first")))
        with pytest.raises(RetriableError, match="10 records have the key of an earlier record and differ"):
            read(server, children())
    assert (ids(polled), counts(polled)["duplicates"], counts(polled)["differing_duplicates"]) == (ALL[:20], 10, 10)


SHOPS = [
    {"id": "a", "kind": "shop", "open": True, "rank": 1},
    {"id": "b", "kind": "depot", "open": True, "rank": 2},
    {"id": "", "kind": "shop", "open": True, "rank": 3},
    {"id": "d", "kind": "shop", "open": False, "rank": 1},
    {"id": None, "kind": None, "open": True, "rank": 1},
]


def of_shops(**options: Any) -> RestSource:
    parent = {
        "conn_id": "api",
        "stream": "shops",
        "request": {"path": "/shops"},
        "paging": Single(),
        "records": {
            "key": ["number"],
            "columns": {
                "number": "bigint",
                "id": "string",
                "kind": "string",
                "open": "boolean",
                "rank": "bigint",
                "at": "timestamp",
            },
        },
        "snapshot": "replace",
    }
    return declared("/shops/{parent.id}/items", Single(), parent=parent, **options)


@pytest.mark.parametrize(
    ("where", "requested", "filtered", "without_value"),
    [
        ({}, ["a", "b", "d"], 0, 2),
        ({"open": True}, ["a", "b"], 1, 2),
        ({"kind": ["shop", None], "open": True}, ["a"], 2, 2),
        ({"kind": "shop", "rank": [1, 2]}, ["a", "d"], 3, 0),
        ({"rank": [7]}, [], 5, 0),
    ],
)
def test_only_the_parents_that_are_meant_are_requested(
    where: Any, requested: list[str], filtered: int, without_value: int
) -> None:
    with RestApi() as server:
        shops = [shop | {"number": number} for number, shop in enumerate(SHOPS)]
        server.faults.append(lambda asked: Answer(shops if asked.path == "/shops" else []))
        polled = read(server, of_shops(parent_where=where, parent_without_value="skip"))
        paths = sorted(asked.path for asked in server.asked if asked.path != "/shops")
    assert paths == [f"/shops/{name}/items" for name in requested]
    found = counts(polled)
    assert [found.get(name, 0) for name in ("parents", "filtered_parents", "parents_without_value")] == [
        len(requested),
        filtered,
        without_value,
    ]


def test_a_parent_without_a_value_fails_the_day_unless_it_is_skipped() -> None:
    with RestApi() as server:
        shops = [shop | {"number": number} for number, shop in enumerate(SHOPS)]
        server.faults.append(lambda asked: Answer(shops if asked.path == "/shops" else []))
        with pytest.raises(DataError, match="set parent_without_value='skip'"):
            read(server, of_shops())
        assert counts(read(server, of_shops(parent_where={"kind": ["depot"]})))["parents"] == 1


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({"opn": True}, "parent_where.opn: the parent has no such column; did you mean 'open'?"),
        ({"open": 1}, "parent_where.open: a value of another type than the column, which is boolean"),
        ({"rank": [1, "2"]}, "parent_where.rank: a value of another type than the column, which is bigint"),
        ({"at": "2026-10-05"}, "parent_where.at: a value of another type than the column, which is timestamp"),
    ],
)
def test_a_filter_that_matches_no_parent_by_mistake_is_refused(where: Any, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        of_shops(parent_where=where)
    assert text in str(caught.value)


def children(**options: Any) -> RestSource:
    parent = RestSource(
        conn_id="api",
        stream="parents",
        request={"path": "/parents"},
        paging=PageNumber(ends="empty_page"),
        records={"key": ["id"], "columns": {"id": "string"}},
        snapshot="replace",
    )
    return declared("/parents/{parent.id}/items", PageNumber(ends="empty_page"), parent=parent, **options)
