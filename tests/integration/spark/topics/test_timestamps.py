"""Days by the records' timestamps: a real broker, producers' clocks and brokers'."""

from __future__ import annotations

import datetime as dt
import json
import time
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, TopicPartition
from confluent_kafka.admin import NewTopic
from deltalake import DeltaTable

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources._kafka.timestamp_poller import TimestampPoller
from airflow_provider_connect.sources.kafka import KafkaSource
from airflow_provider_connect.window import Day
from tests.equipment.kafka.loads import Loads, Topic

pytestmark = pytest.mark.slow

FIRST, SECOND = "2026-11-01", "2026-11-02"


def write(topic: Topic, number: int, instant: str, partition: int = 0) -> None:
    milliseconds = int(dt.datetime.fromisoformat(f"{instant}+00:00").timestamp() * 1000)
    value = json.dumps({"id": number}).encode()
    topic.producer.produce(topic.name, value, str(number), partition=partition, timestamp=milliseconds)
    assert topic.producer.flush(30) == 0


def days_of(loads: Loads) -> dict[str, list[int]]:
    days: dict[str, list[int]] = {}
    for row in DeltaTable(str(loads.submit.table)).to_pyarrow_table(columns=["day", "id"]).to_pylist():
        days.setdefault(str(row["day"]), []).append(row["id"])
    return {day: sorted(ids) for day, ids in days.items()}


def load(loads: Loads, day: str, **source: Any) -> Any:
    return loads.load(day=day, read_by="timestamp", **source).report.days[0]


def test_records_in_any_order_come_to_their_day_and_late_ones_are_counted(loads: Loads, topic: Topic) -> None:
    write(topic, 1, "2026-10-31T23:59:59.999")
    write(topic, 2, "2026-11-01T00:00:00")
    write(topic, 3, "2026-11-20T00:00:00", partition=1)  # a clock that goes wrong hides nothing
    write(topic, 4, "2026-11-01T12:00:00", partition=1)
    write(topic, 5, "2026-11-02T08:00:00")
    write(topic, 6, "2026-11-01T23:59:59.999")
    load(loads, FIRST)
    load(loads, SECOND)
    assert days_of(loads) == {FIRST: [2, 4, 6], SECOND: [5]}
    write(topic, 8, "2026-11-05T00:00:00")
    write(topic, 7, "2026-11-01T06:00:00")
    report = load(loads, FIRST)
    assert days_of(loads)[FIRST] == [2, 4, 6, 7]
    assert (report.rows_written, report.generation) == (4, 2)
    assert report.counts["late_1_days"] == 2, "7 stands behind a record of 5 November, and 4 behind the wrong clock's"


def test_zones_decide_and_an_open_transaction_is_waited_for(loads: Loads, topic: Topic) -> None:
    write(topic, 1, "2026-11-01T22:59:59")
    write(topic, 2, "2026-11-01T23:00:00")
    load(loads, SECOND, zone="Europe/Berlin")
    assert days_of(loads) == {SECOND: [2]}
    pending = topic.transaction(10)
    message = loads.refusal(day=SECOND, read_by="timestamp", zone="Europe/Berlin", retry_budget_seconds=0)
    assert "a transaction is open at offset" in message
    pending.abort_transaction(30)
    load(loads, SECOND, zone="Europe/Berlin")


def test_brokers_timestamps_end_the_reading(topic: Topic, kafka_connection: Connection) -> None:
    name = f"{topic.name}-append"
    settings = {"message.timestamp.type": "LogAppendTime"}
    for future in topic.admin.create_topics([NewTopic(name, 1, 1, config=settings)]).values():
        future.result(30)
    topic.producer.produce(name, b'{"id": 1}', timestamp=1)
    assert topic.producer.flush(30) == 0
    consumer = Consumer(topic.settings | {"group.id": name})
    consumer.assign([TopicPartition(name, 0, 0)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    kind, milliseconds = message.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert abs(milliseconds / 1000 - time.time()) < 60
    today = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).date()
    poller = TimestampPoller(KafkaSource(topics=[name], read_by="timestamp"), kafka_connection)
    assert len(poller.plan([Day(date=today - dt.timedelta(days=2))])) == 0, "the record came more than an hour later"
    with pytest.raises(ConfigError, match="is not over yet"):
        poller.plan([Day(date=today)])
