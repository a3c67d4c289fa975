"""Tables that people made otherwise than the sink would: a day is replaced in them too, and nothing else is touched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.cloud import bigquery

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.sql import TableRef
from tests.equipment.bigquery.bench import SinkBench, bench_of
from tests.equipment.bigquery.fixtures import Target, connection_to
from tests.equipment.bigquery.proxy import BigQueryProxy, Change
from tests.equipment.frozen import MONDAY, TUESDAY, events

pytestmark = pytest.mark.slow


@pytest.fixture
def bench(bigquery_target: Target, proxy: BigQueryProxy, tmp_path: Path) -> SinkBench:
    straight = bench_of(bigquery_target, tmp_path)
    return replace(straight, connection=connection_to(proxy))


RANGES = {"field": "n", "range": {"start": "0", "end": "100", "interval": "10"}}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "not at all": ({}, {"partition_by": "none"}),
    # The emulator forgets ranges, so the proxy says them.
    "by ranges": ({}, {"partition_by": "n", "partition_type": "range"}),
    "by time of arrival": (
        {"time_partitioning": bigquery.TimePartitioning(type_="DAY")},
        {"partition_by": "ingestion_time"},
    ),
}


def make(bench: SinkBench, how: dict[str, Any]) -> None:
    """Make the table as a person would, with a row that came before this sink."""
    kinds = {"event": "STRING", "n": "INTEGER", "day": "DATE"}
    with BigQueryApi.open(bench.reader) as api:
        place = TableRef.parse(bench.sink.table, api.project)
        table = bigquery.Table(place.id, [bigquery.SchemaField(name, kind) for name, kind in kinds.items()])
        for name, value in how.items():
            setattr(table, name, value)
        api.client.create_table(table, timeout=30, retry=None)
    bench.query("INSERT INTO {table} (event, n) VALUES ('a person\\'s own', 50)")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", [{}, {"write_mode": "merge", "key": ("event",)}], ids=["replace", "merge"])
def test_a_day_is_replaced_in_a_table_that_is_not_divided_by_day(
    bench: SinkBench, proxy: BigQueryProxy, case: str, mode: dict[str, Any]
) -> None:
    made, options = CASES[case]
    make(bench, made)
    if case == "by ranges":
        proxy.breaks("(GET|PATCH|PUT) .*/tables/events$", Change(lambda body: body | {"rangePartitioning": RANGES}))
    sink = bench.having(**options, **mode)
    [problem] = bench.having(**mode).preflight()
    assert all(f"{name}={value!r}" in problem for name, value in options.items())
    assert sink.preflight() == []
    sink.publish(sink.stage(TUESDAY, events("t")))
    sink.publish(sink.stage(MONDAY, events("a", "b")))
    sink.publish(sink.stage(MONDAY, events("a", "c"), order=2))
    assert sink.rows(TUESDAY) == ["t"]
    assert sink.rows(MONDAY) == (["a", "b", "c"] if mode else ["a", "c"])
    assert bench.query("SELECT event FROM {table} WHERE day IS NULL") == [{"event": "a person's own"}]


def test_a_table_without_partitions_is_made(bench: SinkBench) -> None:
    sink = bench.having(partition_by="none")
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, events("a")))
    sink.publish(sink.stage(MONDAY, events("b"), order=2))
    sink.holds_exactly(MONDAY, "b")
    assert sink.table().time_partitioning is None
