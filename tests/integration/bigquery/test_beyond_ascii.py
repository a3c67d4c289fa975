"""Tables and columns with letters beyond ASCII, from preflight to the reload of a day."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_connect.window import ONE_DAY
from tests.equipment.bigquery.bench import SinkBench
from tests.equipment.bigquery.fixtures import Target, connection_to
from tests.equipment.bigquery.letters import Letters
from tests.equipment.bigquery.proxy import BigQueryProxy
from tests.equipment.frozen import MONDAY, events
from tests.standins.bigquery_emulator import BigQueryEmulator

pytestmark = pytest.mark.slow


@pytest.fixture
def bench(emulator: BigQueryEmulator, bigquery_target: Target, tmp_path: Path) -> Iterator[SinkBench]:
    with Letters(emulator) as letters, BigQueryProxy(letters) as proxy:
        connection = connection_to(proxy)
        yield SinkBench(bigquery_target.sink, connection, connection, tmp_path)


@pytest.mark.parametrize("method", ["storage_write", "load_job"])
def test_a_table_with_letters_beyond_ascii_is_loaded_and_loaded_again(bench: SinkBench, method: str) -> None:
    dataset = bench.sink.table.partition(".")[0]
    sink = bench.having(table=f"{dataset}.größe_名前", load_method=method)
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, events("a", "b")))
    sink.publish(sink.stage(MONDAY, events("c"), order=2))
    sink.holds_exactly(MONDAY, "c")
    assert sink.staging_tables() == []


def test_columns_with_letters_beyond_ascii_keep_their_names_and_those_of_an_adopted_table_are_filled(
    bench: SinkBench,
) -> None:
    inner = pa.struct([("höhe", pa.int64()), ("n", pa.string())])
    schema = pa.schema([("größe", pa.int64()), ("名前", pa.string()), ("First name", pa.string())])
    bench.query("CREATE TABLE {table} (day DATE, `größe` INT64, `First name` STRING) PARTITION BY day")
    bench.query("INSERT INTO {table} (day, `größe`, `First name`) VALUES (DATE '2026-10-04', 7, 'old')")
    sink = bench.having(schema)
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, pa.table([[1, 2], ["a", "b"], ["x", None]], schema=schema)))
    found = bench.query("SELECT * FROM {table} ORDER BY `größe`")
    assert [row.pop("day") for row in found] == [MONDAY, MONDAY, MONDAY - ONE_DAY]
    assert found == [
        {"größe": 1, "First name": "x", "名前": "a"},
        {"größe": 2, "First name": None, "名前": "b"},
        {"größe": 7, "First name": "old", "名前": None},
    ]
    wider = sink.having(schema.append(pa.field("s", inner)))
    assert wider.preflight() == []
    with wider.open() as publisher:
        assert "höhe" in str(publisher.begin(wider.stage(MONDAY)).columns[-1].target)


def test_rows_are_merged_and_deleted_by_keys_with_letters_beyond_ascii(bench: SinkBench) -> None:
    schema = pa.schema([("schlüssel", pa.int64()), ("größe", pa.int64()), ("gelöscht", pa.bool_())])
    options = {"key": ("schlüssel",), "newest_by": "größe", "delete_where": "gelöscht"}
    sink = bench.having(schema, write_mode="merge", **options)
    assert sink.preflight() == []
    first = pa.table([[1, 2, 3], [1, 1, 9], [None, False, True]], schema=schema)
    second = pa.table([[1, 2, 3], [2, 2, 1], [False, True, False]], schema=schema)
    sink.publish(sink.stage(MONDAY, first))
    sink.publish(sink.stage(MONDAY + ONE_DAY, second))
    assert sink.query("SELECT `schlüssel`, `größe` FROM {table}") == [{"schlüssel": 1, "größe": 2}]
    assert sink.query("SELECT `schlüssel` AS k FROM `{beside}__tombstones` ORDER BY k") == [{"k": 2}, {"k": 3}]
