"""Chooses the poller of a source."""

from __future__ import annotations

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sources._kafka.generation_poller import GenerationPoller
from airflow_provider_connect.sources._kafka.options import KafkaOptions
from airflow_provider_connect.sources._kafka.poller import KafkaPoller, RecordPoller
from airflow_provider_connect.sources._kafka.timestamp_poller import TimestampPoller


def open_poller(options: KafkaOptions, connection: Connection) -> RecordPoller:
    """Return the poller of the option ``read_by``."""
    pollers: dict[str, type[RecordPoller]] = {
        "offset": KafkaPoller,
        "timestamp": TimestampPoller,
        "generation": GenerationPoller,
    }
    return pollers[options.read_by](options, connection)
