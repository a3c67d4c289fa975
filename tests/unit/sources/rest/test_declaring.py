"""What a declaration may say, in a DAG file or a file of its own; and what is refused before anything is asked."""

from __future__ import annotations

import datetime as dt
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._rest import poller as polling
from airflow_provider_connect.sources.rest import (
    Count,
    LinkHeader,
    PageNumber,
    Records,
    Request,
    RestSource,
)
from airflow_provider_connect.window import Day
from tests.equipment.rest_api.items import DATE, items_of, parents
from tests.equipment.rest_api.reading import DAY, declared, ids, read, records
from tests.equipment.rest_api.server import RestApi

CONNECTION = Connection(conn_id="api", conn_type="http", host="https://api.example")
PAGE = Path(__file__).parents[4] / "docs" / "any-api.md"
MINIMAL: dict[str, Any] = {
    "conn_id": "api",
    "stream": "items",
    "request": {"path": "/pages", "params": {"since": "{day.start}", "until": "{day.end}"}},
    "paging": {"kind": "page_number", "ends": "empty_page"},
    "records": {"key": ["id"], "columns": {"id": "bigint"}},
}
PARENT: dict[str, Any] = {
    "stream": "parents",
    "request": {"path": "/parents"},
    "paging": {"kind": "page_number", "ends": "empty_page"},
    "records": {"key": ["id"], "columns": {"id": "string", "rank": "double"}},
    "snapshot": "replace",
}
OF_A_DAY = PARENT | {
    "records": {"key": ["id"], "columns": {"id": "string", "at": "timestamp"}, "day": "at", "outside": "drop"},
    "snapshot": None,
}
YAML = """
stream: items
request:
  path: /pages
  params: {since: "{day.start}", until: "{day.end}", per_page: 100, draft: false}
paging: {kind: page_number, ends: empty_page}
records:
  key: [id]
  columns:
    id: bigint
    user_id: {type: bigint, at: /user/id}
"""


def with_children(**changes: Any) -> dict[str, Any]:
    request = {"path": "/parents/{parent.id}/items", "params": {"since": "{day.start}", "until": "{day.end}"}}
    return MINIMAL | {"request": request, "parent": PARENT} | changes


def test_a_file_declares_the_same_as_a_dag_file(tmp_path: Path) -> None:
    (tmp_path / "items.yaml").write_text(YAML)
    made = RestSource.from_file(tmp_path / "items.yaml", conn_id="api")
    (tmp_path / "items.json").write_text(json.dumps(made.serialize()))
    assert RestSource.from_file(tmp_path / "items.json") == made
    assert made.request.params == {"since": "{day.start}", "until": "{day.end}", "per_page": 100, "draft": False}
    assert made.records.columns["user_id"].at == "/user/id"


NAMES = st.text("ab.", min_size=1, max_size=5)
STREAMS = NAMES.filter(lambda name: name[0] != ".")


def key_of(conn_id: str, stream: str) -> str:
    return RestSource(**MINIMAL | {"conn_id": conn_id, "stream": stream}).stream_key


@given(conn_ids=st.tuples(NAMES, NAMES), streams=st.tuples(STREAMS, STREAMS))
def test_two_streams_never_share_a_ledger(conn_ids: tuple[str, str], streams: tuple[str, str]) -> None:
    """Connection a.b with stream c had the ledger of connection a with stream b.c."""
    one, other = zip(conn_ids, streams, strict=True)
    assert (key_of(*one) == key_of(*other)) == (one == other)


def test_a_stream_of_a_connection_without_a_dot_keeps_the_key_that_it_had() -> None:
    assert key_of("github", "issues") == "github.issues"
    assert key_of("github", "airflow.issues") == "github.airflow.issues"
    assert key_of("a.b", "c") != key_of("a", "b.c")


def test_a_file_is_found_beside_the_file_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "items.yaml").write_text(YAML)
    dag = tmp_path / "dag.py"
    dag.write_text("made = RestSource.from_file('items.yaml', conn_id='api')")
    monkeypatch.chdir("/")
    names = {"RestSource": RestSource}
    exec(compile(dag.read_text(), str(dag), "exec"), names)
    assert isinstance(names["made"], RestSource)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "stream: a\nstream: b\n", "stream: repeated in one object"),
        ("a.json", '{"stream": "a", "stream": "b"}', "stream: repeated in one object"),
        ("a.yaml", "- a\n", "is not an object with options"),
        ("a.yaml", "a: [", "it is not valid YAML at line"),
        ("a.yaml", "a: !!python/object:os.system x", "it is not valid YAML"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message):
        RestSource.from_file(tmp_path / name, conn_id="api")
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        RestSource.from_file(tmp_path / "none.yaml")


