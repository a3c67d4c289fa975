"""Which parts a stream's definition has, and what follows if one of them differs."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.config import has_template
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.definition import (
    add_key,
    build_definition,
    compare_definitions,
    days_with_other_rows,
    masked_columns,
)
from airflow_provider_connect.ledger import Intent, LedgerRow
from airflow_provider_connect.source import Source
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.sources.rest import RestSource
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.sources.x_search import XSearchSource
from airflow_provider_connect.stage.definition import DIGEST_BITS, StreamDefinition, literal_part

MIXPANEL = Connection(conn_id="m", conn_type="mixpanel", login="user@x", password="s", extra={"project_id": "7"})
SHOP = Connection(conn_id="shop", conn_type="postgres", host="db.example", path="shop", login="reader", password="s")
API = Connection(conn_id="api", conn_type="http", host="https://user:canary@api.example/v1?key=canary")


def defined(source: Source, connection: Connection, **more: Any) -> StreamDefinition:
    return build_definition(source, source.serialize(), connection, **more)


def mixpanel(**options: Any) -> StreamDefinition:
    return defined(MixpanelSource(**{"conn_id": "m", "zone": "UTC"} | options), MIXPANEL)


def shop(connection: Connection = SHOP, **options: Any) -> StreamDefinition:
    return defined(SqlSource(**{"conn_id": "shop", "table": "orders"} | options), connection)


def rest(**request: Any) -> StreamDefinition:
    return defined(
        RestSource(
            conn_id="api",
            stream="issues",
            request={"path": "/issues", "params": {"since": "{day.start}", "until": "{day.end}"}} | request,
            paging={"kind": "single"},
            records={"key": ["id"], "columns": {"id": "bigint"}},
        ),
        API,
    )


BY_DAY = {"day_column": "created_at"}
FOLLOWED = {"mode": "incrementing", "incrementing_column": "id"}

NARROWED = [
    (mixpanel(event=["signup"]), mixpanel(event=["page view"]), "event"),
    (mixpanel(), mixpanel(where='properties["$os"] == "iOS"'), "where"),
    (mixpanel(), mixpanel(deduplicate="off"), "deduplicate"),
    (
        mixpanel(stream="engage", filter_by_cohort=1),
        mixpanel(stream="engage", filter_by_cohort=2),
        "filter_by_cohort",
    ),
    (rest(), rest(params={"since": "{day.start}", "until": "{day.end}", "state": "all"}), "request"),
    (shop(**BY_DAY), shop(**BY_DAY, where="amount > 17"), "where"),
    (
        shop(table=None, query="select 1", stream="q", key=["id"], **BY_DAY),
        shop(table=None, query="select 2", stream="q", key=["id"], **BY_DAY),
        "query",
    ),
]
READ_OTHERWISE = [
    (
        shop(SHOP.model_copy(update={"extra": {"options": "-c search_path=old -c jit=off"}}), **BY_DAY),
        shop(SHOP.model_copy(update={"extra": {"options": "-c jit=on -c search_path=new"}}), **BY_DAY),
        "search_path",
    ),
    (mixpanel(), mixpanel(zone="US/Pacific", timestamps="utc"), "zone"),
    (
        mixpanel(zone="US/Pacific", timestamps="utc"),
        mixpanel(zone="US/Pacific", timestamps="project_local"),
        "timestamps",
    ),
    (shop(**BY_DAY), shop(**BY_DAY, zone="Asia/Tokyo"), "zone"),
    (shop(**BY_DAY), shop(**BY_DAY, db_timezone="Asia/Tokyo"), "db_timezone"),
    (shop(snapshot="replace"), shop(**FOLLOWED), "kind"),
    (shop(**BY_DAY), shop(day_column="updated_at"), "day_column"),
    (shop(**BY_DAY), shop(**BY_DAY, day_column_unit="seconds"), "day_column_unit"),
    (shop(**FOLLOWED), shop(mode="incrementing", incrementing_column="number"), "incrementing_column"),
    (shop(**BY_DAY, key=["id"]), shop(**BY_DAY, key=["code"]), "key"),
    (shop(**BY_DAY), shop(SHOP.model_copy(update={"path": "old_shop"}), **BY_DAY), "database"),
]


@pytest.mark.parametrize(("before", "after", "part"), NARROWED, ids=[part for *_, part in NARROWED])
def test_a_narrowing_that_differs_is_told_to_its_own_task_and_refused_to_another(
    before: StreamDefinition, after: StreamDefinition, part: str
) -> None:
    same = compare_definitions(before, after, is_same_task=True, identifies_by_key=False)
    assert [text.partition(" was ")[0] for text in same.notices] == [part]
    assert not same.refusals
    assert not same.acceptable
    other = compare_definitions(before, after, is_same_task=False, identifies_by_key=False)
    assert [text.partition(" was ")[0] for text in other.acceptable] == [part]
    assert not other.notices


@pytest.mark.parametrize(("before", "after", "part"), READ_OTHERWISE, ids=[part for *_, part in READ_OTHERWISE])
def test_another_way_of_reading_is_refused_until_a_person_accepts_it(
    before: StreamDefinition, after: StreamDefinition, part: str
) -> None:
    comparison = compare_definitions(before, after, is_same_task=True, identifies_by_key=False)
    assert part in [text.partition(" was ")[0] for text in comparison.acceptable]
    assert not comparison.refusals


def test_columns_and_what_only_spares_the_source_are_no_parts() -> None:
    assert shop(**BY_DAY) == shop(**BY_DAY, columns=["id", "created_at"], statement_timeout_seconds=60)
    assert shop(**BY_DAY) == shop(**BY_DAY, exclude_columns=["note"])
    assert mixpanel() == mixpanel(promote=["$os"], split_rows=1000, max_rejects=1)


def test_who_may_read_is_told_and_never_refused() -> None:
    moved = SHOP.model_copy(update={"host": "replica.example"})
    comparison = compare_definitions(shop(**BY_DAY), shop(moved, **BY_DAY), is_same_task=False, identifies_by_key=True)
    assert comparison == comparison._replace(refusals=(), acceptable=(), notices=())
    assert comparison.access == ("host was db.example, and is replica.example",)


def test_a_setting_may_move_from_the_connection_to_the_source() -> None:
    extra = {"project_id": "7", "timestamps": "utc"}
    of_connection = MIXPANEL.model_copy(update={"extra": extra})
    source = MixpanelSource(conn_id="m", zone="US/Pacific")
    on_source = source.model_copy(update={"timestamps": "utc"})
    assert defined(source, of_connection) == defined(on_source, MIXPANEL)


def test_a_key_of_other_columns_or_classes_is_refused_where_rows_are_merged_by_it() -> None:
    before = add_key(shop(**BY_DAY), {b"key": json.dumps([["id", "integer"]]).encode()})
    after = add_key(shop(**BY_DAY), {b"key": json.dumps([["id", "text"]]).encode()})
    merged = compare_definitions(before, after, is_same_task=True, identifies_by_key=True)
    assert merged.refusals == (
        "the key was (id: integer), and is (id: text): the target would keep each row twice, once by each key. "
        "Set key= as before, or name a new target",
    )
    replaced = compare_definitions(before, after, is_same_task=True, identifies_by_key=False)
    assert replaced.notices == ("the key was (id: integer), and is (id: text)",)
    assert not replaced.refusals


def test_a_dropped_key_is_told_and_refused_only_where_rows_are_merged_by_it() -> None:
    before = add_key(shop(**BY_DAY), {b"key": json.dumps([["id", "n"]]).encode()})
    replaced = compare_definitions(before, shop(**BY_DAY), is_same_task=True, identifies_by_key=False)
    assert replaced == replaced._replace(refusals=(), acceptable=(), access=())
    assert replaced.notices == ("rows have no key any more, it was (id: n)",)
    merged = compare_definitions(before, shop(**BY_DAY), is_same_task=True, identifies_by_key=True)
    assert merged.refusals == (
        "rows have no key any more, it was (id: n): the target identifies rows by it. Set key= to these columns",
    )


def test_shapes_and_the_keys_of_masks_are_parts() -> None:
    plain = mixpanel()
    source = MixpanelSource(conn_id="m", zone="UTC")
    dropped = defined(source, MIXPANEL, shapes=[{"drop": {"columns": ["properties"]}}])
    keyed = defined(
        source, MIXPANEL, shapes=[{"drop": {"columns": ["properties"]}}], mask_key_digests={"key[0]": "abc"}
    )
    for before, after in ((plain, dropped), (dropped, keyed)):
        comparison = compare_definitions(before, after, is_same_task=True, identifies_by_key=False)
        assert comparison.notices
        assert not comparison.acceptable


def test_shapes_of_another_task_leave_out_other_rows_and_are_refused() -> None:
    """A filter is a narrowing: two tasks with two of them would delete each other's rows."""
    source = MixpanelSource(conn_id="m", zone="UTC")
    one, other = (defined(source, MIXPANEL, shapes=[{"filter": {"where": where}}]) for where in ("a = 1", "a = 2"))
    assert compare_definitions(one, other, is_same_task=True, identifies_by_key=False).notices
    comparison = compare_definitions(one, other, is_same_task=False, identifies_by_key=False)
    assert [text.partition(" was ")[0] for text in comparison.acceptable] == ["shape"]
    assert not comparison.notices


