"""Finds topics that a KafkaSink wrote: they hold every generation of a day, so that reading by offset repeats rows."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.kafka.errors import DeniedError
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.readers._kafka_ledger import EntryKey, LedgerEntry, MissingLedgerError, newest_entries

if TYPE_CHECKING:
    from confluent_kafka import Message

_LOG = logging.getLogger("airflow_provider_connect.sources.kafka")
_GENERATION_HEADER = "connect.generation"


def read_entries(connection: Connection, ledger_topic: str, timeout_seconds: float) -> Mapping[EntryKey, LedgerEntry]:
    """Return the entries of a cluster's ledger topic. Empty if the topic is missing or hidden from the user."""
    try:
        return newest_entries(connection, ledger_topic, timeout_seconds)[0]
    except MissingLedgerError:
        return {}
    except DeniedError:
        _LOG.info("the user may not read ledger topic %r: records are recognised by their headers", ledger_topic)
        return {}


def topics_of(entries: Iterable[LedgerEntry]) -> set[str]:
    """Return the topics that ledger entries have records in."""
    return {topic for entry in entries for topic, _ in entry.spans}


def require_no_generations(names: Collection[str], entries: Mapping[EntryKey, LedgerEntry], ledger_topic: str) -> None:
    """Check that no KafkaSink wrote the topics.

    :param names: topics to read by offset, without compacted ones. There the newest record of each key counts.
    :raises ConfigError: the ledger has days in a topic.
    """
    if written := sorted(topics_of(entries.values()) & set(names)):
        raise generations_error(written[0], f"ledger topic {ledger_topic!r} names it")


def require_foreign_record(topics: Collection[str], message: Message) -> None:
    """Check that no KafkaSink wrote a record of these topics.

    :raises ConfigError: the record has the sink's header of a generation.
    """
    topic = message.topic() or ""
    if topic in topics and _GENERATION_HEADER in dict(message.headers() or ()):
        raise generations_error(topic, f"its records have the header {_GENERATION_HEADER}")


def generations_error(topic: str, evidence: str) -> ConfigError:
    """Return the refusal to read a topic by offset."""
    return ConfigError(
        f"topic {topic!r} was written by a KafkaSink: {evidence}. It holds every generation of a day, and by offset a "
        "reload would arrive twice. read_by='generation' reads the newest days, ledger_topic=None every generation"
    )
