"""Single records that are not part of any transaction, each written before the next step is taken."""

from __future__ import annotations

from typing import Any

from airflow_provider_connect.clients.kafka.connection import producer
from airflow_provider_connect.clients.kafka.errors import Heard, classify, kafka_errors
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.patience import Patience

_POLL_SECONDS = 0.05


class Notes:
    """Writes records one by one; from several threads, too.

    A record that is written twice is the same record to whoever reads it, and an idempotent producer would first have
    to get its id, which takes half a second.
    """

    def __init__(self, connection: Connection, topic: str, timeout_seconds: float) -> None:
        self.topic = topic
        self.timeout_seconds = timeout_seconds
        self._heard = Heard()
        own = {"enable.idempotence": False, "linger.ms": 0, "message.timeout.ms": int(timeout_seconds * 1000)}
        self._producer = producer(connection, self._heard, **own)

    def write(self, key: bytes, value: bytes | None) -> None:
        """Write a record; return when all replicas in sync have it.

        :raises ConnectError: they have not.
        """
        from confluent_kafka import KafkaException

        outcome: list[Any] = []
        doing = f"writing to topic {self.topic!r}"
        with kafka_errors(doing, self._heard):
            self._producer.produce(self.topic, value, key, on_delivery=lambda error, _: outcome.append(error))
            patience = Patience(self.timeout_seconds + 1.0)
            while not outcome and not patience.is_over:
                self._producer.poll(_POLL_SECONDS)
        if not outcome:
            raise RetriableError(f"{doing}: no answer for {self.timeout_seconds:.0f} s")
        if outcome[0] is not None:
            raise classify(KafkaException(outcome[0]), doing, self._heard)