def test_a_transform_is_a_part() -> None:
    source = MixpanelSource(conn_id="m", zone="UTC")
    one, other = (
        defined(source, MIXPANEL, transform=f"SELECT * FROM polled WHERE event = '{event}'")
        for event in ("canary", "view")
    )
    assert "canary" not in one.model_dump_json()
    assert compare_definitions(one, other, is_same_task=True, identifies_by_key=False).notices
    assert compare_definitions(one, other, is_same_task=False, identifies_by_key=False).acceptable


def test_a_part_that_another_version_did_not_know_is_no_change() -> None:
    now = shop(**BY_DAY)
    before = now.model_copy(update={"reading": {k: v for k, v in now.reading.items() if k != "db_timezone"}})
    assert compare_definitions(before, now, is_same_task=False, identifies_by_key=True) == ((), (), (), ())
    assert compare_definitions(now, before, is_same_task=False, identifies_by_key=True) == ((), (), (), ())


def test_options_count_as_the_dag_file_has_them() -> None:
    written = SqlSource(conn_id="shop", table="orders", **BY_DAY, where="seen_on = '{{ ds }}'")
    assert has_template(written.where)
    days = [written.rendered(lambda text, day=day: text.replace("{{ ds }}", day)).checked() for day in ("a", "b")]
    assert days[0].where != days[1].where
    first, second = (build_definition(day, written.serialize(), SHOP) for day in days)
    assert first == second


