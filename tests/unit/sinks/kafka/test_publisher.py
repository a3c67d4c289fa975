"""What one publisher keeps: a client and a ledger for all its threads, until it is closed."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks._kafka import cluster as _kafka_cluster
from airflow_provider_connect.sinks._kafka.cluster import Cluster
from airflow_provider_connect.sinks.kafka import KafkaSink

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

    monkeypatch.setattr(_kafka_cluster, "admin", slow)
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
        assert publisher.sweep() == 0
    assert made == []


def test_the_workshop_does_not_know_its_face() -> None:
    code = "import sys, airflow_provider_connect.sinks._kafka.publisher as _; "
    code += "print('airflow_provider_connect.sinks.kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
