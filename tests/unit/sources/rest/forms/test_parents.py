"""Parents of parents, declared values as parents, and addresses that a parent names."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.completeness import Rules, findings
from airflow_provider_connect.definition import build_definition
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sources.rest import ErrorRule, PageNumber, Request, RestSource, Single
from airflow_provider_connect.stage.manifest import PollResult
from airflow_provider_connect.testing.polls import poll
from tests.equipment.rest_api.items import DATE
from tests.equipment.rest_api.reading import DAY, counts, declared, ids, read, records
from tests.equipment.rest_api.server import Answer, RestApi
from tests.equipment.rest_api.server import Request as Asked

ORGS = {"x": ["r1", "r2", "r3"], "y": [], "z": ["r1"]}


def tree(asked: Asked) -> Answer | None:
    """Serve /orgs, /orgs/<org>/repos two by two, and one item a repo under /orgs/<org>/repos/<repo>/items."""
    steps = asked.path.strip("/").split("/")
    number = int(asked.first("page", "1"))
    if steps == ["orgs"]:
        return Answer([{"id": name, "rank": rank} for rank, name in enumerate(ORGS)] if number == 1 else [])
    repos = ORGS[steps[1]]
    if steps[2:] == ["repos"]:
        return Answer([{"id": name} for name in repos[number * 2 - 2 : number * 2]])
    item = list(ORGS).index(steps[1]) * 10 + repos.index(steps[3])
    return Answer([{"id": item, "at": f"{DATE}T08:00:00Z", "name": asked.first("region")}])


def of_level(stream: str, path: str, **options: Any) -> dict[str, Any]:
    fields = {"records": {"key": ["id"], "columns": {"id": "string"}}, "snapshot": "replace"}
    return (
        fields
        | {
            "conn_id": "api",
            "stream": stream,
            "request": {"path": path},
            "paging": {"kind": "page_number", "ends": "empty_page"},
        }
        | options
    )


def orgs(**options: Any) -> dict[str, Any]:
    columns = {"id": "string", "rank": "bigint"}
    return of_level("orgs", "/orgs", records={"key": ["id"], "columns": columns}, **options)


def repos(**options: Any) -> dict[str, Any]:
    keyed = {"key": ["org", "id"], "columns": {"id": "string"}}
    columns = {"org": "id", "org_rank": "rank"}
    parent = options.pop("parent", orgs())
    fields = {"parent": parent, "parent_columns": columns, "records": keyed}
    return of_level("repos", "/orgs/{parent.id}/repos", **fields | options)


def items(**options: Any) -> RestSource:
    keyed = {"key": ("org", "repo", "id"), "columns": {"id": "bigint", "at": "timestamp", "name": "string"}}
    fields = {"parent": repos(), "parent_columns": {"org": "org", "repo": "id", "rank": "org_rank"}, "records": keyed}
    return declared("/orgs/{parent.org}/repos/{parent.id}/items", Single(), **fields | options)


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_children_of_all_parents_of_all_parents_are_loaded(partitions: int) -> None:
    with RestApi() as api:
        api.faults.append(tree)
        polled = read(api, items(partitions=partitions))
    rows = [row for _, _, batch in polled.batches for row in batch.select(["org", "repo", "rank", "id"]).to_pylist()]
    assert sorted(map(tuple, (row.values() for row in rows))) == [
        ("x", "r1", 0, 0),
        ("x", "r2", 0, 1),
        ("x", "r3", 0, 2),
        ("z", "r1", 2, 20),
    ]
    found = counts(polled)
    assert (found["parents"], found["parent_parents"]) == (4, 3 * partitions)


def test_a_day_whose_parents_all_have_no_answer_is_no_quiet_one() -> None:
    """The level above counts too: its ignored answers leave no parent to request."""
    gone = {"errors": [ErrorRule(status=404, then="ignore")]}
    with RestApi() as api:
        api.faults.append(lambda asked: Answer("gone", 404) if asked.path.endswith("/repos") else tree(asked))
        polled = read(api, items(parent=repos(**gone)))
    assert ids(polled) == []
    result = PollResult(files=(), counts=counts(polled))
    found = findings(DATE, result, on_empty="fail", rules=Rules(), replaced=None, earlier=None)
    assert [finding.is_fatal for finding in found] == [True]
    assert "all 3 parents" in found[0].text


def test_each_level_has_its_filter() -> None:
    with RestApi() as api:
        api.faults.append(tree)
        polled = read(api, items(parent=repos(parent_where={"rank": 2}), parent_where={"org": ["z"]}))
    assert (ids(polled), counts(polled)["parent_filtered_parents"]) == ([20], 2)


@pytest.mark.parametrize("partitions", [1, 4])
def test_each_combination_of_declared_values_is_requested(partitions: int) -> None:
    values = {"region": ("eu", "us"), "page_of": (1, 2, 3)}
    source = declared(
        "/things/{parent.page_of}",
        Single(),
        params={"region": "{parent.region}"},
        parent_values=values,
        parent_columns={"region": "region", "part": "page_of"},
        partitions=partitions,
        records={"key": ("region", "part", "id"), "columns": {"id": "bigint"}},
    )
    with RestApi() as api:
        api.faults.append(lambda _: Answer([{"id": 1}]))
        polled = read(api, source)
        asked = sorted((request.first("region"), request.path) for request in api.asked)
    assert asked == [(region, f"/things/{number}") for region in ("eu", "us") for number in (1, 2, 3)]
    rows = [row for _, _, batch in polled.batches for row in batch.select(["region", "part"]).to_pylist()]
    assert sorted((row["region"], row["part"]) for row in rows) == [(r, n) for r in ("eu", "us") for n in (1, 2, 3)]
    assert counts(polled)["parents"] == 6


def test_declared_values_are_requested_for_each_parent() -> None:
    source = items(
        request=Request(path="/orgs/{parent.org}/repos/{parent.id}/items", params={"region": "{parent.region}"}),
        parent_values={"region": ["eu", "us"]},
        parent_columns={"org": "org", "repo": "id", "region": "region"},
        records={"key": ("org", "repo", "region"), "columns": {"id": "bigint", "name": "string"}},
        snapshot="replace",
    )
    with RestApi() as api:
        api.faults.append(tree)
        polled = read(api, source)
    rows = [row for _, _, batch in polled.batches for row in batch.to_pylist()]
    assert len(rows) == 8
    assert all(row["region"] == row["name"] for row in rows)


def test_records_of_two_declared_values_that_share_a_key_are_not_lost() -> None:
    source = declared("/x/{parent.region}", Single(), parent_values={"region": ["eu", "us"]})
    with RestApi() as api:
        api.faults.append(lambda asked: Answer([{"id": 1, "at": f"{DATE}T00:00:00Z", "name": asked.path}]))
        with pytest.raises(RetriableError, match="1 records have the key of another parent"):
            read(api, source)


@pytest.mark.parametrize(
    ("url", "path", "query"),
    [
        ("http://127.0.0.1:{port}/files/a%2Fb?v=1", "/files/a%2Fb", [("v", "1"), ("since", "")]),
        ("/files/a", "/base/files/a", [("since", "")]),
        ("//other.example.com/a", "/base/%2F%2Fother.example.com%2Fa", [("since", "")]),
        ("../a", "/base/..%2Fa", [("since", "")]),
    ],
)
def test_an_address_that_a_parent_names_is_requested(url: str, path: str, query: Any) -> None:
    with RestApi() as api:
        api.faults.append(
            lambda asked: Answer([{"id": url.format(port=api.port)}] if asked.path == "/base/orgs" else [])
        )
        source = declared("{parent.id}", Single(), parent=of_level("orgs", "/orgs", paging=Single()))
        source = RestSource(
            **source.serialize() | {"request": {"path": "{parent.id}", "params": {"since": ""}}, "snapshot": "replace"}
        )
        connection = api.connection.model_copy(update={"host": "http://127.0.0.1/base"})
        poll(source, connection, DAY)
        child = api.asked[-1]
    assert (child.path, child.query) == (path, query)


@pytest.mark.parametrize("url", ["https://other.example.com/a", "http://127.0.0.1:1/a"])
def test_an_address_on_another_host_is_refused(url: str) -> None:
    source = declared("{parent.id}", Single(), parent=of_level("orgs", "/orgs", paging=Single()))
    with RestApi() as api:
        api.faults.append(lambda _: Answer([{"id": url}]))
        with pytest.raises(ConfigError, match=r"leads to .*which connection 'api' does not name"):
            read(api, source)
        assert {asked.path for asked in api.asked} == {"/orgs"}


@pytest.mark.parametrize(("spaces", "sent"), [("plus", "q=a+b%2Bc"), ("percent", "q=a%20b%2Bc")])
def test_spaces_are_sent_as_declared(spaces: str, sent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    request = {"path": "/x", "params": {"q": "a b+c"}, "spaces": spaces}
    source = RestSource(**declared("/x", Single()).serialize() | {"request": request, "snapshot": "replace"})
    lines: list[str] = []
    with RestApi() as api:
        handler = api._server.RequestHandlerClass
        original = handler.do_GET  # type: ignore[attr-defined]

        def do_get(self: Any) -> None:
            lines.append(self.path)
            original(self)

        monkeypatch.setattr(handler, "do_GET", do_get)
        api.faults.append(lambda _: Answer([]))
        read(api, source)
    assert lines == [f"/x?{sent}"]


def test_the_default_of_spaces_is_no_part_of_a_published_definition() -> None:
    source = declared("/x", Single())
    assert "spaces" not in source.serialize()["request"]
    with RestApi() as api:
        percent = RestSource(
            **source.serialize() | {"request": {"path": "/x", "spaces": "percent"}, "snapshot": "replace"}
        )
        assert percent.serialize()["request"]["spaces"] == "percent"
        narrowing = build_definition(items(), items().serialize(), api.connection).narrowing
    assert "null" not in (narrowing["parent.parent"], narrowing["parent_values"])


COLUMNS_OF_PARENT = {
    "id": "string",
    "open": "boolean",
    "on": "date",
    "at": {"type": "timestamp", "format": "epoch_s"},
    "rate": "double",
}


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("{parent.open}", "true"),
        ("{parent.on}", "2026-03-01"),
        ("{parent.at}", "2026-03-01T00:00:00Z"),
        ("{parent.at:epoch_ms}", "1772323200000"),
        ("{parent.at:%d-%b-%Y}", "01-Mar-2026"),
    ],
)
def test_a_request_takes_each_kind_of_column(text: str, sent: str) -> None:
    parent = of_level("orgs", "/orgs", paging=Single(), records={"key": ["id"], "columns": COLUMNS_OF_PARENT})
    request = {"path": "/x", "params": {"q": text}}
    source = declared("/x", Single(), request=request, parent=parent, snapshot="replace")
    row = {"id": "a", "open": True, "on": "2026-03-01", "at": 1772323200, "rate": 0.5}
    with RestApi() as api:
        api.faults.append(lambda asked: Answer([row] if asked.path == "/orgs" else []))
        read(api, source)
        assert api.asked[-1].query == [("q", sent)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{parent.rate}", "{parent.rate} has type double. Only string, bigint, boolean, date, timestamp can be part"),
        ("{parent.on:epoch_s}", "request: {parent.on} accepts no format, because its column is no timestamp"),
        ("{parent.at:soon}", "{parent.at}: unknown format 'soon'"),
    ],
)
def test_a_column_that_has_no_such_text_is_refused(text: str, problem: str) -> None:
    parent = of_level("orgs", "/orgs", paging=Single(), records={"key": ["id"], "columns": COLUMNS_OF_PARENT})
    with pytest.raises(ConfigError) as caught:
        declared("/x", Single(), request={"path": "/x", "params": {"q": text}}, parent=parent, snapshot="replace")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"parent_values": {"a b": ["x"]}}, "parent_values: 'a b' is not a valid name"),
        ({"parent_values": {"id": ["x"]}}, "parent_values.id: the parent has a column with this name"),
        ({"parent_values": {"region": ["x"]}}, "parent_values.region: the request has no {parent.region}"),
        ({"parent_values": {"org": []}}, "parent_values.org: needs at least one value, and each only once"),
        ({"parent_values": {"org": ["a", "a"]}}, "parent_values.org: needs at least one value, and each only once"),
        ({"parent_values": {"org": ["a", 1]}}, "parent_values.org: needs texts or whole numbers, not both"),
        ({"parent_values": {"org": [""]}}, "parent_values.org: needs texts or whole numbers, not both, and no empty"),
        ({"parent": repos(partitions=2)}, "parent.partitions: set partitions on the child"),
        ({"parent_columns": {"rank": "rank"}}, "parent_columns.rank: the parent has no column 'rank'"),
    ],
)
def test_parents_that_cannot_be_meant_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        items(**options)
    assert text in str(caught.value)


def test_declared_values_need_no_parent() -> None:
    with pytest.raises(ConfigError, match=r"request\.path: unknown \{parent\.region\}"):
        declared("/x/{parent.region}", PageNumber(ends="empty_page"), records=records())