@pytest.mark.parametrize(
    "definition",
    [
        shop(**BY_DAY, where="token = 'canary' and card = 4111111111111111"),
        shop(table=None, query="select * from t where name = 'canary'", stream="q", key=["id"], **BY_DAY),
        mixpanel(where='properties["email"] == "canary@example.com"'),
        rest(params={"since": "{day.start}", "until": "{day.end}", "q": "canary"}),
        defined(XSearchSource(conn_id="x", queries=["from:canary"]), Connection(conn_id="x", login="canary")),
    ],
)
def test_literals_logins_and_secrets_are_in_no_part(definition: StreamDefinition) -> None:
    text = definition.model_dump_json()
    assert "canary" not in text
    assert "4111" not in text
    assert "reader" not in text


@pytest.mark.parametrize(
    "condition",
    [
        r"name = 'O\'canary' AND amount > 17",
        r"folder = 'C:\' AND name = 'canary'",
        "email = $$canary$$",
        "email = $tag$canary$tag$",
        "amount > 17 -- it's canary's",
        "hash = 0xCA4A41",
    ],
)
def test_a_literal_is_not_shown_whatever_its_dialect(condition: str) -> None:
    shown = literal_part(condition)
    assert "canary" not in shown
    assert "CA4A41" not in shown


def test_a_condition_stays_readable_without_its_literals() -> None:
    shown = literal_part("country = 'AT' AND code_2 > 17 AND note = 'it''s'")
    assert shown.startswith("country = … AND code_2 > … AND note = … #")
    assert literal_part('properties["$os"] == "iOS" and properties["$city"] == "Graz"').startswith("properties[…] == …")


