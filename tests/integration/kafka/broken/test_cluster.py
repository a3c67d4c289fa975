"""K1 on three nodes: one of them goes away under load and comes back; leaders, coordinator and controller move.

Seeded by CONNECT_CAMPAIGN_SEED; part of ``make campaign``, as three nodes need a gigabyte and their time.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider_connect.window import ONE_DAY
from tests.equipment.frozen import TUESDAY, events
from tests.equipment.kafka.bench import SinkBench, shared_bench
from tests.equipment.kafka.cluster import KafkaCluster, Role, running_cluster

pytestmark = pytest.mark.campaign

SEED = int(os.environ.get("CONNECT_CAMPAIGN_SEED", "1"))
BOUNCES = int(os.environ.get("CONNECT_CAMPAIGN_BOUNCES", "3"))
ROWS = tuple(f"event-{number}" for number in range(30_000))
DAYS = (TUESDAY + ONE_DAY * n for n in itertools.count())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def bench(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SinkBench]:
    with shared_bench(cluster.bootstrap, tmp_path_factory.mktemp("stage")) as made:
        yield made


@pytest.fixture
def day() -> dt.date:
    return next(DAYS)


@pytest.mark.parametrize("role", ["leader", "coordinator", "controller"])
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_node_goes_away_under_load_and_comes_back(
    cluster: KafkaCluster, bench: SinkBench, role: Role, how: str
) -> None:
    moments = random.Random(f"{SEED} {role} {how}")
    for _ in range(BOUNCES):
        day = next(DAYS)
        staged = bench.stage(day, *(events(*ROWS) for _ in range(3)))
        node = cluster.node_of(role, bench.sink.topic)
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(bench.publish_at_last, staged)
            time.sleep(moments.uniform(0.0, 1.2))
            assert not done.done(), "the day was published before the node went away"
            if how == "killed":
                node.kill()
            else:
                node.stop()
            time.sleep(moments.uniform(0.0, 3.0))
            node.start()
            assert done.result(120).generation == 1
        cluster.wait_until_in_sync()
        bench.holds(day, ROWS * 3)


def test_two_of_three_are_away_and_nothing_is_half_done(cluster: KafkaCluster, bench: SinkBench, day: dt.date) -> None:
    """Below min.insync.replicas nothing is taken; when they are back, the next try publishes the day."""
    staged = bench.stage(day, events(*ROWS))
    first, *others = cluster.nodes.values()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(bench.having(timeout_seconds=5).publish_at_last, staged, tries=20)
        time.sleep(0.5)
        for node in others:
            node.kill()
        time.sleep(3)
        with ThreadPoolExecutor(2) as starting:
            list(starting.map(type(first).start, others))
        assert done.result(180).generation == 1
    cluster.wait_until_in_sync()
    bench.holds(day, ROWS)