def test_the_page_for_users_declares_what_it_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    (code, *_), (text,) = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("python", "yaml"))
    made: list[RestSource] = []
    operator = {"ConnectOperator": lambda **options: made.append(options["source"])}
    exec(code.replace("from airflow_provider_connect.operators.connect import ConnectOperator\n", ""), operator)
    of_file = RestSource(**yaml.safe_load(text), conn_id="shop")
    assert (made[0].request, made[0].paging) == (of_file.request, of_file.paging)


def test_the_schema_for_editors_knows_every_kind_and_its_short_forms() -> None:
    schema = RestSource.json_schema()
    text = json.dumps(schema)
    for word in ("page_number", "link_header", "last_key", "empty_page", "no_token", "short_page", "epoch_ms", "retry"):
        assert f'"{word}"' in text
    columns = schema["$defs"]["Records"]["properties"]["columns"]["additionalProperties"]
    assert {"type": "string"} in columns["anyOf"], "a type alone is a column"
    kinds = schema["$defs"]["Flag"]["properties"]["at"]
    assert "has_more" in kinds["description"], "editors show what a field is"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"paging": {"kind": "page_number"}}, "paging.page_number.ends: required"),
        ({"paging": {"kind": "pages", "ends": "empty_page"}}, "declare the paging: Single()"),
        ({"paging": {"kind": "page_number", "ends": "sometime"}}, "declare the end rule: 'empty_page'"),
        ({"paging": {"kind": "page_number", "ends": "no_token"}}, "'no_token' does not fit this paging"),
        ({"paging": {"kind": "cursor", "ends": "no_token", "at": "c"}}, "set one of 'param', 'send_header' and 'put'"),
        ({"request": {"path": "https://elsewhere/x"}}, "which the connection names"),
        ({"request": {"path": "/x?a=1"}}, "to params"),
        ({"request": {"path": "/x", "body": {}}}, "require method='POST'"),
        ({"records": {"key": ["di"], "columns": {"id": "bigint"}}}, "'di' is not a column; did you mean 'id'?"),
        ({"records": {"key": ["id"], "columns": {"id": "bigit"}}}, "unknown type; did you mean 'bigint'?"),
        ({"records": {"key": ["id"], "columns": {"id": "bigint", "ID": "string"}}}, "occurs twice"),
        ({"records": {"key": ["id"], "columns": {"id": "bigint", "document": "json"}}}, "is a reserved name"),
        ({"records": {"key": ["id"], "columns": {"id": "bigint", "a b": "json"}}}, "'a b' is not a valid name"),
        ({"records": {"key": ["id"], "columns": {"id": "bigint"}, "day": "id"}}, "neither timestamp nor date"),
        ({"records": {"key": ["id"], "columns": {"id": "bigint"}, "outside": "drop"}}, "requires day"),
        ({"bounds": {"end": "inclusive"}}, "bounds.granularity: required for {day.end}"),
        ({"bounds": {"start": "exclusive"}}, "bounds.granularity: required for {day.start}"),
        (
            {
                "bounds": {"end": "inclusive", "format": "date"},
                "count": {"request": {"path": "/n/{day.end:iso}"}, "at": "n"},
            },
            "bounds.granularity: required for {day.end}",
        ),
        ({"records": {"at": "/a~2", "key": ["id"], "columns": {"id": "bigint"}}}, "'~' is written as '~0'"),
        ({"zone": "Mars/Base"}, "unknown time zone 'Mars/Base'"),
        ({"snapshot": "replace"}, "but the request selects a day"),
        ({"partitions": 2}, "Only parents"),
        ({"request": {"path": "/x/{day.start}", "headers": {"X-Api-Key": "k"}}}, "'X-Api-Key' is a credential"),
        ({"request": {"path": "/x/{day.start}", "params": {"access_token": "k"}}}, "'access_token' is a credential"),
        (
            {"request": {"path": "/x/{day.start}", "params": {"page": 1}}},
            "request.params.page: already sent by the paging",
        ),
        (
            {"paging": {"kind": "cursor", "ends": "no_token", "at": "c", "put": "c"}},
            "paging.put: requires request.method='POST'",
        ),
        ({"errors": [{"status": 404, "then": "ignore"}]}, "'ignore' requires a parent"),
        ({"parent_columns": {"a": "id"}}, "requires a parent"),
    ],
)
def test_a_wrong_declaration_is_refused_with_what_to_do(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RestSource(**MINIMAL | changes)
    assert message in str(caught.value)


def one_bound(**changes: Any) -> RestSource:
    return RestSource(**MINIMAL | {"request": {"path": "/x", "params": {"since": "{day.start}"}}} | changes)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"path": "/x", "params": {"since": "{day.start}"}}, "each day would load all records since then"),
        ({"path": "/x", "method": "POST", "body": {"q": ["to:{day.end:epoch_s}"]}}, "all records up to then"),
        ({"path": "/x", "headers": {"If-Modified-Since": "{day.start}"}}, "{day.start} is the only bound"),
    ],
)
def test_a_request_with_one_bound_is_refused_before_each_day_has_the_rows_of_all(
    request_: dict[str, Any], message: str
) -> None:
    (problem,) = one_bound(request=request_).check(CONNECTION)
    assert message in problem
    assert "records.day with outside='drop'" in problem


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"request": {"path": "/x", "params": {"on": "{day.start:date}"}}},
        {"request": {"path": "/x/{day.start:epoch_s}"}},
        {"request": {"path": "/x", "params": {"q": "{day.start}..{day.end}"}}},
        OF_A_DAY | {"request": {"path": "/x", "params": {"since": "{day.start}"}}},
        {"request": {"path": "/x"}, "snapshot": "daily"},
        with_children(request={"path": "/x/{parent.id}", "params": {"since": "{day.start}"}}),
    ],
)
def test_a_request_that_names_its_day_otherwise_is_not(changes: dict[str, Any]) -> None:
    assert RestSource(**MINIMAL | changes).check(CONNECTION) == []


