"""Producers that count their records and limit the memory of unacknowledged records."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.kafka.connection import make_producer
from airflow_provider_connect.clients.kafka.errors import ClientErrors, classify, translate_kafka_errors
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.patience import Patience

if TYPE_CHECKING:
    from confluent_kafka import Producer

QUEUE_KBYTES = 48 * 1024
"""Limit of unacknowledged data."""
QUEUE_RECORDS = 100_000
"""Limit of unacknowledged records. librdkafka uses about 600 bytes for each with headers."""
_POLL_SECONDS = 0.1
_DEFAULTS = {
    "linger.ms": 20,
    "compression.type": "lz4",
    "partitioner": "murmur2_random",  # as Java's clients choose
}

Headers = list[tuple[str, str | bytes | None]]


def headers_size_bytes(headers: Headers) -> int:
    """Return the size of a record's headers."""
    return sum(len(name) + len(value or b"") for name, value in headers)


class Outbox:
    """Producer that counts accepted records."""

    def __init__(self, connection: Connection, timeout_seconds: float, settings: dict[str, Any]) -> None:
        bounds = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 4 * QUEUE_KBYTES}
        self.client_errors = ClientErrors()
        self.timeout_seconds = timeout_seconds
        self.accepted_records = 0
        self._queued: deque[tuple[int, int]] = deque()
        self._queued_records = self._queued_bytes = 0
        self._producer: Producer = make_producer(connection, self.client_errors, _DEFAULTS, **(bounds | settings))

    def send_batch(self, topic: str, records: list[dict[str, Any]], size_bytes: int) -> None:
        """Send records of one topic (``key`` and ``value`` each) in order. Waits until the queue has room for all.

        ``produce_batch`` on a full queue may skip a record and accept later ones.

        :param size_bytes: size of all keys and values.
        """
        self.wait_for_room(len(records), size_bytes)
        while records:
            with self.translate_send_errors(topic):
                accepted = self._producer.produce_batch(topic, records)
                self.accepted_records += accepted
                records = _unsent_records(records, accepted)
            if records:
                self._wait_for_fewer()

    def send(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, partition: int | None = None
    ) -> None:
        """Send one record. Waits while the queue is full."""
        self.wait_for_room(1, len(key or b"") + len(value or b"") + headers_size_bytes(headers))
        self._produce(topic, value, key, -1 if partition is None else partition, headers=headers)
        self.accepted_records += 1

    def _produce(self, topic: str, *record: Any, **fields: Any) -> None:
        while True:
            try:
                with self.translate_send_errors(topic):
                    self._producer.produce(topic, *record, **fields)
            except BufferError:  # confluent-kafka's exception for _QUEUE_FULL
                self._wait_for_fewer()
            else:
                return

    def send_with_headers(  # noqa: PLR0917  # as many as a record has fields
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[Headers],
        timestamps: Sequence[int],
        partitions: Sequence[int],
        size_bytes: int,
    ) -> None:
        """Send records of one topic with fields that ``produce_batch`` does not accept.

        :param size_bytes: size of all keys and values. Header sizes are estimated from the first record.
        """
        self.wait_for_room(len(values), size_bytes + (len(values) * headers_size_bytes(headers[0]) if values else 0))
        produce = self._producer.produce
        with self.translate_send_errors(topic):
            records = zip(keys, values, headers, timestamps, partitions, strict=True)
            for key, value, record_headers, timestamp, partition in records:
                try:
                    produce(topic, value, key, partition, headers=record_headers, timestamp=timestamp)
                except BufferError:
                    self._produce(topic, value, key, partition, headers=record_headers, timestamp=timestamp)
        self.accepted_records += len(values)

    def wait_for_room(self, records: int, size_bytes: int) -> None:
        """Wait until the queue has room for the next records.

        :param size_bytes: size of all keys, values and headers.
        """
        allowed_bytes = max(0, QUEUE_KBYTES * 1024 - size_bytes)
        self._wait(lambda: len(self._producer) + records <= QUEUE_RECORDS and self._waiting_bytes() <= allowed_bytes)
        self._queued.append((records, size_bytes))
        self._queued_records += records
        self._queued_bytes += size_bytes

    def _waiting_bytes(self) -> int:
        waiting = len(self._producer)
        while self._queued and self._queued_records - self._queued[0][0] >= waiting:
            records, size_bytes = self._queued.popleft()
            self._queued_records -= records
            self._queued_bytes -= size_bytes
        return self._queued_bytes

    def _wait_for_fewer(self) -> None:
        waiting = len(self._producer)
        self._wait(lambda: len(self._producer) < waiting)

    def require_time_left(self, sent_records: int, total_records: int) -> None:
        """Check that a transaction's time is not nearly over."""

    def flush(self) -> None:
        """Wait until the broker has acknowledged or refused every record.

        :raises RetriableError: the broker took no record for ``timeout_seconds``.
        """
        self._wait(lambda: not len(self._producer), self._producer.flush)

    def _wait(self, is_done: Callable[[], bool], poll: Callable[[float], int] | None = None) -> None:
        if is_done():
            return
        waiting, patience = len(self._producer), Patience(self.timeout_seconds)
        while not is_done():
            with self.translate_send_errors():
                (poll or self._producer.poll)(_POLL_SECONDS)
            if len(self._producer) < waiting:
                waiting = len(self._producer)
                patience.restart()
            elif patience.is_over:
                message = f"the broker took none of {waiting:,} records for {self.timeout_seconds:.0f} s"
                raise self.client_errors.lasting_error("sending") or RetriableError(f"{message}. The task is retried")

    @contextlib.contextmanager
    def translate_send_errors(self, topic: str | None = None) -> Iterator[None]:
        """Convert errors of confluent-kafka that the block raises."""
        from confluent_kafka import KafkaException

        with translate_kafka_errors(f"sending to topic {topic!r}" if topic else "sending", self.client_errors):
            try:
                yield
            except KafkaException as error:
                self.raise_cause(error)
                raise

    def raise_cause(self, error: Exception) -> None:
        """Raise the error behind ``error``, if there is one."""


