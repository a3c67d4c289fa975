"""Staging tables in a dataset of their own: nothing of them in the target's, and each target sweeps its own alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery import problems as _problems
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from tests.equipment.bigquery.bench import SinkBench, bench_of
from tests.equipment.bigquery.fixtures import Target, connection_to, fresh_dataset
from tests.equipment.bigquery.proxy import BigQueryProxy, Change
from tests.equipment.frozen import MONDAY, events

pytestmark = pytest.mark.slow


@pytest.fixture
def aside(google_connection: Connection) -> Iterator[str]:
    with fresh_dataset(google_connection) as name:
        yield name


@pytest.fixture
def bench(bigquery_target: Target, aside: str, tmp_path: Path) -> SinkBench:
    return bench_of(bigquery_target, tmp_path).having(staging_dataset=aside)


def tables(bench: SinkBench, dataset: str) -> list[str]:
    with BigQueryApi.open(bench.reader) as api:
        return sorted(item.table_id for item in api.client.list_tables(dataset, timeout=30, retry=None))


@pytest.mark.parametrize("method", ["storage_write", "load_job"])
def test_staging_tables_lie_in_the_dataset_that_is_named(bench: SinkBench, aside: str, method: str) -> None:
    sink = bench.having(load_method=method)
    own = sink.sink.table.partition(".")[0]
    assert sink.preflight() == []
    staged = sink.stage(MONDAY, events("a", "b"), rejects=[b"{"])
    with sink.open() as publisher:
        token = publisher.begin(staged)
        assert len(tables(sink, aside)) == 2  # rows and rejects
        assert tables(sink, own) == ["events", "events__ledger"]
        assert publisher.commit(staged, token, sink.put(staged, token)).rows == 2
    sink.holds_exactly(MONDAY, "a", "b")
    assert tables(sink, aside) == []
    assert tables(sink, own) == ["events", "events__ledger", "events__rejects"]


def test_a_sweep_leaves_the_staging_tables_of_another_table_of_that_name(
    bench: SinkBench, aside: str, google_connection: Connection
) -> None:
    with fresh_dataset(google_connection) as other_dataset:
        other = bench.having(table=f"{other_dataset}.events")
        for sink in (bench, other):
            assert sink.preflight() == []
            with sink.open() as publisher:
                publisher.begin(sink.stage(MONDAY))
        assert len(tables(bench, aside)) == 2
        assert bench.sweep_all() == 1
        [left] = tables(bench, aside)
        assert other_dataset in left
        assert other.sweep_all() == 1
        assert tables(bench, aside) == []


def test_a_staging_dataset_that_is_missing_or_far_away_is_named_before_the_poll(
    bench: SinkBench, aside: str, proxy: BigQueryProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_problems, "SETTLE_SECONDS", 0.2)
    [problem] = bench.having(staging_dataset="connect_test_nowhere").preflight()
    assert "connect_test_nowhere does not exist" in problem
    assert "staging_dataset=" in problem
    fronted = SinkBench(bench.sink, connection_to(proxy), bench.reader, bench.root)
    proxy.breaks(f"GET .*/datasets/{aside}$", Change(lambda body: body | {"location": "EU"}))
    [problem] = fronted.preflight()
    assert "lies in EU, but the table lies in US" in problem


@pytest.mark.parametrize("name", ["", "a.b.c", "a b", "größe", "d`", "A.d"])
def test_text_that_names_no_dataset_is_refused(name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"staging_dataset: .* is not a dataset\. Write 'dataset' or 'project.dataset'"
    ):
        BigQuerySink(table="d.t", staging_dataset=name)
