"""The topics of a stream as lines of JSON, laid out again with every record at the offset where it was."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from airflow_provider_connect.connection import Connection
from tests.equipment.earlier.scenes import Scene
from tests.equipment.earlier.stories import Shop
from tests.equipment.kafka.bench import make_topic
from tests.standins.kafka_reader import KafkaRecord, Reader

CONN_ID = "kafka_default"
_SETTINGS = ("cleanup.policy", "retention.ms", "min.compaction.lag.ms", "max.message.bytes")
_NAME = "{name}"
"""Stands for what the names of a shop's topics begin with, in keys and values as well."""


def shop_of(root: Path, bootstrap: str, name: str, scene: Scene) -> Shop:
    """Return a shop with a topic and a ledger of its own."""
    own = {"topic": f"{name}-orders", "ledger_topic": f"{name}-ledger", "partitions": 2, "timeout_seconds": 20}
    connection = Connection(conn_id=CONN_ID, conn_type="kafka", extra={"bootstrap.servers": bootstrap})
    return Shop(root, "kafka", {**own, **scene.sink}, {CONN_ID: connection}, name)


def bootstrap_of(shop: Shop) -> str:
    return str(shop.connections[CONN_ID].extra["bootstrap.servers"])


def keep(shop: Shop, path: Path) -> None:
    """Write the committed records of the shop's topics, and the settings of these."""
    bootstrap, lines = bootstrap_of(shop), []
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for topic in sorted(name for name in admin.list_topics(timeout=10).topics if name.startswith(f"{shop.name}-")):
        [future] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        settings = {name: entry.value for name, entry in future.result(20).items() if name in _SETTINGS}
        with Reader(bootstrap, topic) as reader:
            records = sorted(reader.read(), key=lambda record: (record.partition, record.offset))
            partitions = len(reader.offsets())
        short = topic.replace(shop.name, _NAME)
        lines.append({"topic": short, "partitions": partitions, "settings": settings})
        lines += [_line(record, shop.name, short) for record in records]
    path.with_suffix(".jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def _line(record: KafkaRecord, name: str, topic: str) -> dict[str, Any]:
    texts = {
        part: None if value is None else value.decode().replace(name, _NAME)
        for part, value in (("key", record.key), ("value", record.value))
    }
    place = {"of": topic, "partition": record.partition, "offset": record.offset, "timestamp": record.timestamp}
    return place | texts | {"headers": {key: text.replace(name, _NAME) for key, text in record.headers.items()}}


def lay_out(path: Path, shop: Shop) -> None:
    """Make the kept topics under a shop's names, with every record at the offset where it was.

    A transaction's marker takes an offset, too. So records between two gaps are one transaction here, and an aborted
    one fills what a gap is longer than its marker.
    """
    bootstrap, topics, records = bootstrap_of(shop), {}, []
    for text in path.with_suffix(".jsonl").read_text().splitlines():
        line = json.loads(text.replace(_NAME, shop.name))
        if "settings" in line:
            topics[line["topic"]] = line
        else:
            records.append(line)
    for topic, made in topics.items():
        settings = {name.replace(".", "__"): value for name, value in made["settings"].items()}
        make_topic(bootstrap, topic, made["partitions"], **settings)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"lays-out-{shop.name}", "linger.ms": 0})
    producer.init_transactions(20)
    for (topic, partition), lines in groupby(records, key=lambda line: (line["of"], line["partition"])):
        end = 0
        for run in _runs(list(lines)):
            _fill(producer, run[0], run[0]["offset"] - end)
            producer.begin_transaction()
            for line in run:
                producer.produce(
                    topic, line["value"], line["key"], partition, timestamp=line["timestamp"], headers=line["headers"]
                )
            producer.commit_transaction(20)
            end = run[-1]["offset"] + 2
    _require_same(bootstrap, topics, records)


def _runs(lines: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the records without a gap between them."""
    for _, run in groupby(enumerate(lines), key=lambda numbered: numbered[1]["offset"] - numbered[0]):
        yield [line for _, line in run]


def _fill(producer: Producer, line: dict[str, Any], offsets: int) -> None:
    """Fill offsets before a record by an aborted transaction: copies of the record, and a marker."""
    topic, partition = line["of"], line["partition"]
    if not offsets:
        return
    if offsets == 1:
        raise ValueError(f"{topic}[{partition}]: one offset cannot be filled: a record and its marker take two")
    producer.begin_transaction()
    for _ in range(offsets - 1):
        producer.produce(topic, line["value"], line["key"], partition, headers=line["headers"])
    producer.flush(20)
    producer.abort_transaction(20)


def _require_same(bootstrap: str, topics: dict[str, Any], records: list[dict[str, Any]]) -> None:
    """Check that each record has the key and the offset that it had."""
    deadline = time.monotonic() + 20
    wanted = {(line["of"], line["partition"], line["offset"]): line["key"] for line in records}
    while True:
        laid = {}
        for topic in topics:
            with Reader(bootstrap, topic) as reader:
                for record in reader.read():
                    laid[topic, record.partition, record.offset] = record.key and record.key.decode()
        if laid == wanted:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"laid out otherwise: {laid.items() ^ wanted.items()}")
        time.sleep(0.05)
