"""The demo's BigQuery and Kafka: fetched, started, asked, and ended."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import socket
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from google.cloud.bigquery import Table

from tests.demo.bigquery_target import BigQueryTarget
from tests.demo.kafka_target import LEDGER, TOPIC, KafkaTarget
from tests.standins.bigquery_emulator import BigQueryEmulator
from tests.standins.kafka_reader import Reader

pytestmark = pytest.mark.slow

ROWS = """
INSERT INTO analytics.mixpanel_events (day, time, event, distinct_id, properties)
SELECT DATE '2026-09-01', TIMESTAMP_ADD(TIMESTAMP '2026-09-01', INTERVAL n HOUR), CONCAT('e', CAST(n AS STRING)), 'u',
       PARSE_JSON('{"b": 1, "a": [2]}')
FROM UNNEST([3, 2, 1, 0]) AS n
"""


def test_target_counts_and_shows_what_a_table_holds(tmp_path: Path):
    target = BigQueryTarget(tmp_path)
    try:
        assert target.emulator.rest_url in target.start(dict(os.environ))
        assert target.rows() == 0
        with contextlib.closing(target.emulator.client()) as client:
            columns = {"day": "DATE", "time": "TIMESTAMP", "event": "STRING", "distinct_id": "STRING"}
            fields = [{"name": name, "type": kind} for name, kind in (columns | {"properties": "JSON"}).items()]
            reference = {"projectId": target.emulator.project, "datasetId": "analytics", "tableId": "mixpanel_events"}
            made = Table.from_api_repr({"tableReference": reference, "schema": {"fields": fields}})
            client.create_table(made, timeout=30)
        target.emulator.query(ROWS)
        assert target.rows() == 4
        assert sorted(target.events()) == [(dt.date(2026, 9, 1), f"e{n}", '{"b":1,"a":[2]}') for n in range(4)]
        assert [row[2] for row in target.sample()] == ["e0", "e1", "e2"]
        assert target.emulator.tables("analytics") == ["mixpanel_events"]
    finally:
        target.emulator.stop()


def test_an_emulator_that_cannot_start_says_why_and_leaves_no_process(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        emulator = BigQueryEmulator(log=tmp_path / "emulator.log", rest_port=taken.getsockname()[1])
        with pytest.raises(RuntimeError, match=r"did not start; the end of .*emulator.log"):
            emulator.start()
    asked_for = str(emulator.rest_port)
    assert not [each for each in psutil.process_iter(["cmdline"]) if asked_for in (each.info["cmdline"] or ())]


DAY, OTHER = "2026-09-01", "2026-09-02"


def send(target: KafkaTarget, day: str, generation: int, events: list[str]) -> Producer:
    """Send what the sink would, the ledger's record too; return the producer with its transaction open."""
    producer = Producer({**target.broker.connection_extra, "transactional.id": f"{day}-{generation}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    places: list[tuple[int, int]] = []
    for event in events:
        value = json.dumps({"day": day, "event": event, "properties": {"b": 1, "a": [2]}})
        told = {"connector": "mixpanel", "stream": "export", "day": day, "generation": str(generation)}
        headers = [(f"connect.{name}", text.encode()) for name, text in told.items()]
        producer.produce(
            TOPIC, value.encode(), event.encode(), headers=headers,
            on_delivery=lambda _, sent: places.append((sent.partition(), sent.offset())),
        )  # fmt: skip
    assert producer.flush(30) == 0
    spans = {part: [offset for p, offset in places if p == part] for part, _ in places}
    offsets = {TOPIC: {part: (min(found), max(found) + 1) for part, found in spans.items()}}
    row = {"generation": generation, "rows": len(events), "run": "dag/run/task", "token": f"{day}-{generation}"}
    entry = {"row": row, "offsets": offsets}
    producer.produce(LEDGER, json.dumps(entry), json.dumps(["mixpanel", "export", TOPIC, day, "day"]))
    assert producer.flush(30) == 0
    return producer


def test_kafka_target_counts_and_shows_committed_records_of_the_newest_generation(tmp_path: Path):
    target = KafkaTarget(tmp_path)
    try:
        assert target.broker.bootstrap in target.start(dict(os.environ))
        assert (target.rows(), target.sample()) == (0, [])
        admin = AdminClient(target.broker.connection_extra)
        made = admin.create_topics([NewTopic(TOPIC, -1), NewTopic(LEDGER, 1)])
        assert [future.result(10) for future in made.values()] == [None, None]
        send(target, DAY, 1, ["e0", "e1", "old"]).commit_transaction(30)
        send(target, DAY, 2, ["e0", "e1"]).commit_transaction(30)
        send(target, OTHER, 1, ["e2"]).commit_transaction(30)
        days = {dt.date.fromisoformat(DAY): ["e0", "e1"], dt.date.fromisoformat(OTHER): ["e2"]}
        expected = [(day, event, '{"b": 1, "a": [2]}') for day, events in days.items() for event in events]
        assert sorted(target.events()) == expected
        still_open = send(target, OTHER, 2, ["not yet"])
        assert target.rows() == 3
        shown = target.sample()
        assert len(shown) == 3
        assert all("connect.generation=" in str(row) for row in shown)
        more = "\n".join(target.more())
        assert all(f"partition {partition}: 0 to" in more for partition in range(3))
        assert f"{DAY}: generation 2, 2 rows, by dag/run/task" in more

        with Reader(target.broker.bootstrap, TOPIC) as reader:
            assert len(list(reader.read())) == 6
            assert list(reader.read()) == []
            still_open.commit_transaction(30)
            assert [(record.day, record.generation) for record in reader.read()] == [(OTHER, 2)]
    finally:
        target.broker.stop()
