from __future__ import annotations

import random
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sinks._bigquery.names import (
    MAX_NAME,
    SINK_COLUMNS,
    label,
    labels,
    legal_names,
    legal_table_suffix,
    staged_name,
)
from airflow_provider_connect.sinks.bigquery import BigQuerySink

ASCII_ONLY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,299}")
RESERVED = ("_table_", "_file_", "_partition", "_row_timestamp", "__root__", "_colidentifier", "_change_type")

LEGAL_ONES = ["a_b", "A_b", "userName", "username", "USERNAME", "_browser", "select", "x" * 300, "X" * 300]
OTHERS = ["a.b", "a b", "a|b", "day", "Day", "1st", "", "é", "名前", "🎉", "\ud800", "$browser", "x" * 301]
RESERVED_ONES = ["_PARTITIONTIME", "__ROOT__x", "connect_position", "a_b_xb5c3222649"]
awkward = st.sampled_from(LEGAL_ONES + OTHERS + RESERVED_ONES)
names_of_a_source = st.lists(awkward | st.text(max_size=8), unique=True, max_size=12)


@given(names_of_a_source)
def test_names_are_legal_and_differ_by_more_than_case(names: list[str]):
    legal = legal_names(names)
    assert list(legal) == names
    for column in legal.values():
        kinds = ["L" if character == "_" else unicodedata.category(character)[0] for character in column]
        assert kinds[0] == "L"
        assert {*kinds} <= {"L", "M", "N"}
        assert len(column) <= MAX_NAME
        assert ASCII_ONLY.fullmatch(staged_name(column))
        assert not column.lower().startswith(RESERVED)
        assert column.lower() not in SINK_COLUMNS
    assert len({column.lower() for column in legal.values()}) == len(names)
    assert len({staged_name(column).lower() for column in legal.values()}) == len(names)


@given(names_of_a_source, st.randoms(use_true_random=False))
def test_the_order_of_the_names_does_not_matter(names: list[str], rng: random.Random):
    shuffled = list(names)
    rng.shuffle(shuffled)
    assert legal_names(shuffled) == legal_names(names)


@given(names_of_a_source, names_of_a_source, st.lists(names_of_a_source, max_size=2))
@example(["username"], ["userName", "username"], [])
@example(["userName", "username"], ["username"], [["USERNAME"]])
def test_a_name_keeps_its_column_when_other_names_come_and_go(
    first: list[str], second: list[str], more: list[list[str]]
):
    table: dict[str, str] = {}
    for names in [first, second, *more, first]:
        for name, column in legal_names(names, table.values()).items():
            assert table.setdefault(name, column) == column
    assert len({column.lower() for column in table.values()}) == len(table)


@given(names_of_a_source, awkward)
def test_a_hashed_name_does_not_depend_on_other_names(names: list[str], name: str):
    alone = legal_names([name])[name]
    if alone != name:
        assert legal_names([*{*names, name}])[name] == alone


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("a_b", "a_b"),
        ("a.b", "a_b_x" + "?" * 10),
        ("1st", "_1st_x" + "?" * 10),
        ("", "__x" + "?" * 10),
        ("Größe", "Größe"),
        ("größe_2", "größe_2"),
        ("名前", "名前"),
        ("हिन्दी", "हिन्दी"),
        ("gro\u0308ße", "gro__e_x" + "?" * 10),
        ("größe €", "gr__e___x" + "?" * 10),
        ("٣", "__x" + "?" * 10),
        ("_PARTITIONTIME", "x_PARTITIONTIME_x" + "?" * 10),
        ("day", "day_x" + "?" * 10),
        ("y" * 301, "y" * 288 + "_x" + "?" * 10),
        ("select", "select"),
        ("price_x0123456789", "price_x0123456789_x" + "?" * 10),
        ("event_20261001", "event_20261001"),
    ],
)
def test_example_names_get_the_expected_columns(name: str, column: str):
    found = legal_names([name])[name]
    assert re.fullmatch(column.replace("?", "[0-9a-f]"), found)
    assert len(found) <= MAX_NAME


