"""What a reader needs of the ledger: its records, and which of two records of a day counts.

The sink reads more of them with its own code; a test compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.kafka.partitions import reading
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.readers._kafka.spans import Place

if TYPE_CHECKING:
    from confluent_kafka import Message


@dataclass(frozen=True)
class Entry:
    """What a reader needs of a day's ledger record."""

    generation: int
    checks: int
    rows: int
    token: str
    attempt: str | None
    only_changes: bool
    spans: Mapping[Place, tuple[int, int]]
    built_on: int | None
    built_on_checks: int
    beaten: frozenset[str]

    @classmethod
    def parse(cls, value: str | bytes) -> Entry:
        """Read a record's value.

        :raises ValueError, KeyError, TypeError, AttributeError: no Kafka sink wrote it.
        """
        entry = json.loads(value)
        row = entry["row"]
        counts = row.get("counts", {})
        return cls(
            int(row["generation"]),
            int(row.get("checks", 0)),
            int(row["rows"]),
            row["token"],
            row.get("attempt"),
            bool(counts.get("unchanged") or counts.get("vanished")),
            {
                (topic, int(number)): (int(first), int(end))
                for topic, partitions in entry.get("offsets", {}).items()
                for number, (first, end) in partitions.items()
            },
            entry.get("built_on"),
            int(entry.get("built_on_checks", 0)),
            frozenset(entry.get("beaten", ())),
        )

    def counts_over(self, standing: Entry) -> bool:
        """Tell whether this later record counts instead of an earlier one.

        Without transactions two runs may write a day's record on top of the same generation: then the first counts. A
        record with more checks repeats the one before it; only who has confirmed the day is another.
        """
        again = (self.token, self.attempt, self.checks) == (standing.token, standing.attempt, standing.checks)
        if self.built_on is None or again:
            return True
        confirmation = f"{standing.token}/{standing.generation}/{standing.checks}"
        name = confirmation if standing.checks else standing.attempt
        known = (self.built_on, self.built_on_checks)
        return known >= (standing.generation, standing.checks) or name in self.beaten


def ledger_records(connection: Connection, topic: str, timeout_seconds: float) -> Iterator[Message]:
    """Yield the committed records of the ledger, up to its present end, uncommitted records included."""
    with reading(connection, topic, timeout_seconds, "read_uncommitted", "ledger topic") as partitions:
        numbers = partitions.numbers()
        if not numbers:
            raise ConfigError(
                f"ledger topic {topic!r} is missing: nothing is published yet, or the sink has another ledger_topic"
            )
        ends = {number: partitions.bounds(number)[1] for number in numbers}
    with reading(connection, topic, timeout_seconds, "read_committed", "ledger topic") as partitions:
        for batch in partitions.batches(dict.fromkeys(ends, 0), ends):
            yield from batch