@pytest.mark.parametrize("bounds", [{"granularity": "second"}, {"format": "date"}, {"end": "exclusive"}])
def test_how_fine_an_api_compares_is_asked_for_where_it_matters(bounds: dict[str, str]) -> None:
    assert RestSource(**MINIMAL | {"bounds": {"end": "inclusive"} | bounds}).bounds.granularity in (None, "second")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"request": {"path": "/parents", "params": {"since": "{day.start}"}}}, "no {parent.…}"),
        ({"request": {"path": "/x/{parent.idd}"}}, "unknown {parent.idd}; did you mean 'parent.id'?"),
        ({"request": {"path": "/x/{parent.rank}/{day.start}"}}, "{parent.rank} has type double"),
        ({"parent_columns": {"p": "nr"}}, "the parent has no column 'nr'"),
        ({"parent_columns": {"ID": "id"}}, "'ID' is already a column"),
        ({"partitions": 2}, "add one of parent_columns"),
        (
            {"request": {"path": "/x/{parent.id}"}, "snapshot": "replace", "parent": OF_A_DAY},
            "a snapshot needs the children of all parents",
        ),
        ({"parent": PARENT | {"errors_tolerance": "all"}}, "would lose its children"),
        ({"parent": PARENT | {"conn_id": "other"}}, "must be the same as conn_id"),
        ({"count": {"at": "total"}}, "not per day"),
    ],
)
def test_parents_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RestSource(**with_children(**changes))
    assert message in str(caught.value)


@pytest.mark.parametrize("partitions", [1, 3])
def test_each_parents_children_are_in_one_partition(partitions: int) -> None:
    columns = {"parent_columns": {"parent_id": "id"}, "partitions": partitions}
    keyed = {"records": {"key": ["parent_id", "id"], "columns": {"id": "bigint"}}}
    with RestApi() as api:
        polled = read(api, RestSource(**with_children(**columns, **keyed)))
    assert sorted(ids(polled)) == list(range(1, 36))
    by_part = [
        {row["parent_id"] for part, _, batch in polled.batches if part.index == index for row in batch.to_pylist()}
        for index in range(partitions)
    ]
    assert sum(map(len, by_part)) == len(set().union(*by_part)) == len(parents())
    assert sum(bool(each) for each in by_part) > partitions // 2


def test_a_parent_that_is_no_row_fails_the_day_for_its_children_would_be_missing() -> None:
    odd = {"records": {"key": ["id"], "columns": {"id": "bigint"}}}
    with RestApi() as api, pytest.raises(DataError, match="parents, page 1: record 0 is rejected"):
        read(api, RestSource(**with_children(parent=PARENT | odd)))


def snapshot(kind: str, **options: Any) -> RestSource:
    return RestSource(**MINIMAL | {"request": {"path": "/pages"}, "snapshot": kind} | options)


