"""What every way of publishing a day shares: the ledger, transactions, and the record that says what was published."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.kafka.connection import admin
from airflow_provider_connect.clients.kafka.errors import Heard
from airflow_provider_connect.clients.kafka.offsets import Ends, ends
from airflow_provider_connect.clients.kafka.transaction import Transaction, transactional_id
from airflow_provider_connect.errors import DataError
from airflow_provider_connect.publishing import row_of
from airflow_provider_connect.sink import Connections, LedgerRow, StreamKey
from airflow_provider_connect.sinks._kafka.ledger.claims import Claims
from airflow_provider_connect.sinks._kafka.ledger.days import KafkaLedger
from airflow_provider_connect.sinks._kafka.ledger.records import Entry, LedgerKey
from airflow_provider_connect.sinks._kafka.ledger.topic import LedgerTopic
from airflow_provider_connect.sinks._kafka.ledger.view import Handed, View
from airflow_provider_connect.sinks._kafka.put import Sent
from airflow_provider_connect.sinks._kafka.records import Plan
from airflow_provider_connect.sinks._kafka.snapshot import Snapshot, TopicReader
from airflow_provider_connect.sinks._kafka.topic_rules import DEFAULT_MAX_MESSAGE_BYTES
from airflow_provider_connect.sinks._kafka.topics import Topics

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from airflow_provider_connect.sinks.kafka import KafkaSink

_MAX_BATCH_BYTES = 1_000_000


class Context:
    """One sink, one stream, and the cluster; made anew in every process.

    :param handed: what the driver knew of the ledger; an executor reads on from there.
    """

    def __init__(self, sink: KafkaSink, key: StreamKey, connections: Connections, handed: Handed | None = None) -> None:
        self.sink = sink
        self.key = key
        self.connections = connections
        self.connection = connections[sink.conn_id]
        self.heard = Heard()
        self._handed = handed

    @cached_property
    def ledger(self) -> KafkaLedger:
        """The stream's ledger."""
        sink = self.sink
        view = View(sink.ledger_topic, self.key, self._handed) if self._handed else None
        topic = LedgerTopic(self.connection, sink.ledger_topic, sink.timeout_seconds, self.key, view)
        return KafkaLedger(topic, self.key, sink.topic, replaces_whole=sink.cleanup == "compact")

    @property
    def claims(self) -> Claims:
        """Who publishes the stream's days."""
        return Claims(self.sink, self.ledger)

    @cached_property
    def admin(self) -> AdminClient:
        """A client to ask about topics."""
        return admin(self.connection, self.heard)

    def transaction(self, plan: Plan, part: int | None = None) -> Transaction:
        """Return a producer with the transactional id of the day, or of a part of it."""
        return Transaction(
            self.connection,
            self.id(plan, part),
            self.sink.timeout_seconds,
            self.sink.transaction_timeout_seconds,
            self.settings(plan),
            what=self.claims.where(plan),
        )

    def id(self, plan: Plan, part: int | None = None) -> str:
        """Return the transactional id; snapshots of a stream share one, since each builds on the one before."""
        names = [*self.about(plan)[:3], "snapshot" if plan.content == "changes" else str(plan.publish.day)]
        return transactional_id(*names) if part is None else transactional_id(*names, part)

    def settings(self, plan: Plan) -> dict[str, Any]:
        """Return the producer's settings."""
        # A batch larger than its topic takes is refused with every record in it; a large record is a batch alone.
        sizes = [limits.max_message_bytes for limits in plan.limits.values()]
        return {
            "compression.type": self.sink.compression,
            "partitioner": self.sink.partitioner,
            "message.max.bytes": max([DEFAULT_MAX_MESSAGE_BYTES, *sizes]),
            "batch.size": min([_MAX_BATCH_BYTES, *sizes]),
        }

    def about(self, plan: Plan, part: int | None = None) -> LedgerKey:
        """Return the ledger's key of the day, or of a part of it."""
        return self.ledger.about(plan.publish.day.date, "day" if part is None else "part", part)

    def newest(self, plan: Plan, standing: Entry | None) -> LedgerRow | None:
        """Return the publish that this one must follow: the day's own newest, or the stream's newest snapshot."""
        if plan.content == "changes":
            return self.ledger.newest(plan.publish.day.date, plan.publish.kind)
        return standing.row if standing else None

    def ends(self, plan: Plan) -> Ends:
        """Return where the day's topics end."""
        return ends(self.admin, plan.topics, self.sink.timeout_seconds, self.heard)

    def snapshot(self, plan: Plan, before: Ends) -> Snapshot:
        """Return what the plan's topic holds now."""
        (topic,) = plan.topics
        reader = TopicReader(self.connection, topic, before[topic], self.sink.timeout_seconds, self.key)
        return Snapshot(reader, plan.publish.on_empty)

    def entry(
        self, plan: Plan, generation: int, sent: Sent, standing: Entry | None = None, built_on: int | None = None
    ) -> Entry:
        """Return the ledger's record of what was sent.

        :param standing: what it follows: the day's newest generation.
        :param built_on: see :class:`.Entry`.
        """
        publish = plan.publish
        counts = publish.manifest.polled.all_counts | {
            "rejected": sent.rejected,
            "tombstones": sent.tombstones,
            "unchanged": sent.unchanged,
            "vanished": sent.vanished,
            "publish_ms": int(sent.seconds * 1000),
        }
        row = row_of(publish, generation, rows=sent.rows, counts=counts, reference=self.id(plan))
        covered = standing.now_covered() if standing else ()
        return Entry(row=row, offsets=sent.offsets, columns=plan.columns, covered=covered, built_on=built_on)

    def require_tolerated(self, plan: Plan, receipts: list[Sent]) -> None:
        """Refuse more rows without a record than the day may have, of which no share had too many.

        :raises DataError: there are.
        """
        rejected = sum(sent.rejected for sent in receipts)
        if rejected > self.sink.max_rejects:
            raise DataError(
                f"{self.claims.where(plan)}: {rejected:,} rows are no records, more than "
                f"max_rejects={self.sink.max_rejects}"
            )

    def with_new_limits(self, plan: Plan) -> Plan:
        """Return the plan with what its topics take now."""
        topics = Topics.open(self.connection, self.sink.rules, self.sink.timeout_seconds)
        return replace(plan, limits={name: topics.limits(name) for name in plan.limits})
