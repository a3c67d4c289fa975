"""Whether a topic holds records of a stream already: what tells a lost ledger from a new one."""

from __future__ import annotations

import time

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks._kafka_connection import consumer
from airflow_provider_connect.sinks._kafka_errors import Heard, kafka_errors
from airflow_provider_connect.sinks._kafka_records import is_of

_LOOK_BACK = 1000
"""Records at each partition's end: markers of transactions and aborted records may lie behind the last one."""
_POLL_SECONDS = 0.1


def has_records_of(connection: Connection, topic: str, key: StreamKey, timeout_seconds: float) -> bool:
    """Tell whether the last records of a topic carry this stream's headers; those without headers do not tell.

    :raises RetriableError: a transaction that is open there hides the end, or the broker is away.
    """
    from confluent_kafka import KafkaError, TopicPartition

    heard = Heard()
    reader = consumer(connection, heard, **{"fetch.wait.max.ms": 10})
    try:
        with kafka_errors(f"reading the end of topic {topic!r}", heard):
            partitions = reader.list_topics(topic, timeout=timeout_seconds).topics[topic].partitions
            starts = []
            for partition in partitions:
                low, high = reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout_seconds)
                starts.append(TopicPartition(topic, partition, max(low, high - _LOOK_BACK)))
            reader.assign(starts)
            open_partitions, deadline = set(partitions), time.monotonic() + timeout_seconds
            while open_partitions:
                if time.monotonic() > deadline:
                    raise RetriableError(
                        f"the end of topic {topic!r} could not be read within {timeout_seconds:.0f} s; it is expected "
                        "to pass"
                    )
                for message in reader.consume(_LOOK_BACK, _POLL_SECONDS):
                    error = message.error()
                    if error is not None and error.code() == KafkaError._PARTITION_EOF:
                        open_partitions.discard(message.partition())
                    elif error is None and is_of(message.headers(), key):
                        return True
    finally:
        reader.close()
    return False