def _unsent_records(records: list[dict[str, Any]], accepted: int) -> list[dict[str, Any]]:
    """Return the unsent records, which must be the last ones, to keep the order.

    :raises KafkaException: the client refused a record.
    :raises RetriableError: the client skipped records in the middle.
    """
    from confluent_kafka import KafkaError, KafkaException

    if accepted == len(records):
        return []
    errors = [record.pop("_error") for record in records[accepted:] if "_error" in record]
    if len(errors) == len(records) - accepted and all(error.code() == KafkaError._QUEUE_FULL for error in errors):
        return records[accepted:]
    errors = [record["_error"] for record in records if "_error" in record] + errors
    if not errors:
        raise RetriableError(
            "the client skipped records without an error. Nothing is committed, and the day is retried"
        )
    raise KafkaException(errors[0])


class AcknowledgedOutbox(Outbox):
    """Producer without transactions that counts acknowledged records."""

    def __init__(self, connection: Connection, timeout_seconds: float, settings: dict[str, Any]) -> None:
        self._delivered = 0
        self._first_error: Any = None
        # librdkafka's own timeout would include the time that records wait behind others on a slow line.
        overrides = {"on_delivery": self._count_delivery, "message.timeout.ms": 0}
        super().__init__(connection, timeout_seconds, settings | overrides)

    def _count_delivery(self, error: Any, _: Any) -> None:
        self._delivered += error is None
        self._first_error = self._first_error or error

    def flush(self) -> None:
        """Wait until the broker has acknowledged every record.

        :raises ConnectError: the broker refused one.
        """
        from confluent_kafka import KafkaException

        try:
            super().flush()
        except SystemError as error:  # raised by confluent-kafka if a fatal error occurs in a callback
            raise RetriableError("the client failed while sending. The next attempt sends the day again") from error
        if self._first_error is not None:
            raise classify(KafkaException(self._first_error), "sending", self.client_errors)
        if self._delivered != self.accepted_records:
            raise RetriableError(
                f"{self._delivered:,} of {self.accepted_records:,} records were acknowledged. The next attempt sends "
                "the day again"
            )
