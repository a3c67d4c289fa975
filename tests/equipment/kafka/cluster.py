"""Three real Kafka nodes, each broker and controller, with every record on all of them."""

from __future__ import annotations

import base64
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from tests.standins.kafka_broker import KafkaBroker, fetched
from tests.standins.server import free_port

Role = Literal["leader", "coordinator", "controller"]

READY_SECONDS = 60.0
NODES = 3
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "controlled.shutdown.enable": "true",
    # Leaders return to a node soon after it has come back, which moves them again.
    "leader.imbalance.check.interval.seconds": "2",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
}


class KafkaCluster:
    """The nodes, by their ids."""

    def __init__(self, folder: Path) -> None:
        ports = {node: free_port() for node in range(1, NODES + 1)}
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in ports.items())
        self.nodes: dict[int, KafkaBroker] = {}
        for node, port in ports.items():
            own = {"node.id": str(node), "controller.quorum.voters": voters}
            self.nodes[node] = KafkaBroker(folder / str(node), settings=SETTINGS | own, controller_port=port)
            _format(folder / str(node) / "data", node)

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self) -> None:
        """Start all at once: none answers without a majority."""
        with ThreadPoolExecutor(NODES) as pool:
            list(pool.map(KafkaBroker.start, self.nodes.values()))
        self.wait_until(lambda seen: len(seen.brokers) == NODES)

    def stop(self) -> None:
        with ThreadPoolExecutor(NODES) as pool:
            list(pool.map(KafkaBroker.stop, self.nodes.values()))

    def node_of(self, role: Role, topic: str) -> KafkaBroker:
        """Return the leader of a topic's first partition, the transactions' coordinator, or the controller."""
        seen = self.look()
        if role == "controller":
            return self.nodes[seen.controller_id]
        of = topic if role == "leader" else "__transaction_state"
        return self.nodes[seen.topics[of].partitions[0].leader]

    def wait_until_in_sync(self) -> None:
        """Wait until every partition is in sync on all nodes."""
        self.wait_until(
            lambda seen: all(
                len(partition.isrs) == NODES
                for topic in seen.topics.values()
                for partition in topic.partitions.values()
            )
        )

    def wait_until(self, done: Callable[[ClusterMetadata], bool]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not done(self.look()):
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def look(self) -> ClusterMetadata:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}).list_topics(timeout=5)
            except KafkaException:
                assert time.monotonic() < deadline


def _format(data: Path, node: int) -> None:
    """Make a node's data folder out of the one that fits node 1: each has an id and a folder id of its own."""
    shutil.copytree(fetched() / "formatted", data)
    folder_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    own = {"node.id": str(node), "directory.id": folder_id}
    path = data / "meta.properties"
    known = dict(line.split("=", 1) for line in path.read_text().splitlines() if not line.startswith("#"))
    path.write_text("".join(f"{name}={value}\n" for name, value in (known | own).items()))


@contextmanager
def running_cluster(folder: Path) -> Iterator[KafkaCluster]:
    cluster = KafkaCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
