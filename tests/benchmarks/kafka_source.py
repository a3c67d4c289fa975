"""A poll of a topic beside confluent-kafka's bare loop over the same records.

500,000 records of about 690 bytes lie in one partition of a real broker. The bare loop consumes them and keeps nothing.
The poll makes Arrow batches: values as bytes, as checked JSON text, and as typed columns. Rounds go through all.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from day import show

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import ALONE
from airflow_provider_connect.sources.kafka import KafkaSource
from airflow_provider_connect.submit import launch
from airflow_provider_connect.window import Day
from tests.standins.kafka_broker import KafkaBroker

DAY = Day(date=dt.date(2026, 11, 1))
COLUMNS = {"id": "bigint", "user": "string", "amount": "decimal(12,2)", "at": "epoch_millis", "ok": "boolean"}
POLLS: dict[str, dict[str, Any]] = {
    "poll, values as bytes": {"value_converter": "bytes"},
    "poll, values as checked JSON text": {},
    "poll, five typed columns": {"columns": COLUMNS},
}


def fill(bootstrap: str, records: int) -> None:
    """Write the records into a new topic of one partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("events", 1, 1)])["events"].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 20})
    chance = random.Random(5)
    for number in range(records):
        text = "".join(chance.choices("abcdefghij ", k=560))
        value = {"id": number, "user": f"u-{number % 977}", "amount": number / 4, "at": 1_700_000_000_000 + number}
        while True:
            try:
                producer.produce("events", json.dumps(value | {"ok": True, "text": text}).encode(), str(number))
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def bare_loop(bootstrap: str, records: int) -> tuple[float, float, float]:
    """Consume the records. Returns wall seconds, CPU seconds and the peak in MB."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bare",
            "isolation.level": "read_committed",
            "check.crcs": True,
            "queued.max.messages.kbytes": 32_000,
        }
    )
    cpu, started = time.process_time(), time.perf_counter()
    consumer.assign([TopicPartition("events", 0, 0)])
    count = 0
    while count < records:
        count += len(consumer.consume(10_000, 0.1))
    figures = time.perf_counter() - started, time.process_time() - cpu
    consumer.close()
    return *figures, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def poll(extra: dict[str, Any], records: int, options: dict[str, Any]) -> tuple[float, float, float]:
    """Poll the topic as one Spark task does. Returns the figures of :func:`bare_loop`."""
    import pyarrow.compute  # noqa: F401  # a worker that has done a day has imported it

    source = KafkaSource(topics=["events"], records_per_task=10 * records, **options)
    connection = Connection(conn_id="kafka_default", conn_type="kafka", extra=extra)
    with source.open(connection, ALONE) as poller:
        poller.follow(DAY, None, None)
        (part,) = poller.plan([DAY])
        cpu, started = time.process_time(), time.perf_counter()
        rows = sum(batch.num_rows for _, batch in poller.poll(part, Tally([DAY])))
        figures = time.perf_counter() - started, time.process_time() - cpu
    assert rows == records, rows
    return *figures, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_new_process(function: Any, *arguments: Any) -> tuple[float, float, float]:
    """Run a function in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return tuple(pool.apply(function, arguments))


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ.update(launch.LOCAL_ENV)  # the allocator settings of a task
    with tempfile.TemporaryDirectory() as folder:
        broker = KafkaBroker(Path(folder) / "kafka")
        broker.start()
        try:
            fill(broker.bootstrap, options.records)
            figures: dict[str, list[tuple[float, float, float]]] = {"bare loop": [], **{name: [] for name in POLLS}}
            for _ in range(options.rounds):
                figures["bare loop"].append(in_new_process(bare_loop, broker.bootstrap, options.records))
                for name, more in POLLS.items():
                    figures[name].append(in_new_process(poll, broker.connection_extra, options.records, more))
        finally:
            broker.stop()
    print(f"{options.records:,} records of one partition")
    for name, rows in figures.items():
        show(name, [wall for wall, _, _ in rows], "s")
        show("  CPU", [cpu for _, cpu, _ in rows], "s")
        ratios = [wall / bare for (wall, _, _), (bare, _, _) in zip(rows, figures["bare loop"], strict=True)]
        show("  ratio to the bare loop", ratios, "x")
        show("  peak memory of the process", [peak for _, _, peak in rows], "MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
