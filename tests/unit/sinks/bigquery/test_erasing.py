"""The scripts of an erase as text: what they may say, how long they become, and what the ledger gets."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from typing import Any

import pytest

from airflow_provider_connect.clients.bigquery.errors import ColumnError
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import LedgerRow, StreamKey
from airflow_provider_connect.sinks._bigquery.erase_list import (
    MAX_DIGESTS_PER_VERSION,
    empty_list_statements,
    erase_list_table,
    extend_list_script,
    newest_version_sql,
    raise_version_statement,
    read_erase_list,
)
from airflow_provider_connect.sinks._bigquery.erasing.eraser import (
    MAX_DAYS_PER_TRANSACTION,
    days_of_one_transaction,
    sum_by_day,
)
from airflow_provider_connect.sinks._bigquery.erasing.script import (
    EraseSearch,
    MatchCount,
    SearchedTable,
    count_query,
    erase_script,
    require_script_length,
    row_after_erase,
)
from airflow_provider_connect.sinks._bigquery.options import MAX_TABLES
from airflow_provider_connect.sinks._bigquery.script import MAX_SCRIPT_BYTES
from airflow_provider_connect.stage.counts import LATE_COUNTS
from airflow_provider_connect.stage.erase_list import EraseList
from tests.unit.sinks.bigquery.test_publish import DAY, NOON, TARGET

KEY = StreamKey(connector="mixpanel", stream="export")
LEDGER = TARGET.sibling("events__ledger")
THERE = MatchCount(1, 8, matching_tables=(TARGET.table,), other_tables=(TARGET.table,))


def wanted(*values: str, salt: str = "5a17", filter_column: str | None = None) -> EraseSearch:
    return EraseSearch(TARGET, (SearchedTable(TARGET, "distinct_id", filter_column),), salt, values)


def before(day: dt.date = DAY, **fields: Any) -> LedgerRow:
    values: dict[str, Any] = {
        "generation": 4,
        "checks": 2,
        "token": "t",
        "rows": 9,
        "digest": "d",
        "answer": "a",
        "polled_at": NOON,
    }
    return LedgerRow(day=day, **(values | fields))


def scripts(*values: str, days: int = 1, **chosen: Any) -> list[str]:
    """Return what an erase counts, deletes and lists by."""
    found = wanted(*values, **chosen)
    late = dict.fromkeys(LATE_COUNTS, 1_000_000)
    followed = [before(DAY - dt.timedelta(days=back), counts=late) for back in range(days)]
    job = {"reference": f"connect_erase_{'0' * 32}", "link": "https://console.cloud.google.com/" + "x" * 200}
    rows = [row_after_erase(row, THERE, token="erase1-" + "0" * 16, run="erase/1") for row in followed]
    rows = [row.model_copy(update=job) for row in rows]
    longer = EraseList().with_values("distinct_id", values)
    return [
        count_query(found),
        erase_script(
            found,
            LEDGER,
            KEY,
            day_counts={row.day: THERE for row in rows},
            new_rows=rows,
            followed_rows=followed,
            list_version=1,
        ),
        extend_list_script(LEDGER, TARGET, KEY, new_list=longer, added_digests=longer.digests),
    ]


def digests(script: str) -> set[str]:
    return {*re.findall(r"'([0-9a-f]{32})'", script)}


def test_scripts_contain_no_value_and_each_call_has_its_own_digests() -> None:
    for script in scripts("u-17"):
        assert "u-17" not in script
        assert hashlib.sha256(b"u-17").hexdigest()[:32] not in script
        assert digests(script)
    assert not digests(count_query(wanted("u-17"))) & digests(count_query(wanted("u-17", salt="0b")))


def test_the_most_days_and_people_fit_into_a_script() -> None:
    many = [f"u-{number}" for number in range(MAX_DIGESTS_PER_VERSION)]
    for script in scripts(*many, days=MAX_DAYS_PER_TRANSACTION):
        assert len(digests(script)) >= MAX_DIGESTS_PER_VERSION
        assert len(script.encode()) < MAX_SCRIPT_BYTES


def test_a_script_that_bigquery_does_not_take_is_not_sent() -> None:
    require_script_length("x" * MAX_SCRIPT_BYTES, TARGET)
    with pytest.raises(ConfigError, match=r"1,000,001 bytes, but BigQuery accepts 1 MB\. Erase fewer values"):
        require_script_length("x" * (MAX_SCRIPT_BYTES + 1), TARGET)


def test_only_a_later_snapshot_concerns_a_day_that_is_erased_from() -> None:
    days: dict[str, Any] = {
        "day_counts": {DAY: THERE},
        "new_rows": [before()],
        "followed_rows": [before()],
        "list_version": 1,
    }
    assert "seen.last_day !=" not in erase_script(wanted("u"), LEDGER, KEY, **days)
    later = erase_script(wanted("u"), LEDGER, KEY, **days, last_day=DAY)
    assert f"seen.last_day != DATE '{DAY}'" in later


def test_a_day_keeps_the_definition_that_it_was_loaded_with_and_the_one_in_force_stays() -> None:
    row = row_after_erase(before(definition="a" * 15), THERE, token="t2", run="erase/1")
    assert row.definition == "a" * 15
    days: dict[str, Any] = {"day_counts": {DAY: THERE}, "followed_rows": [before()], "list_version": 1}
    script = erase_script(wanted("u"), LEDGER, KEY, **days, new_rows=[row])
    columns, values = re.findall(r"INSERT INTO .* \((.*)\)\n  SELECT (.*);", script)[0]
    assert dict(zip(columns.split(", "), values.split(", "), strict=True))["`definition`"] == f"'{'a' * 15}'"
    assert "definition" not in script.partition("IF outcome = 'erased' THEN")[0]


def test_one_transaction_takes_days_up_to_the_partition_limit_and_at_least_one() -> None:
    """Of days by the hour, 160 with 25 partitions each are 4,000: what BigQuery lets one job change."""
    hourly = {DAY + dt.timedelta(days=n): MatchCount(1, 8, partitions=25) for n in range(200)}
    assert [*days_of_one_transaction(hourly)] == [*hourly][:160]
    assert len(days_of_one_transaction({day: MatchCount(1, 8) for day in hourly} | {DAY: MatchCount(1, 8, 4_001)})) == 1
    daily = {DAY + dt.timedelta(days=n): MatchCount(1, 8) for n in range(2 * MAX_DAYS_PER_TRANSACTION)}
    assert len(days_of_one_transaction(daily)) == MAX_DAYS_PER_TRANSACTION


def test_a_value_with_a_lone_surrogate_does_not_stop_an_erase() -> None:
    assert len(digests(count_query(wanted("u-17", "u-\udc80")))) == 2


def test_a_required_partition_filter_is_satisfied_where_the_target_is_read() -> None:
    for script in scripts("u-17", filter_column="at")[:2]:
        assert script.count(TARGET.sql) == script.count("(connect_t.`at` IS NULL OR connect_t.`at` IS NOT NULL)") == 1


def test_the_erase_changes_the_fence_first_and_rows_only_after_the_decision() -> None:
    _, script, _ = scripts("u-17", days=2)
    inside = script.partition("BEGIN TRANSACTION;\n")[2]
    assert inside.startswith(f"UPDATE {LEDGER.sql} AS connect_ledger SET published_at")
    decided, _, after = inside.partition("IF outcome = 'erased' THEN\n")
    changes = re.compile(r"\b(INSERT INTO|DELETE FROM|UPDATE `)")
    assert (changes.findall(decided), changes.findall(after)) == (["UPDATE `"], ["DELETE FROM", "INSERT INTO"])
    assert f"'{DAY} 0 4 2'" in decided
    assert "seen.erased < 1" in decided


def test_each_table_of_a_template_loses_only_days_with_matching_rows() -> None:
    """What a day keeps, and where, is added up over all tables: also over those that have no rows of theirs."""
    later = DAY + dt.timedelta(days=1)
    tables = tuple(
        SearchedTable(TARGET.sibling(name), column) for name, column in (("a", "id"), ("b", "id"), ("old", None))
    )
    found = EraseSearch(TARGET, tables, "5a17", ("u-17",))
    assert len(digests(count_query(found))) == 1
    names = ("name", "day", "gone", "rows_left", "partitions")
    answer = [("a", DAY, 2, 0, 3), ("b", DAY, 1, 4, 1), ("old", DAY, 0, 5, 1), ("b", later, 1, 0, 1)]
    counted = sum_by_day(dict(zip(names, row, strict=True)) for row in answer)
    assert counted == {DAY: MatchCount(3, 9, 4, ("a", "b"), ("b", "old")), later: MatchCount(1, 0, 1, ("b",))}

    rows = [before(day) for day in counted]
    script = erase_script(found, LEDGER, KEY, day_counts=counted, new_rows=rows, followed_rows=rows, list_version=1)
    deletes = re.findall(r"DELETE FROM (\S+) AS connect_t\s+WHERE connect_t\.day IN \((.*?)\)", script)
    day, then = f"DATE '{DAY}'", f"DATE '{later}'"
    assert deletes == [(TARGET.sibling("a").sql, day), (TARGET.sibling("b").sql, f"{day}, {then}")]
    assert len(digests(script)) == 1
    insert = script.partition("INSERT INTO")[2]
    assert insert.count("CAST(['b', 'old'] AS ARRAY<STRING>)") == insert.count("CAST([] AS ARRAY<STRING>)") == 1


def test_the_most_tables_and_people_fit_into_a_script() -> None:
    names = tuple(f"{'an_event_with_a_long_name_' * 5}{number}" for number in range(MAX_TABLES))
    people = tuple(f"u-{number}" for number in range(MAX_DIGESTS_PER_VERSION))
    found = EraseSearch(TARGET, tuple(SearchedTable(TARGET.sibling(name), "id") for name in names), "5a17", people)
    counted = {DAY: MatchCount(MAX_TABLES, 8, MAX_TABLES, names, names)}
    rows = [before()]
    for script in (
        count_query(found),
        erase_script(found, LEDGER, KEY, day_counts=counted, new_rows=rows, followed_rows=rows, list_version=1),
    ):
        assert all(script.count(f"{TARGET.sibling(name).sql}") == 1 for name in names)
        assert len(script.encode()) < MAX_SCRIPT_BYTES


def test_the_ledger_row_after_an_erase_has_the_counted_rows_and_no_answer() -> None:
    counts = {"erased": 3, "late_1_days": 2, "shape_filtered": 7, "rows_polled": 0}
    old = before(counts=counts | {"rows_read": 12}, run="dag/run/task", clear_number=1)
    row = row_after_erase(old, MatchCount(matching=2, others=5), token="erase1-x", run="erase/1")
    assert (row.generation, row.checks, row.rows, row.digest, row.answer) == (5, 0, 5, None, None)
    assert row.counts == counts | {"erased": 5}
    assert (row.polled_at, row.run, row.clear_number) == (NOON, "erase/1", 0)


class Digests:
    """BigQuery, as far as it has a table of digests: version, how many came with it, salt, digest, stream, shaping."""

    def __init__(self, *rows: tuple[Any, ...]) -> None:
        names = ("version", "entries", "salt", "digest", "stream", "shaping")
        own = {"connector": "c", "stream": "s", "column_name": "id", "shaping": None}
        self.rows = [own | dict(zip(names, row, strict=False)) for row in rows]

    def query(self, *_: Any, **__: Any) -> tuple[list[dict[str, Any]], None]:
        return self.rows, None


def test_a_list_has_the_digests_of_all_its_versions() -> None:
    table: Any = Digests((1, 2, "5a", "b"), (2, 1, "5a", "a"), (1, 2, "5a", "c"))
    found = read_erase_list(table, TARGET, 2)
    assert found == EraseList(version=2, column="id", salt="5a", digests=("a", "b", "c"))


@pytest.mark.parametrize(
    "rows",
    [
        [(1, 2, "5a", "b"), (2, 1, "5a", "a")],
        [(2, 1, "5a", "a")],
        [(1, 1, "5a", "b", "s"), (2, 2, "0b", "a", "t")],
    ],
    ids=["a digest lost", "a version lost", "a digest of another stream lost"],
)
def test_an_incomplete_erase_list_stops_loads(rows: list[Any]) -> None:
    table: Any = Digests(*rows)
    with pytest.raises(ConfigError, match="Restore that table") as caught:
        read_erase_list(table, TARGET, 2)
    assert erase_list_table(TARGET).id in str(caught.value)


def test_lists_of_earlier_versions_are_read_as_lists_of_the_target() -> None:
    """Each counted its own versions, under a salt of its own."""
    table: Any = Digests((1, 1, "5a", "a", "s"), (1, 1, "0b", "b", "t"), (2, 1, "0b", "c", "t"))
    found = read_erase_list(table, TARGET, 2)
    assert {(part.salt, part.digests) for part in found.parts} == {("5a", ("a",)), ("0b", ("b", "c"))}
    assert (found.version, found.column, found.salt, found.shaping) == (2, "id", "0b", None)
    longer = found.with_values("id", ["new"])
    assert (longer.version, longer.salt, longer.others) == (3, "0b", found.others)
    assert longer.matches(["new"]) == [True]


def test_digests_of_shaped_values_are_a_separate_part_of_the_list() -> None:
    table: Any = Digests((1, 1, "5a", "a"), (2, 1, "0b", "b", "s", "d1"), (3, 1, "0b", "c", "s", "d1"))
    found = read_erase_list(table, TARGET, 3)
    assert [(part.salt, part.shaping) for part in found.parts] == [("0b", "d1"), ("5a", None)]


def test_a_table_of_an_earlier_version_has_no_column_for_the_digest_of_shapes() -> None:
    class Earlier(Digests):
        def query(self, sql: str, **_: Any) -> Any:
            if ", shaping FROM" in sql:
                raise ColumnError("no column shaping")
            return super().query(sql)

    table: Any = Earlier((1, 1, "5a", "a"))
    assert read_erase_list(table, TARGET, 1).shaping is None


def test_no_statement_about_the_list_names_a_stream() -> None:
    longer = EraseList().with_values("id", ["a"])
    lengthening = extend_list_script(LEDGER, TARGET, KEY, new_list=longer, added_digests=longer.digests)
    changes = lengthening.partition("INSERT INTO")[0]
    for sql in (
        changes,
        empty_list_statements(LEDGER, TARGET),
        raise_version_statement(LEDGER, TARGET, 1),
        newest_version_sql(TARGET),
    ):
        assert "stream" not in sql
        assert f"target = '{TARGET.id}'" in sql