@pytest.mark.parametrize(
    "host",
    [
        "https://user:canary@api.example/v1",
        "https://user:p@canary@api.example/v1",
        "https://user:canary/x@api.example/v1",
        "https://user:canary#x@api.example/v1",
        "https://user:canary?x@api.example/v1",
        "user:canary@api.example",
        "jdbc:oracle:thin:scott/canary@//db.example:1521/shop",
        "jdbc:db2://db.example:50000/shop:user=reader;password=canary;",
        "jdbc:mysql://address=(host=db.example)(password=canary)/shop",
    ],
)
def test_no_form_of_a_host_shows_a_password(host: str) -> None:
    shown = shop(SHOP.model_copy(update={"host": host}), **BY_DAY).access["host"]
    assert "canary" not in shown


@pytest.mark.parametrize("host", ["db.example", "https://api.example/v1", "jdbc:oracle:thin:@//db.example:1521/shop"])
def test_a_host_without_a_password_is_shown(host: str) -> None:
    assert shop(SHOP.model_copy(update={"host": host}), **BY_DAY).access["host"] == host


@given(first=st.text(max_size=200), second=st.text(max_size=200))
def test_two_texts_are_one_part_only_if_they_are_equal(first: str, second: str) -> None:
    assert (literal_part(first) == literal_part(second)) == (first == second)


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_a_digest_fits_into_a_signed_number_and_knows_no_order(parts: dict[str, str]) -> None:
    one = StreamDefinition(narrowing=parts)
    other = StreamDefinition(narrowing=dict(reversed(parts.items())))
    assert one.digest == other.digest
    assert int(one.digest, 16) < 1 << DIGEST_BITS < 1 << 63


def test_a_task_is_named_by_dag_task_and_map_index_whatever_the_run() -> None:
    tasks = {Intent(token="t", run=f"dag/{run}/load[3]").task for run in ("manual__1", "a/run/with/slashes")}
    assert tasks == {"dag/load[3]"}
    assert Intent(token="t", run="dag/r/load[4]").task_digest != Intent(token="t", run="dag/r/load[3]").task_digest


def test_days_loaded_otherwise_are_those_whose_rows_may_differ() -> None:
    before, after = mixpanel(event=["signup"]), mixpanel(event=["signup", "page view"])
    moved = after.model_copy(update={"access": {"host": "elsewhere", "login": "none"}})
    days = [dt.date(2026, 11, day) for day in range(1, 5)]
    digests = [before.digest, None, moved.digest, after.digest]
    rows = [
        LedgerRow(day=day, generation=1, token="t", rows=1, definition=digest)
        for day, digest in zip(days, digests, strict=True)
    ]
    definitions = {definition.digest: definition for definition in (before, moved, after)}
    assert days_with_other_rows(rows, definitions, after) == [days[0]]


@pytest.mark.parametrize(
    ("shapes", "masked"),
    [
        ([{"mask": {"columns": ["id", "mail"]}}, {"rename": {"columns": {"id": "person"}}}], ["mail", "person"]),
        ([{"mask": {"columns": ["id", "mail"]}}, {"drop": {"columns": ["mail"]}}], ["id"]),
        ([{"mask": {"columns": ["id", "mail"]}}, {"select": {"columns": ["mail", "day"]}}], ["mail"]),
        ([{"rename": {"columns": {"id": "person"}}}, {"cast": {"columns": {"person": "STRING"}}}], []),
        ([{"mask": {"columns": "{{ params.columns }}"}}], []),
    ],
)
def test_the_columns_of_the_target_that_a_mask_makes(shapes: Any, masked: list[str]) -> None:
    assert masked_columns(shapes) == masked
    parts = mixpanel_shaped(shapes).shapes
    assert parts.get("masked", "") == ", ".join(masked)


def mixpanel_shaped(shapes: Any) -> StreamDefinition:
    return defined(MixpanelSource(conn_id="m", zone="UTC"), MIXPANEL, shapes=shapes)
