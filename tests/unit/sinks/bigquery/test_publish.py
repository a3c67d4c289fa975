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

from airflow_provider_connect.clients.bigquery.sql import (
    TableRef,
    any_partition,
    column_list,
    literal,
    quoted,
    string_array,
)
from airflow_provider_connect.errors import ConfigError, DataError, OvertakenError, RetriableError, SupersededError
from airflow_provider_connect.publishing import ledger_row
from airflow_provider_connect.sink import Intent, Publish, StreamKey
from airflow_provider_connect.sinks._bigquery.aliases import NEWEST, STAGED, TOMBSTONE
from airflow_provider_connect.sinks._bigquery.aliases import TARGET as TARGET_ROW
from airflow_provider_connect.sinks._bigquery.columns.types import make_columns
from airflow_provider_connect.sinks._bigquery.ledger_rows import LEDGER_FIELDS
from airflow_provider_connect.sinks._bigquery.names import TABLE_COLUMN
from airflow_provider_connect.sinks._bigquery.plan import PublishPlan
from airflow_provider_connect.sinks._bigquery.rejects import REJECT_FIELDS, RejectTables
from airflow_provider_connect.sinks._bigquery.script import (
    publish_script,
    published_row,
    rehearse_script,
    sample_publish,
)
from airflow_provider_connect.sinks._bigquery.staging import StagingLayout, TableChange
from airflow_provider_connect.sinks._bigquery.tables import MergeRule, make_merge_rule, tombstone_fields
from airflow_provider_connect.sinks._bigquery.turns import DML_PER_PUBLISH
from airflow_provider_connect.stage.manifest import Manifest, PollResult, SeenPublish
from airflow_provider_connect.window import Day
from tests.equipment.bigquery.turns import statements

DAY = dt.date(2026, 9, 1)
TARGET = TableRef("some-project", "d", "events")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("doc", pa.string(), metadata={"json": "checked"}),
        pa.field("a b", pa.string()),
        pa.field("gone", pa.bool_()),
        pa.field("tags", pa.list_(pa.string())),
    ]
)
NOON = dt.datetime(2026, 9, 2, 12, tzinfo=dt.UTC)
SEEN = SeenPublish(day=DAY, generation=2, checks=1)
MINE, THEIRS = "a" * 15, "b" * 15
REJECTS = RejectTables(TARGET.sibling("events__rejects"), TARGET.sibling("events__stage_a1_rejects"), 2)
UNESCAPES = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\", "'": "'"}
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def published(stream: str = "export", token: str = "t", run: str = "dag/run/task") -> Publish:
    manifest = Manifest(
        day=Day(date=DAY),
        attempt="a1",
        fingerprint="f",
        polled=PollResult(rows_read=7, digest="0" * 32),
        seen=SEEN,
        polled_at=NOON,
    )
    key = StreamKey(connector="mixpanel", stream=stream)
    intent = Intent(token=token, run=run)
    return Publish(key=key, day=manifest.day, intent=intent, manifest=manifest, schema=SCHEMA, stage="")


def plan(publish: Publish | None = None, **changes: Any) -> PublishPlan:
    publish = publish or published()
    staged = {name: changes.pop(name) for name in ("columns", "filter_column", "table_changes") if name in changes}
    every = make_columns(SCHEMA)
    made = StagingLayout(TARGET.sibling("events__stage_a1"), None, every, every, "storage_write")
    return replace(
        PublishPlan(
            target=TARGET,
            staging=made.table,
            ledger=TARGET.sibling("connect_ledger"),
            publish=publish,
            row=ledger_row(publish, 0, rows=7),
            layout=replace(made, **staged),
        ),
        **changes,
    )


def merge() -> MergeRule:
    return make_merge_rule(make_columns(SCHEMA), ["id"], "a b", "gone", TARGET.sibling("events__tombstones"))


PLANS = {
    "replace": plan(),
    "replace, filter": plan(filter_column="at"),
    "append": plan(write_mode="append"),
    "forced append": plan(write_mode="append", on_published_day="append"),
    "merge": plan(write_mode="merge", merge=merge()),
    "merge, filter": plan(write_mode="merge", merge=merge(), filter_column="day"),
    "rejects": plan(rejects=REJECTS),
    "snapshot": plan(replaces_whole=True, filter_column="day"),
    "snapshot, merge": plan(replaces_whole=True, write_mode="merge", merge=merge(), filter_column="at"),
    "append with rejects": plan(write_mode="append", rejects=REJECTS),
    "definition": plan(replace(published(), definition=MINE, definition_seen=THEIRS)),
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
    odd = plan(published(stream, token, run))

    def bare(script: str) -> str:
        return re.sub(r"'(?:[^'\\]|\\.)*'", "''", script)

    assert bare(publish_script(odd)) == bare(publish_script(plan()))


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_a_text_that_no_query_may_hold_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="NUL or a lone surrogate"):
        literal(text)