def test_a_snapshot_is_all_there_is_whatever_day_it_is_of() -> None:
    rows = [*items_of(DATE, 5), *items_of(DATE + dt.timedelta(days=400), 5, 100)]
    assert (snapshot("replace").kind, snapshot("daily").kind) == ("snapshot", "day")
    assert not snapshot("daily").reloads
    with RestApi(rows) as api:
        assert len(ids(read(api, snapshot("replace")))) == 10


def test_a_daily_snapshot_is_never_taken_for_a_day_that_is_long_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the API has today is not what it had in March: catchup must not make it so."""
    with RestApi() as api:
        poller = snapshot("daily").open(api.connection, PollContext())
        monkeypatch.setattr(polling, "current_time", lambda: DAY.end + dt.timedelta(hours=23))
        assert len(poller.plan([DAY])) == 1
        monkeypatch.setattr(polling, "current_time", lambda: DAY.end + dt.timedelta(hours=25))
        with pytest.raises(ConfigError, match="Its old state is gone"):
            poller.plan([DAY])


@pytest.mark.parametrize(
    "count",
    [
        Count(request=Request(path="/count", params={"since": "{day.start}", "until": "{day.end}"}), at="/meta/count"),
        Count(header="X-Total"),
    ],
)
def test_the_apis_own_count_of_a_day_is_read(count: Count) -> None:
    source = declared("/pages", PageNumber(ends="empty_page"), count=count)
    assert source.count_problems() == []
    with RestApi([*items_of(DATE, 35), *items_of(DATE + dt.timedelta(days=1), 7, 100)]) as api:
        poller = source.open(api.connection, PollContext())
        assert poller.count(DAY, Tally()).rows == 35
        assert poller.count(Day(date=DATE + dt.timedelta(days=1)), Tally()).rows == 7
        wrong = declared("/pages", PageNumber(ends="empty_page"), count=Count(header="X-Nothing"))
        with pytest.raises(ConfigError, match="no whole number at 'X-Nothing'"):
            wrong.open(api.connection, PollContext()).count(DAY, Tally())


def test_a_poll_keeps_no_more_than_two_pages_in_memory() -> None:
    """Beside the page whose rows are made it reads the next one, and asks for no third before rows are wanted again."""
    with RestApi() as api:
        source = declared("/pages", PageNumber(ends="empty_page"))
        with source.open(api.connection, PollContext()) as poller:
            (part,) = poller.plan([DAY])
            yielded = poller.poll(part, Tally(part.days))
            for taken in (1, 2):
                next(yielded)
                time.sleep(0.2)
                assert len(api.asked) == taken + 1
            yielded.close()  # type: ignore[attr-defined]


def test_pages_have_an_end_whatever_the_api_says() -> None:
    with RestApi() as api, pytest.raises(ConfigError, match="more than max_pages=3 pages"):
        read(api, declared("/linked", LinkHeader(ends="no_token", max_pages=3), at="items"))


def test_a_key_may_be_of_several_columns() -> None:
    one = Records(key=("id", "name"), columns={"id": "bigint", "name": "string"})
    with RestApi(items_of(DATE, 3)) as api:
        polled = read(api, declared("/single", {"kind": "single"}, records=one))
    assert len({key for _, _, batch in polled.batches for key in batch.column("record_key").to_pylist()}) == 3
    assert records().key == ("id",)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"paging": {"kind": "offset", "end": "empty_page"}},
            "paging.offset.end: unknown option; did you mean 'ends'?",
        ),
        (
            {"paging": {"kind": "next_link", "at": "x", "ends": {"rule": "flag", "at": "m", "lst": True}}},
            "paging.next_link.ends.flag.lst: unknown option; did you mean 'last'?",
        ),
        (
            {"records": {"key": ["id"], "columns": {"id": {"type": "bigint", "formt": "iso"}}}},
            "records.columns.id.formt: unknown option; did you mean 'format'?",
        ),
        ({"errors": [{"status": 404, "than": "empty"}]}, "errors.0.than: unknown option; did you mean 'then'?"),
    ],
)
def test_a_misspelt_option_of_a_part_is_named_with_the_part_s_own(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RestSource(**MINIMAL | options)
    assert text in str(caught.value)


def test_a_file_without_a_connection_is_valid_by_the_schema() -> None:
    """The example's DAG gives the connection. A parent takes it from its child."""
    declaration = yaml.safe_load((Path(__file__).parents[4] / "dags" / "stripe_events.yaml").read_text())
    validator = Draft202012Validator(RestSource.json_schema())
    child = declaration | {"parent": declaration | {"snapshot": "replace"}}
    assert [error.message for file in (declaration, child) for error in validator.iter_errors(file)] == []
    assert list(validator.iter_errors({"conn_id": "a"}))
