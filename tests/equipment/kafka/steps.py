"""What driver and executors do with a Kafka sink, step by step."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

from airflow_provider_connect.sink import Connections, Publish
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.window import Day
from tests.equipment.frozen import KEY, MONDAY, SCHEMA


class Steps:
    """The steps of a sink that has its connections."""

    sink: KafkaSink
    connections: Connections
    schema: pa.Schema = SCHEMA

    @property
    def publisher(self) -> Any:
        """A new publisher for each step, as driver and executors have."""
        return self.sink.open(KEY, self.connections)

    @property
    def ledger(self) -> Any:
        return self.publisher.ledger

    def preflight(self, *days: dt.date) -> list[str]:
        return self.publisher.preflight(self.schema, [Day(date=day) for day in days or [MONDAY]], "day")

    def begin(self, staged: Publish) -> Any:
        return self.publisher.begin(staged)

    def put(self, token: Any, staged: Publish, *numbers: int) -> list[Any]:
        """Send shares, all of them unless numbers are given."""
        shares = self.publisher.shares(staged.manifest.polled.files)
        chosen = [shares[number] for number in numbers] or shares
        return [self.publisher.put(token, staged.stage, share) for share in chosen]
