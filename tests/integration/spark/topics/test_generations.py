"""Topics that our own sink wrote, read by day and newest generation."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.job import JobReport
from tests.integration.conftest import Submitter

pytestmark = pytest.mark.slow

MONDAY, TUESDAY = "2026-11-02", "2026-11-03"
NUMBERS = itertools.count(1)


class Relay:
    """Mixpanel's days into a topic, and the topic's days into a table."""

    def __init__(self, submit: Submitter, target: Any, connection: Connection) -> None:
        self.submit, self.target, self.connection = submit, target, connection
        self.sink: dict[str, Any] = {
            "topic": target.sink.topic,
            "ledger_topic": target.sink.ledger_topic,
            "key_fields": ["event"],
        }
        self.source: dict[str, Any] = {
            "topics": [target.sink.topic],
            "ledger_topic": target.sink.ledger_topic,
            "read_by": "generation",
            "columns": {"event": "string", "properties": "json"},
            "records_per_task": 1_000,
        }

    def publish(self, *days: str, **sink: Any) -> None:
        submit = self.submit
        submit.source_name, submit.sink_name, submit.sink_connections = "mixpanel", "kafka", self.target.connections
        submit.staging.mkdir(exist_ok=True)
        report = self._drive(list(days), source={"stream": "export"}, sink=self.sink | sink)
        assert report.exit_code == 0, report

    def read(self, day: str, **source: Any) -> JobReport:
        submit = self.submit
        submit.source_name, submit.sink_name, submit.sink_connections = "kafka", "delta", {}
        return self._drive(
            [day], source=self.source | source, sink={"path": str(submit.table)}, connection=self.connection
        )

    def _drive(self, days: list[str], **options: Any) -> JobReport:
        number = next(NUMBERS)
        self.submit.sink_options = dict  # type: ignore[method-assign]
        return self.submit.here(days, run=f"dag/run-{number}/task", token=uuid.uuid4().hex, **options).report

    def load(self, day: str, **source: Any) -> None:
        report = self.read(day, **source)
        assert report.exit_code == 0, report

    def refusal(self, day: str, **source: Any) -> str:
        report = self.read(day, retry_budget_seconds=0, **source)
        assert report.failure is not None
        return str(report.failure.message)


@pytest.fixture
def relay(submit: Submitter, kafka_target: Any, kafka_connection: Connection) -> Iterator[Relay]:
    return Relay(submit, kafka_target, kafka_connection)


def test_a_day_is_its_newest_generation_and_a_reload_replaces_it(relay: Relay) -> None:
    submit = relay.submit
    relay.publish(MONDAY)
    relay.publish(TUESDAY)
    relay.load(MONDAY)
    relay.load(TUESDAY)
    assert submit.rows() == submit.served([MONDAY, TUESDAY])
    tuesday = submit.served([TUESDAY])
    submit.standin.project = replace(submit.standin.project, seed=4)
    relay.publish(MONDAY)
    relay.load(MONDAY)
    assert submit.rows() == submit.served([MONDAY]) | tuesday, "the rows of the first generation are gone"
    assert "is not published yet" in relay.refusal("2026-11-04")
    message = relay.refusal(MONDAY, published_stream="mixpanel/other")
    assert "published_stream='mixpanel/other' is not in topic" in message


def test_records_without_headers_are_a_day_if_they_stand_alone(relay: Relay) -> None:
    relay.publish(MONDAY, headers=False)
    relay.load(MONDAY)
    assert relay.submit.rows() == relay.submit.served([MONDAY])


def test_a_day_whose_records_are_gone_is_refused(relay: Relay) -> None:
    relay.publish(MONDAY)
    relay.load(MONDAY)
    admin = AdminClient({"bootstrap.servers": relay.target.bootstrap})
    for future in admin.delete_records([TopicPartition(relay.target.sink.topic, 0, 3)]).values():
        future.result(30)
    assert "lacks records of day 2026-11-02" in relay.refusal(MONDAY)
    assert relay.submit.rows() == relay.submit.served([MONDAY])
