"""Publishes of a staged day into a real broker on the same cores, beside curl, a bare client and Kafka's Java producer.

curl reads the same day (``curl --compressed``). ``ProducerPerformance``, which comes with Kafka, writes as many records
in one transaction, with the same compression, batches and topic settings; they are those that the sink writes, as its
own random text would compress worse. The bare client is confluent-kafka with the same settings, which sends the same
ready-made values one by one in one transaction. Rounds alternate, each figure is the median with the least and the
greatest. The rules of ``day.py`` hold. ``--times 10`` publishes the staged day ten times over as one day, for
its memory.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer
from day import DAYS, Bench, show, standin
from staged_day import KEY, in_new_process, publish_of, stage_day

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.stage.manifest import PollResult
from tests.standins.kafka_broker import KafkaBroker, class_path, fetch_jars, fetched, java

PARTITIONS = 3


class Published(NamedTuple):
    """One staged day, published in a warm process; seconds of ``put`` are those of its transaction."""

    seconds: float
    put_seconds: float
    cpu_seconds: float
    peak_mb: float


def publish(options: dict[str, Any], connection: Connection, stage: str, polled: PollResult) -> Published:
    """Publish a staged day, as driver and executor do together."""
    sink = KafkaSink.from_options(options)
    publisher = sink.open(KEY, {sink.conn_id: connection})
    job = publish_of(stage, polled, 1)
    problems = publisher.preflight(job.schema, (), "day")
    assert problems == [], problems
    cpu, started = time.process_time(), time.perf_counter()
    token = publisher.begin(job)
    putting = time.perf_counter()
    receipts = [publisher.put(token, stage, files) for files in publisher.shares(polled.files)]
    put_seconds = time.perf_counter() - putting
    row = publisher.commit(job, token, receipts)
    seconds = time.perf_counter() - started
    assert row.rows == polled.rows_written, (row.rows, polled.rows_written)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Published(seconds, put_seconds, time.process_time() - cpu, peak_mb)


def values_of(stage: str, polled: PollResult, path: Path, most: int = 50_000) -> None:
    """Write values as the sink writes them, a line each, for the Java producer to choose from."""
    from airflow_provider_connect.sinks._kafka.converters import make_converter
    from airflow_provider_connect.stage.rows import read_batches

    made = make_converter("json", publish_of(stage, polled, 1).schema, DAYS[0], record_name="r")
    left = most
    with path.open("wb") as file:
        for staged in polled.files:
            for _, batch in read_batches(stage, staged.path, 1_000_000):
                for value in made.encode(batch, None).values[:left]:
                    file.write((value or b"") + b"\n")
                left -= min(left, batch.num_rows)
                if not left:
                    return


def java_producer(broker: KafkaBroker, tools: Path, topic: str, payload: Path, records: int) -> float:
    """Return the seconds that Kafka's own performance tool takes for the records, the start of its Java apart."""
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "compression.type": "lz4",
        "linger.ms": "20",
        "batch.size": "1000000",
        "buffer.memory": "134217728",
        "transaction.timeout.ms": "900000",
        "transactional.id": f"java-{topic}",
        "acks": "all",
    }
    command = [str(java()), "-Xmx512m", "-cp", f"{tools}/jars/*:{class_path(fetched())}"]
    command += ["org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", str(records)]
    command += ["--throughput", "-1", "--payload-file", str(payload), "--payload-delimiter", "\\n"]
    command += ["--transaction-duration-ms", "900000", "--producer-props", *(f"{k}={v}" for k, v in settings.items())]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    lines = [line for line in said.stdout.splitlines() if "records sent" in line]
    assert said.returncode == 0, said.stderr[-2000:] + said.stdout[-2000:]
    assert lines, said.stdout[-2000:]
    rate = float(lines[-1].split(" records/sec")[0].split(",")[-1])
    return records / rate