def test_numbers_dates_and_null_are_rendered_as_literals() -> None:
    assert literal(DAY) == "DATE '2026-09-01'"
    assert literal(-5) == "-5"
    assert literal(None, "INT64") == "CAST(NULL AS INT64)"
    assert string_array(["a", "'"]) == r"CAST(['a', '\''] AS ARRAY<STRING>)"
    assert string_array([]) == "CAST([] AS ARRAY<STRING>)"
    assert column_list(["a", "b"], "s") == "s.`a`, s.`b`"
    assert any_partition(None) == "TRUE"


@pytest.mark.parametrize("name", ["", "a`b", "a\\b", "a\nb"])
def test_names_that_would_end_their_quoting_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not a column name"):
        quoted(name)


@pytest.mark.parametrize("mode", PLANS)
def test_the_publish_changes_the_fence_first_and_data_only_after_the_decision(mode: str) -> None:
    """The emulator runs one script at a time, so that no test against it can miss the fence."""
    script = publish_script(PLANS[mode])
    prelude, _, rest = script.partition("BEGIN TRANSACTION;\n")
    inside, commit, answer = rest.partition("END IF;\nCOMMIT TRANSACTION;\n")
    assert commit
    of_stream = "l.target = 'some-project.d.events' AND l.connector = 'mixpanel' AND l.stream = 'export'"
    assert inside.replace("connect_ledger.", "l.").startswith(
        "UPDATE `some-project.d.connect_ledger` AS connect_ledger SET published_at = CURRENT_TIMESTAMP()\n"
        f"  WHERE {of_stream} AND l.day IS NULL;\n"
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
    column = PLANS[mode].layout.filter_column
    script = publish_script(PLANS[mode])
    if mode.startswith("merge"):
        assert f"{any_partition(column, TARGET_ROW)}\nWHEN" in script
    else:
        reads = re.findall(r"(?:FROM) `some-project.d.events` AS connect_t WHERE (.*)", script)
        assert len(reads) == 2
        assert all(f"{any_partition(column, TARGET_ROW)}" in condition for condition in reads)


def test_a_script_that_is_too_long_is_refused_before_it_is_sent() -> None:
    wide = pa.schema([pa.field(f"{'c' * 280}{i}", pa.int64()) for i in range(2000)])
    with pytest.raises(ConfigError, match=r"bytes, but BigQuery accepts 1 MB: the 2000 columns"):
        publish_script(plan(columns=make_columns(wide)))


def test_a_script_that_just_fits_is_refused_while_nothing_is_polled_yet() -> None:
    def wide(count: int) -> PublishPlan:
        schema = pa.schema([pa.field(f"{'c' * 280}{i}", pa.int64()) for i in range(count)])
        return plan(sample_publish(published().key, schema), columns=make_columns(schema))

    assert 950_000 < len(publish_script(wide(1650)).encode()) < 1_000_000
    with pytest.raises(ConfigError, match="BigQuery accepts 1 MB"):
        rehearse_script(wide(1650))
    rehearse_script(wide(1500))


def test_a_day_of_many_streams_fits_and_the_ledger_keeps_their_number() -> None:
    streams = tuple(f"projects/p/datasets/d/tables/t/streams/{i:060d}" for i in range(20_000))
    script = publish_script(plan(streams=streams, stream_count=len(streams)))
    assert literal(streams[0]) in script
    assert literal(streams[100]) not in script
    assert "  SELECT " in script
    assert ", 20000, CAST([" in script


def answered(outcome: str) -> dict[str, Any]:
    found = {"day": DAY, "generation": 3, "token": "t", "run": "dag/run/task", "clear_number": 0, "attempt": "a0"}
    more: dict[str, Any] = {"row_count": 7, "digest": "0" * 32, "counts": '{"rows_read":7}', "polled_at": NOON}
    more |= dict.fromkeys(("reference", "link", "published_at", "span", "definition"))
    looked = {"staged_rows": 6, "staged_rejects": 0, "keyless_rows": 2, "kept_rows": 4, "newest": 3, "erased": 0}
    looked |= {"in_force": "c" * 15}
    return {"outcome": outcome} | looked | found | more


@pytest.mark.parametrize("outcome", ["published", "already"])
def test_published_and_already_give_the_ledger_row(outcome: str) -> None:
    row = ledger_row(published(), 3, rows=7, counts={"rows_read": 7}, published_at=None)
    assert published_row(plan(), answered(outcome)) == row.model_copy(update={"attempt": "a0"})


@pytest.mark.parametrize(
    ("outcome", "cls", "text"),
    [
        ("superseded", SupersededError, r"a snapshot of 2026-09-01 is published already \(generation 3\)"),
        ("kept", ConfigError, "4 rows besides the newest snapshot .* snapshot='daily'"),
        ("overtaken", OvertakenError, "dag/run/task has published generation 3 since .* at generation 2"),
        ("redefined", OvertakenError, r"another definition \(ccccccccccccccc\) were published since"),
        ("incomplete", RetriableError, "7 rows and 0 rejects were sent, but 6 and 0 are"),
        ("unfenced", RetriableError, "lost the fence row"),
        ("keyless", DataError, r"2 rows have NULL in the key \(id\)"),
        ("uncomparable", ConfigError, "2 rows without record_key"),
        ("refused", ConfigError, "on_published_day='append'"),
        ("stranger", ConfigError, "another stream"),
    ],
)
def test_every_other_outcome_is_an_error_that_names_the_table(outcome: str, cls: type[Exception], text: str) -> None:
    with pytest.raises(cls, match=text) as caught:
        published_row(plan(replace(published(), definition=MINE), write_mode="merge", merge=merge()), answered(outcome))
    assert "some-project.d.events" in str(caught.value) or outcome in ("overtaken", "superseded", "redefined")
    assert "mixpanel/export" in str(caught.value) or outcome in ("kept", "uncomparable")


def test_every_outcome_of_a_script_has_a_meaning() -> None:
    outcomes = {found for mode in PLANS for found in re.findall(r"THEN '(\w+)'", publish_script(PLANS[mode]))}
    of_days = {"already", "overtaken", "incomplete", "unfenced", "keyless", "refused", "stranger"}
    assert outcomes == of_days | {"superseded", "kept", "redefined"}


def test_a_redefinition_is_refused_after_the_cases_of_the_day() -> None:
    """Who lost the day to a later clear of its own run is told so: it must not poll again."""
    cases = re.findall(r"WHEN (.*) THEN '(\w+)'", publish_script(PLANS["definition"]))
    outcomes = [outcome for _, outcome in cases]
    assert outcomes.index("redefined") == 1 + max(at for at, each in enumerate(outcomes) if each == "overtaken")
    assert {outcome: condition for condition, outcome in cases}["redefined"] == (
        f"seen.definition NOT IN ('{MINE}', '{THEIRS}')"
    )
    first = publish_script(plan(replace(published(), definition=MINE)))
    assert f"WHEN seen.definition NOT IN ('{MINE}') THEN 'redefined'" in first
    assert "redefined" not in publish_script(plan())


def test_the_fence_row_gets_the_definition_only_when_it_or_its_task_comes_into_force() -> None:
    """BigQuery takes 25 changes in ten seconds on one table: a day like the one before it makes two of them."""
    script = publish_script(PLANS["definition"])
    guard = f"IF COALESCE(seen.definition, '') != '{MINE}' OR COALESCE(seen.task, '') != 'dag/task' THEN\n"
    assert script.count(guard) == 1
    changed = script.partition(guard)[2].partition("END IF")[0]
    assert f"SET definition = '{MINE}', run = 'dag/task'" in changed
    assert "day IS NULL" in changed
    assert statements(script)["some-project.d.connect_ledger"] == DML_PER_PUBLISH + 1
    assert statements(publish_script(plan()))["some-project.d.connect_ledger"] == DML_PER_PUBLISH


@pytest.mark.parametrize("mode", PLANS)
def test_a_day_goes_in_only_on_the_generation_that_was_seen_before_the_poll(mode: str) -> None:
    """Confirmations count, too: an older answer must not land on top of what was found unchanged meanwhile."""
    script = publish_script(PLANS[mode])
    same = "COALESCE(seen.newest, 0) != 2 OR COALESCE(seen.checks, 0) != 1"
    if PLANS[mode].replaces_whole:
        day = "connect_newest_day"
        same = f"{day} IS NULL OR {day} != DATE '2026-09-01' OR NOT (seen.newest = 2 AND seen.checks = 1)"
    compares = f"WHEN {same} THEN 'overtaken'" in script
    assert compares == (PLANS[mode].write_mode != "append")
    refuses = "WHEN seen.newest IS NOT NULL THEN 'refused'" in script
    assert refuses == (PLANS[mode].write_mode == "append" and PLANS[mode].on_published_day == "refuse")


def test_merge_finds_its_columns_by_the_sources_names() -> None:
    found = merge()
    assert found.key == ("id",)
    assert found.newest_by != "a b"
    assert [field["name"] for field in tombstone_fields(found, make_columns(SCHEMA))] == [
        "id",
        found.newest_by,
        "day",
        "connect_stream",
    ]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_not_a_number_is_never_the_newest(kind: pa.DataType) -> None:
    """Nothing is greater than NaN, nor equal to it: a row that has it would stay for ever."""
    made = make_columns(pa.schema([("id", pa.int64()), ("score", kind), ("gone", pa.bool_())]))
    merged = make_merge_rule(made, ["id"], "score", "gone", TARGET.sibling("events__tombstones"))
    script = publish_script(plan(columns=made, write_mode="merge", merge=merged))
    for alias in (STAGED, NEWEST, TARGET_ROW, TOMBSTONE):
        assert f"IF(IS_NAN({alias}.`score`), NULL, {alias}.`score`)" in script
    bare = re.sub(r"IF\(IS_NAN\((\w+\.`score`)\), NULL, \1\)", "", script)
    assert not re.search(r"\.`score` (?:[<>=]|IS |DESC)|[<>] \w+\.`score`", bare)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((["nope"], None, None), "key names 'nope', which the source lacks. It has a b, doc, gone, id, tags"),
        ((["doc"], None, None), "key names 'doc', a JSON column"),
        ((["tags"], None, None), "key names 'tags', a STRING column"),
        ((["id"], "doc", None), "newest_by names 'doc', a JSON column"),
        ((["id"], None, "a b"), "delete_where names 'a b', a STRING column: name a BOOL column"),
        (([], None, None), "needs key="),
    ],
)
def test_merge_options_with_unsuitable_columns_are_refused(options: tuple[Any, ...], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make_merge_rule(make_columns(SCHEMA), *options, TARGET)


@pytest.mark.parametrize(("parts", "left_out"), [(None, {"erased", "tables"}), ((), {"erased"})])
def test_the_scripts_ledger_row_fills_every_column_of_the_ledger(parts: Any, left_out: set[str]) -> None:
    """But the fence row's own, and what only a day in several tables has."""
    script = publish_script(plan(table_changes=parts))
    written = re.findall(r"INSERT INTO `some-project.d.connect_ledger` \((.*?)\)", script)[0]
    assert written == column_list(field["name"] for field in LEDGER_FIELDS if field["name"] not in left_out)


def test_a_day_in_several_tables_changes_each_and_never_their_head() -> None:
    parts = (
        TableChange("gone", "at", True, False),
        TableChange("kept", "day", True, True),
        TableChange("new", None, False, True),
    )
    script = publish_script(plan(table_changes=parts))
    changes = re.findall(r"^  (DELETE FROM|INSERT INTO) `some-project\.d\.(\w+)`", script, re.MULTILINE)
    begun = [("DELETE FROM", "gone"), ("DELETE FROM", "kept"), ("INSERT INTO", "kept"), ("INSERT INTO", "new")]
    assert changes == [*begun, ("INSERT INTO", "connect_ledger")]
    this_day = "connect_t.`day` = DATE '2026-09-01'"
    assert f"DELETE FROM `some-project.d.gone` AS connect_t WHERE {this_day} AND (connect_t.`at` IS NULL OR" in script
    assert f"DELETE FROM `some-project.d.kept` AS connect_t WHERE {this_day};" in script
    assert [name for name in ("gone", "kept", "new") if f"WHERE connect_s.`{TABLE_COLUMN}` = '{name}'" in script] == [
        "kept",
        "new",
    ]
    assert "CAST(['kept', 'new'] AS ARRAY<STRING>)" in script, "what the next publish has to delete from"


def test_too_many_columns_times_tables_are_found_before_the_poll() -> None:
    wide = make_columns(pa.schema([pa.field(f"column_{number}", pa.string()) for number in range(400)]))
    parts = tuple(TableChange(f"event_{number}", None, True, True) for number in range(98))
    rehearse_script(plan(published(), columns=wide, table_changes=parts[:10]))
    with pytest.raises(ConfigError, match="the 400 columns of 98 tables are too many"):
        rehearse_script(plan(published(), columns=wide, table_changes=parts))


def test_a_day_that_was_polled_before_an_erase_is_polled_again() -> None:
    for mode, each in PLANS.items():
        assert "WHEN COALESCE(seen.erased, 0) != 0 THEN 'overtaken'" in publish_script(each), mode
    with pytest.raises(OvertakenError, match="rows were erased since") as caught:
        published_row(plan(), answered("overtaken") | {"erased": 1})
    assert caught.value.is_erase


def test_the_scripts_rejects_fill_every_column_of_theirs() -> None:
    written = re.findall(r"INSERT INTO `some-project.d.events__rejects` \((.*?)\)", publish_script(PLANS["rejects"]))[0]
    assert written == column_list(field["name"] for field in REJECT_FIELDS)
