"""A ledger of 100,000 days: what the first question of a process costs, the next one, and each further day of a job."""

from __future__ import annotations

import argparse
import datetime as dt
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path

from day import show
from kafka_turns import KEY, SCHEMA, publish, staged

from airflow_provider_connect.clients.kafka.outbox import AcknowledgedOutbox
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks._kafka.ledger.records import Claim, DayEntry, LedgerKey
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.window import ONE_DAY
from tests.standins.kafka_broker import KafkaBroker

FIRST = dt.date(1700, 1, 1)
OPTIONS = {"topic": "events", "ledger_topic": "ledger", "partitions": 3}


def fill(connection: Connection, days: int, streams: int) -> None:
    """Write a day's record and its claim for every day, dealt out over streams."""
    columns = {f"a_column_with_a_name_{number}": "timestamp[us, tz=UTC]" for number in range(15)}
    outbox = AcknowledgedOutbox(connection, 60, {"compression.type": "lz4"})
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    for number in range(days):
        day = FIRST + ONE_DAY * (number // streams)
        stream = KEY.stream if number % streams == 0 else f"other-{number % streams}"
        key = LedgerKey(KEY.connector, stream, "events", day)
        row = LedgerRow(day=day, generation=1, token=f"{number:032x}", rows=1000, digest=f"{number:032x}",
                        run="dag/run/task", attempt=f"{number:016x}-1", counts={"rows_read": 1000, "rejected": 0},
                        published_at=at, reference=f"connect-{number:032x}")  # fmt: skip
        offsets = {"events": dict.fromkeys(range(3), (number * 1000, number * 1000 + 1000))}
        if number % streams == 0:
            offsets = {}  # the topic of this benchmark has none of those records, and the ledger would count as lost
        entry = DayEntry(row=row, offsets=offsets, columns=columns)
        claim = Claim(token=row.token, run="dag/run/task", attempt=f"{number:016x}-1", at=at)
        claimed = key._replace(kind="claim")
        outbox.send("ledger", claimed.encode(), claim.model_dump_json().encode(), [])
        outbox.send("ledger", key.encode(), entry.model_dump_json().encode(), [])
        if number % 1000 == 0:
            outbox.wait_for_room(2000, 3_000_000)
    outbox.flush()


def ask(connection: Connection, days: list[Publish]) -> tuple[float, float, list[float], float]:
    """Ask in a new process: return the seconds of the first question, of the next, of each day, and the peak in MB."""
    sink, connections = KafkaSink.from_options(OPTIONS), {"kafka_default": connection}
    from airflow_provider_connect.sinks._kafka import publisher as _kafka_publisher  # noqa: F401

    started = time.perf_counter()
    assert sink.open(KEY, connections).ledger.row(FIRST) is not None
    first = time.perf_counter() - started
    started = time.perf_counter()
    assert sink.open(KEY, connections).ledger.row(days[0].day.date) is None
    again = time.perf_counter() - started
    each = []
    for one in days:
        started = time.perf_counter()
        assert sink.open(KEY, connections).ledger.published(one.day.date, one.intent.token) is None
        publish(OPTIONS, connection, one)
        each.append(time.perf_counter() - started)
    return first, again, each, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    """Fill a ledger, ask it, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=100_000)
    parser.add_argument("--streams", type=int, default=1, help="that share the ledger")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = KafkaBroker(Path(folder) / "kafka")
        broker.start()
        try:
            connection = Connection(conn_id="kafka_default", conn_type="kafka", extra=broker.connection_extra)
            publisher = KafkaSink.from_options(OPTIONS).open(KEY, {"kafka_default": connection})
            assert publisher.preflight(SCHEMA, (), "day") == []
            fill(connection, options.days, options.streams)
            found = []
            for turn in range(options.rounds):
                dates = [dt.date(2026, 1 + turn, 1) + ONE_DAY * number for number in range(5)]
                days = [staged(f"{folder}/stage", date, 1000) for date in dates]
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    found.append(pool.apply(ask, (connection, days)))
            print(f"{options.days:,} days of {options.streams} streams in one ledger")
            show("first question of a process", [each[0] for each in found], "s")
            show("next question", [each[1] for each in found], "s")
            show("first day of a job, 1,000 rows", [each[2][0] for each in found], "s")
            show("each further day", [seconds for each in found for seconds in each[2][1:]], "s")
            show("peak memory of the process", [each[3] for each in found], "MB")
        finally:
            broker.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
