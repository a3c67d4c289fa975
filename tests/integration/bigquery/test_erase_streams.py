"""Erase lists of a BigQuery table: they are the table's, whichever stream writes there, and numbers have their text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.bigquery.tables import create_table
from airflow_provider_connect.errors import ConfigError, OvertakenError
from airflow_provider_connect.sink import Publish, StreamKey
from airflow_provider_connect.sinks._bigquery import erase_list
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.stage.manifest import SeenPublish
from airflow_provider_connect.testing.bench import KEY, MONDAY
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.bigquery.bench import bench_of
from tests.equipment.bigquery.fixtures import Target as Table
from tests.integration.bigquery.test_erase import MERGED, merged

pytestmark = pytest.mark.slow
TUESDAY = MONDAY + ONE_DAY


def merge_bench(table: Table, tmp_path: Path) -> Any:
    sink = bench_of(table, tmp_path).having(MERGED, write_mode="merge", key=("event",), newest_by="amount")
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, merged(("a", 1, False), ("b", 1, False))))
    return sink


RENAMED = StreamKey(connector=KEY.connector, stream="renamed.export")
"""The same stream once its connection has another name."""


def test_a_stream_under_another_name_follows_the_targets_erase_list(bigquery_target: Table, tmp_path: Path) -> None:
    """The list was by stream: a renamed conn_id brought everybody back."""
    sink = merge_bench(bigquery_target, tmp_path)
    with sink.sink.open(RENAMED, {sink.sink.conn_id: sink.connection}) as other:
        assert other.preflight(MERGED, [Day(date=MONDAY)], "day") == []
        before = replace(sink.stage(TUESDAY, merged(("a", 2, False)), order=1), key=RENAMED)
        with sink.open() as publisher:
            assert publisher.erase("event", ["a"], "day").rows == {MONDAY: 1}
        assert other.ledger.erased().matches(["a", "b"]) == [True, False]
        token = other.begin(before)
        with pytest.raises(OvertakenError) as caught:
            other.commit(before, token, [other.put(token, before.stage, share) for share in _shares(other, before)])
        assert caught.value.is_erase
        lacking = MERGED.append(pa.field("whose", pa.string())).remove(MERGED.get_field_index("event"))
        problems = other.preflight(lacking, [Day(date=MONDAY)], "day")
        assert problems
        listed = erase_list.erase_list_table(sink.open().tables.target).id
        assert any(listed in problem or "erased" in problem or "'event'" in problem for problem in problems)
    assert (sink.rows(MONDAY), sink.rows(TUESDAY)) == (["b"], [])


def test_a_new_stream_follows_the_erase_list_from_its_first_preflight(bigquery_target: Table, tmp_path: Path) -> None:
    sink = merge_bench(bigquery_target, tmp_path)
    with sink.open() as publisher:
        publisher.erase("event", ["a"], "day")
    with sink.sink.open(RENAMED, {sink.sink.conn_id: sink.connection}) as other:
        assert other.ledger.erased().matches(["a"]) == [True], "before it has a row in the ledger"
        assert other.preflight(MERGED, [Day(date=MONDAY)], "day") == []
        assert other.ledger.erased().version == 1
        stale = replace(sink.stage(TUESDAY, merged(("a", 2, False)), order=2, seen=SeenPublish()), key=RENAMED)
        token = other.begin(stale)
        with pytest.raises(OvertakenError):
            other.commit(stale, token, [other.put(token, stale.stage, share) for share in _shares(other, stale)])


def _shares(publisher: Any, staged: Publish) -> Any:
    return publisher.shares(staged.manifest.polled.files)


def test_stream_lists_of_earlier_versions_count_for_the_whole_target(bigquery_target: Table, tmp_path: Path) -> None:
    """Such a list has no column for the shapes' digest, and a fence row of one stream alone has its version."""
    sink = merge_bench(bigquery_target, tmp_path)
    names = [field["name"] for field in erase_list.LIST_FIELDS if field["name"] not in erase_list.ADDED_LIST_FIELDS]
    earlier = EraseList().with_values("event", ["a"])
    with sink.open() as publisher, sink.sink.open(RENAMED, {sink.sink.conn_id: sink.connection}) as other:
        target, ledger = publisher.tables.target, publisher.tables.ledger
        listed = erase_list.erase_list_table(target)
        create_table(publisher.api, listed, [field for field in erase_list.LIST_FIELDS if field["name"] in names])
        texts = [target.id, KEY.connector, KEY.stream, 1, 1, "event", earlier.salt, earlier.digests[0]]
        values = ", ".join(f"'{text}'" if isinstance(text, str) else str(text) for text in texts)
        for statement in (
            f"INSERT INTO {listed.sql} ({', '.join(names[:-1])}) VALUES ({values})",
            f"UPDATE {ledger.sql} SET erased = 1 WHERE day IS NULL AND stream = '{KEY.stream}'",
        ):
            publisher.api.query(statement, action="erase as an earlier version", labels={})
        assert other.ledger.erased().matches(["a", "b"]) == [True, False]
        assert other.ledger.erased().shaping is None
        assert other.preflight(MERGED, [Day(date=MONDAY)], "day") == []
        assert publisher.erase("event", ["b"], "day").version == 2
        assert other.ledger.erased().matches(["a", "b"]) == [True, True]
        assert (other.ledger.erased().version, other.ledger.erased().salt) == (2, earlier.salt)


@pytest.mark.parametrize("kind", [pa.int64(), pa.decimal128(20, 0)], ids=str)
def test_numbers_are_compared_by_their_text(bigquery_target: Table, tmp_path: Path, kind: pa.DataType) -> None:
    people = pa.array(["1", "7", "17"]).cast(kind)
    schema = pa.schema([pa.field("event", pa.string()), pa.field("person", kind)])
    sink = bench_of(bigquery_target, tmp_path).having(schema, write_mode="replace")
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, pa.table([pa.array(["a", "b", "c"]), people], schema=schema)))
    with sink.open() as publisher:
        assert publisher.find("person", ["17"]) == {MONDAY: 1}
        with pytest.raises(ConfigError, match=r"column 'person' is [A-Z]+, and 1 of the values are not integers"):
            publisher.find("person", ["u-17"])
        assert publisher.erase("person", ["17"], "day").rows == {MONDAY: 1}
    assert sink.rows(MONDAY) == ["a", "b"]
