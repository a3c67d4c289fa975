"""What one publisher keeps: a client and a ledger for all its threads, until it is closed."""

from __future__ import annotations

import datetime as dt
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect import patience
from airflow_provider_connect.capabilities.publisher import Sweeps
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sink import Intent, Publish, StreamKey
from airflow_provider_connect.sinks._kafka import cluster as _kafka_cluster
from airflow_provider_connect.sinks._kafka.cluster import Cluster
from airflow_provider_connect.sinks._kafka.record_encoder import DayPlan
from airflow_provider_connect.sinks._kafka.turn import PassedOverError
from airflow_provider_connect.sinks._kafka.whole_day import WholeDayDelivery
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.stage.manifest import Manifest, PollResult
from airflow_provider_connect.window import Day
from tests.equipment.clock import NoTime

KEY = StreamKey(connector="c", stream="s")
NOWHERE = Connection(conn_id="kafka_default", conn_type="kafka", extra={"bootstrap.servers": "127.0.0.1:1"})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The admin clients that are made, each slowly enough for threads to meet."""
    clients: list[object] = []

    def slow(*_: Any) -> object:
        time.sleep(0.02)
        clients.append(object())
        return clients[-1]

    monkeypatch.setattr(_kafka_cluster, "make_admin_client", slow)
    return clients


def test_threads_share_one_client_and_one_ledger_until_they_are_let_go(made: list[object]) -> None:
    cluster = Cluster(KafkaSink(topic="events"), KEY, {"kafka_default": NOWHERE})
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: (cluster.admin, cluster.ledger), range(8)))
    assert len(found) == len(made) == 1
    cluster.close()
    cluster.close()
    assert cluster.admin is made[1]


def test_opening_a_publisher_speaks_to_nobody(made: list[object]) -> None:
    with KafkaSink(topic="events").open(KEY, {"kafka_default": NOWHERE}) as publisher:
        assert not isinstance(publisher, Sweeps)
    assert made == []


def test_runs_of_one_day_that_passed_each_other_over_do_not_come_back_together(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = NoTime()
    monkeypatch.setattr(patience, "CLOCK", clock)

    def passed_over(*_: Any) -> None:
        raise PassedOverError("another run of the same day queued at the same time")

    monkeypatch.setattr(WholeDayDelivery, "put", passed_over)
    day = Day(date=dt.date(2026, 10, 5))
    publish = Publish(
        key=KEY,
        day=day,
        intent=Intent(token="t", run="dag/run/task"),
        manifest=Manifest(day=day, attempt="0a-1-20261005", fingerprint="f", polled=PollResult()),
        schema=pa.schema([]),
        stage="",
    )
    sink = KafkaSink(topic="events")
    for _ in range(2):
        with sink.open(KEY, {"kafka_default": NOWHERE}) as publisher, pytest.raises(PassedOverError):
            publisher.put(DayPlan(publish, "rows", {}, {}, {}, None), "stage", ())
    first, second = clock.pauses[: WholeDayDelivery.max_tries - 1], clock.pauses[WholeDayDelivery.max_tries - 1 :]
    assert len(first) == len(second) == WholeDayDelivery.max_tries - 1
    assert not set(first) & set(second)
    assert all(pause <= most for pauses in (first, second) for pause, most in zip(pauses, (0.5, 1, 2, 4), strict=True))
