"""Thirty days at sixteen at once into one topic, with turns beside without: from first trigger to last success.

Each day is published by a process of its own that starts cold, as an Airflow task's does (Spark's own start and the
poll are left out, so the real ratio is nearer to 1), and then again by sixteen that are warm. Rounds alternate; each
figure is the median with the least and the greatest.
"""

from __future__ import annotations

import argparse
import datetime as dt
import multiprocessing
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from day import show

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sink import Intent, Publish, StreamKey
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.stage.manifest import Manifest, PollResult, data_file
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import ONE_DAY, Day
from tests.standins.kafka_broker import KafkaBroker

KEY = StreamKey(connector="benchmark", stream="events")
FIRST = dt.date(2026, 1, 1)
SCHEMA = pa.schema([("record_key", pa.string()), ("event", pa.string()), ("n", pa.int64()), ("text", pa.string())])
PARTITIONS = 3
TIMEOUT_SECONDS = 60


def staged(root: str, date: dt.date, rows: int) -> Publish:
    """Freeze a day."""
    day, attempt = Day(date=date), f"{date:%Y%m%d}0000000-1-{date:%Y%m%d}"
    columns = [
        [f"{date}-{n}" for n in range(rows)],
        ["signup"] * rows,
        range(rows),
        [f"{n:0100d}" for n in range(rows)],
    ]
    with RowWriter(Folder(root), data_file(day, attempt, 0, "0"), SCHEMA) as writer:
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        writer.write(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    assert writer.file is not None
    polled = PollResult(files=(writer.file,), rows_read=rows, rows_written=rows)
    manifest = Manifest(day=day, attempt=attempt, fingerprint="f", polled=polled)
    intent = Intent(token=f"{date}", run="dag/run/task")
    return Publish(key=KEY, day=day, intent=intent, manifest=manifest, schema=SCHEMA, stage=root)


def publish(options: dict[str, Any], connection: Connection, one: Publish) -> float:
    """Publish a day as driver and executor do together; return its seconds."""
    started = time.perf_counter()
    with KafkaSink.from_options(options).open(KEY, {"kafka_default": connection}) as publisher:
        token = publisher.begin(one)
        shares = publisher.shares(one.manifest.polled.files)
        row = publisher.commit(one, token, [publisher.put(token, one.stage, share) for share in shares])
    assert row.generation == 1
    return time.perf_counter() - started


def nothing(_: int) -> None:
    """Import what a publish does."""
    from airflow_provider_connect.sinks._kafka import publisher as _kafka_publisher  # noqa: F401

    time.sleep(0.2)


def run(options: dict[str, Any], connection: Connection, days: list[Publish], at_once: int, *, warm: bool) -> float:
    """Publish all days; return the seconds until the last one is published."""
    context = multiprocessing.get_context("spawn")
    started = time.perf_counter()
    with context.Pool(at_once, maxtasksperchild=None if warm else 1) as pool:
        if warm:
            pool.map(nothing, range(at_once * 2), chunksize=1)
            started = time.perf_counter()
        pool.starmap(publish, [(options, connection, one) for one in days], chunksize=1)
        return time.perf_counter() - started


def main() -> int:
    """Run the rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--rows", type=int, default=50_000, help="of a day")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", choices=["cold", "warm", "both"], default="both")
    options = parser.parse_args()
    kinds = ("cold", "warm") if options.kinds == "both" else (options.kinds,)
    with tempfile.TemporaryDirectory() as folder:
        days = [staged(f"{folder}/stage", FIRST + ONE_DAY * number, options.rows) for number in range(options.days)]
        broker = KafkaBroker(Path(folder) / "kafka")
        broker.start()
        try:
            connection = Connection(conn_id="kafka_default", conn_type="kafka", extra=broker.connection_extra)
            for kind in kinds:
                seconds: dict[str, list[float]] = {"topic": [], "off": []}
                for turn in range(options.rounds):
                    for turns in ("off", "topic") if turn % 2 else ("topic", "off"):
                        name = f"{kind}-{turn}-{turns}"
                        given = {"topic": name, "ledger_topic": f"{name}-ledger", "turns": turns}
                        given |= {"partitions": PARTITIONS, "timeout_seconds": TIMEOUT_SECONDS}
                        publisher = KafkaSink.from_options(given).open(KEY, {"kafka_default": connection})
                        assert publisher.preflight(SCHEMA, (), "day") == []
                        warm = kind == "warm"
                        seconds[turns].append(run(given, connection, days, options.at_once, warm=warm))
                print(f"{kind}: {options.days} days of {options.rows:,} rows, {options.at_once} at once")
                show("turns='topic'", seconds["topic"], "s")
                show("turns='off'", seconds["off"], "s")
                show("ratio", [mine / other for mine, other in zip(seconds["topic"], seconds["off"], strict=True)], "x")
                medians = statistics.median(seconds["topic"]) / statistics.median(seconds["off"])
                print(f"  ratio of the medians: {medians:.2f}")
        finally:
            broker.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