@pytest.mark.parametrize("name", ["größe", "gro\u0308ße", "First name", "größe-€%", "1st", "x" * 301, "名前"])
def test_the_column_of_an_adopted_table_is_filled_and_not_doubled(name: str):
    assert legal_names([name, "n"], [name, "day"])[name] == name
    assert ASCII_ONLY.fullmatch(staged_name(name))


def test_a_table_that_was_made_with_the_hash_keeps_it():
    hashed = staged_name("größe")
    assert re.fullmatch(r"gr__e_x[0-9a-f]{10}", hashed)
    assert legal_names(["größe"], [hashed, "day"]) == {"größe": hashed}


@pytest.mark.parametrize(
    ("first", "second"), [("Größe", "größe"), ("GRÖSSE", "größe"), ("i\u0307d", "\u0130d"), ("Äx", "äx")]
)
def test_names_that_differ_in_case_alone_get_distinct_columns(first: str, second: str):
    made = legal_names([first, second])
    assert made[first] == first
    assert ASCII_ONLY.fullmatch(made[second])
    assert legal_names([first, second], [second])[second] == second


def test_columns_that_an_adopted_table_distinguishes_are_both_filled():
    assert legal_names(["größe", "grösse"], ["grösse", "größe"]) == {"größe": "größe", "grösse": "grösse"}


def test_of_names_that_differ_in_case_alone_capitals_come_first_but_never_before_the_tables_own():
    assert legal_names(["username", "userName"])["userName"] == "userName"
    assert legal_names(["username", "userName"])["username"].startswith("username_x")
    assert legal_names(["username", "userName"], ["username"])["username"] == "username"
    assert legal_names(["userName"], ["username"])["userName"].startswith("userName_x")


def test_examples_of_the_page_match_the_code():
    text = (Path(__file__).parents[4] / "docs" / "bigquery.md").read_text().partition("## Names of columns")[2]
    examples = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", text, re.MULTILINE)
    assert len(examples) > 5
    assert {source: legal_names([source])[source] for source, _ in examples} == dict(examples)
    pair = legal_names(["userName", "username"])
    assert f"| `{pair['userName']}`, `{pair['username']}` |" in text
    assert f"| `{legal_names(['userName'], ['username'])['userName']}` |" in text


def test_a_name_that_had_the_hash_keeps_it_when_its_sibling_has_left_the_table():
    hashed = legal_names(["username", "userName"])["username"]
    assert legal_names(["username"], [hashed]) == {"username": hashed}


def test_nested_fields_may_have_the_names_of_the_sinks_own_columns():
    assert legal_names(["day"], reserved=()) == {"day": "day"}


def test_a_repeated_name_is_refused():
    with pytest.raises(DataError, match="'b'"):
        legal_names(["a", "b", "b"])


@given(st.lists(st.text(max_size=30) | st.text("abc0-_", max_size=8), unique=True, max_size=5))
def test_table_suffixes_are_legal_and_distinct(texts: list[str]):
    ends = [legal_table_suffix(text) for text in texts]
    assert all(re.fullmatch(r"[A-Za-z0-9_]{1,300}", end) for end in ends)
    assert len({*ends}) == len(texts)


def test_an_attempts_name_stays_readable():
    assert legal_table_suffix("a1b2c3-d4e5-20260901") == "a1b2c3_d4e5_20260901"


@given(st.text(max_size=100))
def test_labels_are_legal(text: str):
    assert re.fullmatch(r"[a-z0-9_-]{0,63}", label(text))


def test_long_labels_with_the_same_beginning_differ():
    assert label("x" * 63) == "x" * 63
    assert label("x" * 64) != label("x" * 65)