def bare_client(broker: KafkaBroker, topic: str, payload: Path, records: int) -> float:
    """Return the seconds of confluent-kafka's own loop for as many records, without rows, keys and ledger."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "compression.type": "lz4",
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 131_072,
            "transaction.timeout.ms": 900_000,
            "transactional.id": f"bare-{topic}",
            "acks": "all",
        }
    )
    values = payload.read_bytes().splitlines()
    producer.init_transactions(60)
    started = time.perf_counter()
    producer.begin_transaction()
    for value in itertools.islice(itertools.cycle(values), records):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.05)
    producer.commit_transaction(300)
    return time.perf_counter() - started


def measure(bench: Bench, broker: KafkaBroker, tools: Path, rounds: int, times: int, *, headers: bool) -> None:
    """Publish one staged day a few times beside curl and the Java producer."""
    connection = Connection(conn_id="kafka_default", conn_type="kafka", extra=broker.connection_extra)
    stage = str(bench.folder / f"stage-{headers}")
    payload = bench.folder / "payload.txt"
    polls, curls, done, theirs, bare = [], [], [], [], []
    for turn in range(rounds + 1):
        topic = f"events-{headers}-{turn}".lower()
        options = {"topic": topic, "partitions": PARTITIONS, "headers": headers, "replication_factor": 1}
        curl = bench.curl(DAYS[0])
        poll_seconds, polled = stage_day(bench, stage)
        polled = PollResult.total([polled] * times)
        if not turn:
            values_of(stage, polled, payload)
        one = in_new_process(publish, options, connection, stage, polled)
        schema = publish_of(stage, polled, 1).schema
        with KafkaSink.from_options(options | {"topic": f"{topic}-java"}).open(
            KEY, {"kafka_default": connection}
        ) as publisher:
            publisher.preflight(schema, (), "day")
        bare_seconds = bare_client(broker, f"{topic}-java", payload, polled.rows_written)
        their_seconds = java_producer(broker, tools, f"{topic}-java", payload, polled.rows_written)
        if turn:  # the first one makes the ledger, and the broker's Java compiles what it needs
            polls.append(poll_seconds)
            curls.append((curl + bench.curl(DAYS[0])) / 2)
            done.append(one)
            theirs.append(their_seconds)
            bare.append(bare_seconds)
    print(f"headers={headers}: {polled.rows_written:,} rows, {PARTITIONS} partitions, one transaction, lz4")
    pairs = list(zip(done, curls, theirs, strict=True))
    show("curl --compressed", curls, "s")
    show("ProducerPerformance (Java), the same records", theirs, "s")
    show("confluent-kafka alone, ready-made values", bare, "s")
    show("publish, warm: wall", [each.seconds for each in done], "s")
    show("  of which put (its transaction)", [each.put_seconds for each in done], "s")
    show("  CPU of the client", [each.cpu_seconds for each in done], "s")
    show("  rows/s in put, thousands", [polled.rows_written / each.put_seconds / 1000 for each in done], "")
    show("  ratio to curl", [each.seconds / curl for each, curl, _ in pairs], "x")
    show("  speed, ratio to ProducerPerformance", [java_s / each.seconds for each, _, java_s in pairs], "x")
    show("  wall, ratio to confluent-kafka alone", [each.seconds / b for each, b in zip(done, bare, strict=True)], "x")
    with_poll = [(poll + each.seconds) / curl for each, curl, poll in zip(done, curls, polls, strict=True)]
    show("  poll included, ratio to curl", with_poll, "x")
    show("  peak memory of the process", [each.peak_mb for each in done], "MB")


def main() -> int:
    """Run the rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=500_000, help="events of a day")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--times", type=int, default=1, help="publish the staged day so many times over as one day")
    parser.add_argument("--headers", choices=["both", "with", "without"], default="both")
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "connect-benchmark", help="keeps the made days"
    )
    options = parser.parse_args()
    tools = options.cache / "kafka-tools"
    if not (tools / "jars").exists():
        tools.mkdir(parents=True)
        fetch_jars("kafka-tools", tools)
    with tempfile.TemporaryDirectory() as folder:
        broker = KafkaBroker(Path(folder) / "kafka")
        broker.start()
        try:
            with standin(options.events, DAYS[:1], options.cache) as url:
                for headers in {"both": (False, True), "with": (True,), "without": (False,)}[options.headers]:
                    measure(Bench(url, Path(folder)), broker, tools, options.rounds, options.times, headers=headers)
        finally:
            broker.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
