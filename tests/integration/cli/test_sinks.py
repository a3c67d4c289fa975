"""What a check asks of Kafka and BigQuery makes nothing there, and finds what preflight finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_connect.demo.kafka_broker import KafkaBroker
from airflow_provider_connect.window import Day
from tests.equipment.bigquery.bench import bench_of
from tests.equipment.bigquery.fixtures import Target
from tests.equipment.frozen import MONDAY, SCHEMA
from tests.equipment.kafka.scene import scene_of

pytestmark = pytest.mark.slow
DAYS = [Day(date=MONDAY)]


def test_no_topic_is_made(broker: KafkaBroker, tmp_path: Path) -> None:
    scene = scene_of(broker.bootstrap, tmp_path)
    assert scene.publisher.inspect(SCHEMA, DAYS, "day") == []
    assert scene.topics() == set()
    [problem] = scene.having(key_fields=("nowhere",)).publisher.inspect(SCHEMA, DAYS, "day")
    assert "the source has no column 'nowhere'" in problem


def test_no_table_is_made(bigquery_target: Target, tmp_path: Path) -> None:
    bench = bench_of(bigquery_target, tmp_path)
    with bench.open() as publisher:
        before = tables(publisher)
        assert publisher.inspect(bench.schema, DAYS, "day") == []
        assert tables(publisher) == before
    lost = bench.having(table="connect_test_nowhere.events")
    with lost.open() as publisher:
        assert publisher.inspect(bench.schema, DAYS, "day") == lost.preflight()
        assert lost.preflight()


def tables(publisher: object) -> set[str]:
    target = publisher.tables.target  # type: ignore[attr-defined]
    client = publisher.api.client  # type: ignore[attr-defined]
    return {table.table_id for table in client.list_tables(f"{target.project}.{target.dataset}")}