@given(st.dictionaries(st.text(max_size=70), st.text(max_size=5), max_size=8))
@example({"a.b": "1", "a_b": "2", "": "3", "1": "4"})
def test_label_keys_are_legal_and_none_is_lost(texts: dict[str, str]):
    found = labels(texts)
    assert all(re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", key) for key in found)
    assert sorted(found.values()) == sorted(label(text) for text in texts.values())


def test_too_many_labels_are_refused():
    with pytest.raises(ConfigError, match="65 labels"):
        labels({str(i): "" for i in range(65)})


@pytest.mark.parametrize(
    ("table", "uri"),
    [
        ("my-project.sales.orders", "bigquery://my-project/sales/orders"),
        ("example.com:my-project.sales.orders", "bigquery://example.com:my-project/sales/orders"),
        ("sales.orders", "bigquery://google_cloud_default/sales/orders"),
    ],
)
def test_the_asset_uri_equals_the_google_providers(table: str, uri: str) -> None:
    assert BigQuerySink(table=table).asset_uri == uri


def test_a_template_gives_a_table_for_each_event() -> None:
    sink = BigQuerySink(conn_id="x", table="analytics.mp_{$event name}")
    assert sink.target == "bigquery://x.analytics.mp_{$event name}"
    assert sink.asset_uri == "bigquery://x/analytics/mp_%7B%24event%20name%7D"
    assert sink.tables is not None
    assert (sink.tables.column, sink.tables.folder_name("login"), sink.tables.most) == ("$event name", "mp_login", 98)
    assert BigQuerySink(table="ours.analytics.{event}").target == "bigquery://ours.analytics.{event}"
    assert BigQuerySink(table="analytics.events").tables is None
    heads = {BigQuerySink(table=f"a.{name}").head for name in ("{event}", "e_{event}", "{e_event}", "{event}_e")}
    assert len(heads) == 4, "each template has a head of its own"
    assert all(re.fullmatch(r"a\._connect_head_[\w-]+", head) for head in heads), "no event's table begins with '_'"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"table": "{event}"}, "BigQuery dataset ''"),
        ({"table": "a.{event}.b"}, "may stand in the table's name, not in project or dataset"),
        ({"table": "a{event}.b"}, "may stand in the table's name, not in project or dataset"),
        ({"table": "a.{event}{day}"}, "must name one column"),
        ({"table": "a._{event}"}, "The first is a letter or digit"),
        ({"table": "a.{event}", "max_tables": 99}, "max_tables"),
        ({"table": "a.b", "max_tables": 9}, "max_tables belongs to"),
        ({"table": "a.{event}", "write_mode": "append"}, "needs write_mode='replace'"),
        ({"table": "a.{event}", "write_mode": "merge", "key": ("id",)}, "needs write_mode='replace'"),
        ({"table": "a.{event}", "load_method": "load_job"}, "load jobs cannot split files into tables"),
        ({"table": "a.{event}", "partition_by": "n", "partition_type": "range"}, "is for one table"),
    ],
)
def test_options_that_a_template_does_not_support_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        BigQuerySink(**options)


def test_an_events_table_never_has_the_name_of_a_sinks_own_table() -> None:
    tables = BigQuerySink(table="a.mp_{event}").tables
    assert tables is not None
    for value in ("x__ledger", "x__rejects", "x__erased", "x__notes", "x__positions", "x__tombstones", "x__stage_1"):
        assert re.fullmatch(r"mp_x_[a-z]+(_1)?_x[0-9a-f]{10}", tables.folder_name(value))
    assert tables.folder_name("page__view") == "mp_page__view"


def test_rows_are_identified_by_key_only_in_merges_and_soft_deletes() -> None:
    merges = BigQuerySink(table="a.t", write_mode="merge", key=["id"])
    softly = BigQuerySink(table="a.t", deletes="soft")
    plain = BigQuerySink(table="a.t")
    kinds = ("day", "snapshot", "increment")
    assert [merges.identifies_by_key(kind) for kind in kinds] == [True, True, True]
    assert [softly.identifies_by_key(kind) for kind in kinds] == [False, True, False]
    assert [plain.identifies_by_key(kind) for kind in kinds] == [False, False, False]
