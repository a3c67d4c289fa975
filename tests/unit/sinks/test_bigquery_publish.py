"""The publish script as text: its order, its quoting, and what its answers mean."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError, DataError, RetriableError, SupersededError
from airflow_provider_connect.sink import LedgerRow, StreamKey
from airflow_provider_connect.sinks._bigquery_ledger import LEDGER_FIELDS
from airflow_provider_connect.sinks._bigquery_merge import Merge, merge_of, tombstone_fields
from airflow_provider_connect.sinks._bigquery_place import Place
from airflow_provider_connect.sinks._bigquery_publish import SAMPLE_ROW, PublishPlan, publish_script, rehearse, settle
from airflow_provider_connect.sinks._bigquery_rejects import REJECT_FIELDS, Rejects
from airflow_provider_connect.sinks._bigquery_sql import any_partition, literal, names, quoted, texts
from airflow_provider_connect.sinks._bigquery_types import columns

DAY = dt.date(2026, 9, 1)
TARGET = Place("some-project", "d", "events")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("doc", pa.string(), metadata={"json": "checked"}),
        pa.field("a b", pa.string()),
        pa.field("gone", pa.bool_()),
        pa.field("tags", pa.list_(pa.string())),
    ]
)
ROW = LedgerRow(day=DAY, generation=0, token="t", order=5, rows=7, attempt="a1", counts={"rows_read": 7})
REJECTS = Rejects(TARGET.sibling("events__rejects"), TARGET.sibling("events__stage_a1_rejects"), 2)
UNESCAPES = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\", "'": "'"}
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def plan(**changes: Any) -> PublishPlan:
    return replace(
        PublishPlan(
            target=TARGET,
            staging=TARGET.sibling("events__stage_a1"),
            ledger=TARGET.sibling("connect_ledger"),
            key=StreamKey(connector="mixpanel", stream="export"),
            row=ROW,
            run="dag/run/task",
            columns=columns(SCHEMA),
        ),
        **changes,
    )


def merge() -> Merge:
    return merge_of(columns(SCHEMA), ["id"], "a b", "gone", TARGET.sibling("events__tombstones"))


PLANS = {
    "replace": plan(),
    "replace, filter": plan(filter_column="at"),
    "append": plan(write_mode="append"),
    "forced append": plan(write_mode="append", on_published_day="append"),
    "merge": plan(write_mode="merge", merge=merge()),
    "merge, filter": plan(write_mode="merge", merge=merge(), filter_column="day"),
    "rejects": plan(rejects=REJECTS),
    "append with rejects": plan(write_mode="append", rejects=REJECTS),
}


@given(TEXTS)
def test_a_literal_is_one_line_and_means_its_text(text: str) -> None:
    quoted_text = literal(text)
    body = re.fullmatch(r"'((?:[^'\\\n\r]|\\[nrtabfv\\'])*)'", quoted_text)
    assert body is not None, quoted_text
    assert re.sub(r"\\(.)", lambda found: UNESCAPES[found[1]], body[1]) == text


@given(st.lists(TEXTS, max_size=5))
def test_values_of_a_plan_never_become_syntax(values: list[str]) -> None:
    """Without its literals, a script is the same whatever its values are."""
    run, token, stream, *_ = [*values, "x", "y", "z"]
    odd = plan(run=run, row=ROW.model_copy(update={"token": token}), key=StreamKey(connector="mixpanel", stream=stream))

    def bare(script: str) -> str:
        return re.sub(r"'(?:[^'\\]|\\.)*'", "''", script)

    assert bare(publish_script(odd)) == bare(publish_script(plan()))


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_what_no_query_may_hold_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="NUL or a lone surrogate"):
        literal(text)


def test_other_literals() -> None:
    assert literal(DAY) == "DATE '2026-09-01'"
    assert literal(-5) == "-5"
    assert literal(None, "INT64") == "CAST(NULL AS INT64)"
    assert texts(["a", "'"]) == r"CAST(['a', '\''] AS ARRAY<STRING>)"
    assert texts([]) == "CAST([] AS ARRAY<STRING>)"
    assert names(["a", "b"], "s") == "s.`a`, s.`b`"
    assert any_partition(None) == "TRUE"


@pytest.mark.parametrize("name", ["", "a`b", "a\\b", "a\nb"])
def test_names_that_would_end_their_quoting_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="no column name"):
        quoted(name)


@pytest.mark.parametrize("mode", PLANS)
def test_the_fence_is_changed_first_and_data_only_when_it_is_decided(mode: str) -> None:
    """The emulator runs one script at a time, so that no test against it can miss the fence."""
    script = publish_script(PLANS[mode])
    prelude, _, rest = script.partition("BEGIN TRANSACTION;\n")
    inside, commit, answer = rest.partition("END IF;\nCOMMIT TRANSACTION;\n")
    assert commit
    assert inside.startswith(
        "UPDATE `some-project.d.connect_ledger` SET published_at = CURRENT_TIMESTAMP()\n"
        "  WHERE target = 'some-project.d.events' AND connector = 'mixpanel' AND stream = 'export' AND day IS NULL;\n"
    )
    before, _, after = inside.partition("IF outcome = 'published' THEN\n")
    changes = re.compile(r"\b(INSERT INTO|DELETE FROM|MERGE INTO|UPDATE `)")
    assert changes.findall(before) == ["UPDATE `"]
    found = changes.findall(after)
    assert found[-1] == "INSERT INTO"
    assert after.rindex("INSERT INTO") == after.index("INSERT INTO `some-project.d.connect_ledger`")
    assert not changes.search(prelude + answer)
    # A count from before the transaction says nothing about the rows that INSERT reads.
    assert "events__stage_a1" not in prelude
    assert "COUNT(*) FROM `some-project.d.events__stage_a1`" in before
    assert "RAISE" not in script
    assert "@" not in script


@pytest.mark.parametrize("mode", PLANS)
def test_every_insert_names_its_columns(mode: str) -> None:
    script = publish_script(PLANS[mode])
    inserts = re.findall(r"INSERT (?:INTO `[^`]*` )?\((.*?)\)\n", script)
    assert len(inserts) == len(re.findall(r"\bINSERT\b", script))
    assert "SELECT *" not in script


@pytest.mark.parametrize("mode", ["replace, filter", "merge, filter"])
def test_a_required_partition_filter_is_satisfied_where_the_target_is_read(mode: str) -> None:
    column = PLANS[mode].filter_column
    script = publish_script(PLANS[mode])
    if mode.startswith("merge"):
        assert f"(t.`{column}` IS NULL OR t.`{column}` IS NOT NULL)\nWHEN" in script
    else:
        reads = re.findall(r"(?:FROM) `some-project.d.events` WHERE (.*)", script)
        assert len(reads) == 2
        assert all(f"(`{column}` IS NULL OR `{column}` IS NOT NULL)" in condition for condition in reads)


def test_a_script_that_is_too_long_is_refused_before_it_is_sent() -> None:
    wide = pa.schema([pa.field(f"{'c' * 280}{i}", pa.int64()) for i in range(2000)])
    with pytest.raises(ConfigError, match=r"bytes and BigQuery takes 1 MB: the 2000 columns"):
        publish_script(plan(columns=columns(wide)))


def test_a_script_that_just_fits_is_refused_while_nothing_is_polled_yet() -> None:
    def wide(count: int) -> PublishPlan:
        schema = pa.schema([pa.field(f"{'c' * 280}{i}", pa.int64()) for i in range(count)])
        return plan(columns=columns(schema), row=SAMPLE_ROW)

    assert 950_000 < len(publish_script(wide(1700)).encode()) < 1_000_000
    with pytest.raises(ConfigError, match="BigQuery takes 1 MB"):
        rehearse(wide(1700))
    rehearse(wide(1500))


def test_a_day_of_many_streams_fits_and_the_ledger_keeps_their_number() -> None:
    streams = tuple(f"projects/p/datasets/d/tables/t/streams/{i:060d}" for i in range(20_000))
    script = publish_script(plan(streams=streams))
    assert literal(streams[0]) in script
    assert literal(streams[100]) not in script
    assert "  SELECT " in script
    assert ", 20000, CAST([" in script


def answered(outcome: str) -> dict[str, Any]:
    found = {"day": DAY, "generation": 3, "token": "t", "intent_order": 5, "attempt": "a0", "row_count": 7}
    more = {"digest": None, "counts": '{"rows_read":7}', "reference": None, "link": None, "published_at": None}
    return {"outcome": outcome, "staged_rows": 6, "staged_rejects": 0, "keyless_rows": 2, "newest": 3} | found | more


@pytest.mark.parametrize("outcome", ["published", "already"])
def test_both_good_answers_give_the_ledger_row(outcome: str) -> None:
    assert settle(plan(), answered(outcome)) == ROW.model_copy(update={"generation": 3, "attempt": "a0"})


@pytest.mark.parametrize(
    ("outcome", "cls", "text"),
    [
        ("superseded", SupersededError, "newer run has published generation 3"),
        ("incomplete", RetriableError, "7 rows and 0 rejects were sent, but 6 and 0 are"),
        ("unfenced", RetriableError, "no fence row"),
        ("keyless", DataError, r"2 rows have NULL in the key \(id\)"),
        ("refused", ConfigError, "on_published_day='append'"),
        ("stranger", ConfigError, "another stream"),
    ],
)
def test_every_other_answer_is_an_error_that_says_where(outcome: str, cls: type[Exception], text: str) -> None:
    with pytest.raises(cls, match=text) as caught:
        settle(plan(write_mode="merge", merge=merge()), answered(outcome))
    assert "some-project.d.events" in str(caught.value)
    assert "mixpanel/export" in str(caught.value)


def test_every_outcome_of_a_script_has_a_meaning() -> None:
    outcomes = {found for mode in PLANS for found in re.findall(r"THEN '(\w+)'", publish_script(PLANS[mode]))}
    assert outcomes == {"already", "superseded", "incomplete", "unfenced", "keyless", "refused", "stranger"}


def test_merge_finds_its_columns_by_the_sources_names() -> None:
    found = merge()
    assert found.key == ("id",)
    assert found.newest_by != "a b"
    assert [field["name"] for field in tombstone_fields(found, columns(SCHEMA))] == [
        "id",
        found.newest_by,
        "day",
        "connect_stream",
    ]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((["nope"], None, None), "key names 'nope', which the source lacks; it has a b, doc, gone, id, tags"),
        ((["doc"], None, None), "key names 'doc', a JSON column"),
        ((["tags"], None, None), "key names 'tags', a STRING column"),
        ((["id"], "doc", None), "newest_by names 'doc', a JSON column"),
        ((["id"], None, "a b"), "delete_where names 'a b', a STRING column: it has to be BOOL"),
        (([], None, None), "needs key="),
    ],
)
def test_merge_options_that_cannot_serve(options: tuple[Any, ...], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        merge_of(columns(SCHEMA), *options, TARGET)


def test_the_scripts_ledger_row_fills_every_column_of_the_ledger() -> None:
    written = re.findall(r"INSERT INTO `some-project.d.connect_ledger` \((.*?)\)", publish_script(plan()))[0]
    assert written == names(field["name"] for field in LEDGER_FIELDS)


def test_the_scripts_rejects_fill_every_column_of_theirs() -> None:
    written = re.findall(r"INSERT INTO `some-project.d.events__rejects` \((.*?)\)", publish_script(PLANS["rejects"]))[0]
    assert written == names(field["name"] for field in REJECT_FIELDS)
