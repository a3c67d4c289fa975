"""Rules of the real service that the emulator has not: names, JSON, partitions, uploads; ``make real`` runs this."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sinks._bigquery.load_methods import upload as _bigquery_upload
from tests.equipment.bigquery.bench import SinkBench, bench_of
from tests.equipment.bigquery.fixtures import REAL_PROJECT, Target
from tests.equipment.frozen import MONDAY, events

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(REAL_PROJECT is None, reason="GOOGLE_CLOUD_PROJECT_FOR_TESTS names no project to prove it in"),
]


@pytest.fixture
def bench(bigquery_target: Target, tmp_path: Path) -> SinkBench:
    return bench_of(bigquery_target, tmp_path)


@pytest.mark.parametrize("method", ["storage_write", "load_job"])
def test_a_table_with_letters_beyond_ascii(bench: SinkBench, method: str) -> None:
    sink = bench.having(table=bench.sink.table.replace("events", "größe_名前"), load_method=method)
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, events("a"), events("b")))
    sink.publish(sink.stage(MONDAY, events("c"), events("d"), order=2))
    sink.holds_exactly(MONDAY, "c", "d")


def test_columns_with_letters_beyond_ascii_nested_ones_too(bench: SinkBench) -> None:
    inner = pa.struct([("höhe", pa.int64()), ("名前", pa.string())])
    schema = pa.schema([("größe", pa.int64()), ("s", inner), ("हिन्दी", pa.list_(inner))])
    one = {"höhe": 1, "名前": "x"}
    sink = bench.having(schema, cluster_by=("größe",))
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, pa.table([[7], [one], [[one, one]]], schema=schema)))
    assert sink.query("SELECT * EXCEPT (day) FROM {table}") == [{"größe": 7, "s": one, "हिन्दी": [one, one]}]


def test_numbers_and_depths_beyond_the_parser_become_strings(bench: SinkBench) -> None:
    texts = ['{"a":1}', "1e400", "[" * 1000 + "]" * 1000]
    schema = pa.schema([pa.field("doc", pa.string(), metadata={"json": "unchecked"})])
    sink = bench.having(schema)
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, pa.table([texts], schema=schema)))
    found = sink.query("SELECT doc FROM {table} ORDER BY LENGTH(TO_JSON_STRING(doc))")
    assert [row["doc"] for row in found] == [{"a": 1}, *texts[1:]]


def test_a_day_of_many_files_is_uploaded_in_pieces(bench: SinkBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bigquery_upload, "CHUNK_BYTES", 256 * 1024)
    sink = bench.having(load_method="load_job")
    assert sink.preflight() == []
    files = [events(*(f"{number}-{row}" * 20 for row in range(3000))) for number in range(12)]
    assert sink.publish(sink.stage(MONDAY, *files)).rows == 36_000
    assert len({*sink.rows(MONDAY)}) == 36_000


@pytest.mark.parametrize(
    ("made", "options"),
    [
        ("", {"partition_by": "none"}),
        ("PARTITION BY RANGE_BUCKET(n, GENERATE_ARRAY(0, 100, 10))", {"partition_by": "n", "partition_type": "range"}),
        ("PARTITION BY _PARTITIONDATE", {"partition_by": "ingestion_time"}),
        (
            "PARTITION BY _PARTITIONDATE OPTIONS (require_partition_filter = TRUE)",
            {"partition_by": "ingestion_time"},
        ),
    ],
)
@pytest.mark.parametrize("mode", [{}, {"write_mode": "merge", "key": ("event",)}], ids=["replace", "merge"])
def test_a_day_is_replaced_in_a_table_that_is_not_divided_by_day(
    bench: SinkBench, made: str, options: dict[str, Any], mode: dict[str, Any]
) -> None:
    bench.query(f"CREATE TABLE {{table}} (event STRING, n INT64, day DATE) {made}")
    sink = bench.having(**options, **mode)
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, events("a", "b")))
    sink.publish(sink.stage(MONDAY, events("a", "c"), order=2))
    where = "WHERE _PARTITIONTIME IS NULL OR _PARTITIONTIME IS NOT NULL" if "filter" in made else ""
    found = sink.query(f"SELECT event FROM {{table}} {where} ORDER BY event")
    assert [row["event"] for row in found] == (["a", "b", "c"] if mode else ["a", "c"])


@pytest.mark.parametrize(
    ("statement", "error", "said"),
    [
        ("INSERT INTO {t} (n) VALUES (NULL)", DataError, "Required field n cannot be null"),
        (
            "INSERT INTO {t} (n, day) SELECT 1, d FROM UNNEST(GENERATE_DATE_ARRAY('2000-01-01', '2020-01-01')) AS d",
            ConfigError,
            "Too many partitions",
        ),
        ("SELECT * FROM `{t.dataset}.none`", ConfigError, "Not found"),
    ],
)
def test_an_error_inside_a_script_is_shown_with_its_line(
    bench: SinkBench, statement: str, error: type[Exception], said: str
) -> None:
    with BigQueryApi.open(bench.connection) as api:
        place = TableRef.parse(bench.sink.table, api.project)
        made = f"CREATE TABLE {place.sql} (n INT64 NOT NULL, day DATE) PARTITION BY day"
        api.query(made, action="making", labels={})
        inner = statement.replace("{t}", place.sql).replace("{t.dataset}", f"{place.project}.{place.dataset}")
        with pytest.raises(error, match=rf"{said}.* at \[\d+:\d+\]"):
            api.query(f"DECLARE a INT64;\nBEGIN TRANSACTION;\n{inner};\nCOMMIT TRANSACTION", action="trying", labels={})
