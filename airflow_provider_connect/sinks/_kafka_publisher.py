"""The life of one publish into Kafka: what ``begin``, ``put`` and ``commit`` do, for each delivery and atomicity."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import ConfigError, DataError, RetriableError, SupersededError
from airflow_provider_connect.sink import Connections, LedgerRow, Publish, StreamKey
from airflow_provider_connect.sinks._kafka_claims import Claims
from airflow_provider_connect.sinks._kafka_connection import admin
from airflow_provider_connect.sinks._kafka_errors import FencedError, Heard, RefusedRecordError
from airflow_provider_connect.sinks._kafka_history import History
from airflow_provider_connect.sinks._kafka_ledger import Entry, KafkaLedger, LedgerKey, LedgerTopic
from airflow_provider_connect.sinks._kafka_offsets import Ends, ends, written
from airflow_provider_connect.sinks._kafka_outbox import Acknowledged
from airflow_provider_connect.sinks._kafka_plan import make_plan
from airflow_provider_connect.sinks._kafka_put import Sender, Sent
from airflow_provider_connect.sinks._kafka_records import Plan
from airflow_provider_connect.sinks._kafka_snapshot import Snapshot, TopicReader
from airflow_provider_connect.sinks._kafka_topic_rules import DEFAULT_MAX_MESSAGE_BYTES
from airflow_provider_connect.sinks._kafka_topics import Topics
from airflow_provider_connect.sinks._kafka_transaction import Transaction, UndecidedError, transactional_id
from airflow_provider_connect.stage import StagedFile

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka.admin import AdminClient

    from airflow_provider_connect.sinks.kafka import KafkaSink

TURNS = 3
"""How often a share is sent whose outcome is unknown, or whose topics' limits have changed meanwhile."""
_MAX_BATCH_BYTES = 1_000_000


class Publisher:
    """Publishes days of one stream through one sink; made anew in every process."""

    def __init__(self, sink: KafkaSink, key: StreamKey, connections: Connections) -> None:
        self.sink = sink
        self.key = key
        self.connections = connections
        self.connection = connections[sink.conn_id]
        self._heard = Heard()

    @property
    def ledger(self) -> KafkaLedger:
        """The stream's ledger."""
        topic = LedgerTopic(self.connection, self.sink.ledger_topic, self.sink.timeout_seconds)
        return KafkaLedger(topic, self.key, self.sink.topic)

    @property
    def claims(self) -> Claims:
        """Who publishes the stream's days."""
        return Claims(self.sink, self.ledger)

    @property
    def history(self) -> History:
        """What ledger and topics say about each other."""
        topics = Topics(self._admin, self.sink.rules, self.sink.timeout_seconds, self._heard)
        return History(self.sink, self.ledger, self.connection, topics)

    def begin(self, publish: Publish, schema: pa.Schema) -> Plan:
        """Make the day's topics and schemas ready, and say in the ledger who publishes it now. Driver."""
        if lost := self.history.problems():
            raise ConfigError("; ".join(lost))
        plan = make_plan(self.sink, publish, schema, self.connections, self.ledger)
        if self.sink.delivery == "exactly_once" and self.sink.atomicity == "partition":
            return replace(plan, generation=self._reserve(plan))
        earlier = self.claims.newest(plan)
        if self.sink.delivery == "exactly_once":
            self._require_newest(plan, self.ledger.row(publish.day.date))
        else:
            entries = self.ledger.entries(publish.day.date)
            self._standing(plan, entries)
            plan = replace(plan, generation=self.claims.free_generation(plan, entries, earlier))
        # A claim that is written twice is the same claim, and getting an idempotent producer's id takes half a second.
        outbox = Acknowledged(self.connection, self.sink.timeout_seconds, {"enable.idempotence": False})
        outbox.send(self.sink.ledger_topic, *self.claims.record(plan, earlier), [])
        outbox.flush()
        return plan

    def put(self, plan: Plan, files: tuple[StagedFile, ...], schema: pa.Schema) -> Sent:
        """Send a share of the day. Executor.

        :raises RetriableError: the broker is away, or another run has taken the day over.
        :raises DataError: rows are no records, and are not tolerated.
        """
        if self.sink.delivery == "at_least_once":
            return self._send_acknowledged(plan, files, schema)
        part = None if self.sink.atomicity == "day" else files[0].path
        number = None if part is None else [file.path for file in plan.publish.manifest.polled.files].index(part)
        for turn in range(TURNS):
            try:
                return self._send_in_transaction(plan, files, schema, number)
            except UndecidedError:  # the next turn's producer decides it, and finds it in the ledger or sends again
                if turn == TURNS - 1:
                    raise
            except RefusedRecordError:  # although the topic's limits allow it: have they just changed?
                fresh = self._with_new_limits(plan)
                if turn == TURNS - 1 or fresh == plan:
                    raise
                plan = fresh
        raise AssertionError

    def commit(self, plan: Plan, receipts: list[Sent]) -> LedgerRow:
        """Write the day's row, where its only transaction has not written it already. Driver."""
        if self.sink.delivery == "exactly_once":
            if self.sink.atomicity == "day":
                (sent,) = receipts
                assert sent.entry is not None
                return sent.entry.row
            return self._commit_parts(plan, receipts)
        standing = self._standing(plan, self.ledger.entries(plan.publish.day.date))
        if standing is not None and standing.token == plan.publish.intent.token:
            return standing
        self._require_tolerated(plan, receipts)
        outbox = Acknowledged(self.connection, self.sink.timeout_seconds, self._settings(plan))
        rejected = Sender(self.sink, plan, outbox).send_source_rejects()
        entry = self._entry(plan, plan.generation or 1, Sent.total(receipts, rejected))
        self._publish_entry(plan, entry, outbox)
        return entry.row

    # A day, or a part of it, in a transaction

    def _send_in_transaction(
        self, plan: Plan, files: tuple[StagedFile, ...], schema: pa.Schema, part: int | None
    ) -> Sent:
        with self._transaction(plan, part) as transaction:
            try:
                transaction.fence()
                only = None if part is None else {self._about(plan), self._about(plan, part)}
                entries = self.ledger.entries(plan.publish.day.date, only)
                standing = self._standing_entry(plan, entries, part)
                if standing is not None:
                    return Sent.of(standing)
                used = self.claims.used_before(plan)
                newest = max([used, *(entry.row.generation for entry in entries.values())])
                generation = plan.generation or newest + 1
                before = self._ends(plan)
                snapshot = self._snapshot(plan, before) if plan.content == "changes" else None
                transaction.begin()
                sender = Sender(self.sink, plan, transaction, snapshot)
                sent = sender.send(files, schema, generation)
                source_rejects = sender.send_source_rejects() if part is None else 0
                transaction.flush()
                self._require_all(transaction, files, sent, source_rejects)
                sent = replace(
                    sent,
                    rejected=sent.rejected + source_rejects,
                    offsets=written(before, self._ends(plan)),
                    seconds=transaction.seconds,
                )
                entry = self._entry(plan, generation, sent)
                about = self._about(plan, part)
                transaction.send(self.sink.ledger_topic, about.encoded(), entry.model_dump_json().encode(), [])
                transaction.commit()
            except FencedError as error:
                raise FencedError(self.claims.who_fenced(plan, transaction, str(error))) from None
        return replace(sent, entry=entry)

    def _require_all(
        self, transaction: Transaction, files: tuple[StagedFile, ...], sent: Sent, source_rejects: int
    ) -> None:
        staged = sum(file.rows for file in files)
        expected = staged - sent.unchanged + sent.vanished + source_rejects
        if sent.rows + sent.rejected != staged or transaction.accepted != expected:
            raise RetriableError(
                f"{staged:,} rows were staged and {expected:,} records should be sent, but the client took "
                f"{transaction.accepted:,}: nothing is committed"
            )

    # Parts, each with a transaction

    def _reserve(self, plan: Plan) -> int:
        """Claim the day, end what others are sending of it, and return the generation.

        After that no part of an earlier claim is committed any more: its producers are fenced, and new ones see that
        the claim is another's. So what lies between the offsets in the ledger is of one generation.
        """
        with self._transaction(plan, None) as transaction:
            transaction.fence()
            earlier = self.claims.newest(plan)
            earlier_parts = earlier.parts if earlier else 0
            self._end_parts(plan, earlier_parts)  # what they have open hides what is published of the day
            entries = self.ledger.entries(plan.publish.day.date)
            self._standing(plan, entries)
            generation = self.claims.free_generation(plan, entries, earlier)
            claimed = replace(plan, generation=generation)
            transaction.begin()
            transaction.send(self.sink.ledger_topic, *self.claims.record(claimed, earlier), [])
            transaction.commit()
        self._end_parts(plan, earlier_parts)
        return generation

    def _end_parts(self, plan: Plan, parts: int) -> None:
        def end(part: int) -> None:
            with self._transaction(plan, part) as others:
                others.fence()

        with ThreadPoolExecutor(8) as pool:  # each waits for a quarter of a second
            list(pool.map(end, range(parts)))

    def _commit_parts(self, plan: Plan, receipts: list[Sent]) -> LedgerRow:
        with self._transaction(plan, None) as transaction:
            transaction.fence()
            entries = self.ledger.entries(plan.publish.day.date, {self._about(plan)})
            standing = self._standing(plan, entries)
            if standing is not None and standing.token == plan.publish.intent.token:
                return standing
            self.claims.require_own(plan)
            self._require_tolerated(plan, receipts)
            transaction.begin()
            rejected = Sender(self.sink, plan, transaction).send_source_rejects()
            entry = self._entry(plan, plan.generation or 1, Sent.total(receipts, rejected))
            transaction.send(self.sink.ledger_topic, self._about(plan).encoded(), entry.model_dump_json().encode(), [])
            transaction.flush()
            transaction.commit()
        return entry.row

    def _require_tolerated(self, plan: Plan, receipts: list[Sent]) -> None:
        """Refuse more rows without a record than the day may have, of which no share had too many."""
        rejected = sum(sent.rejected for sent in receipts)
        if rejected > self.sink.max_rejects:
            raise DataError(
                f"{self.claims.where(plan)}: {rejected:,} rows are no records, more than "
                f"max_rejects={self.sink.max_rejects}"
            )

    # Without a transaction

    def _send_acknowledged(self, plan: Plan, files: tuple[StagedFile, ...], schema: pa.Schema) -> Sent:
        outbox = Acknowledged(self.connection, self.sink.timeout_seconds, self._settings(plan))
        before = self._ends(plan)
        sent = Sender(self.sink, plan, outbox).send(files, schema, plan.generation or 1)
        outbox.flush()
        return replace(sent, offsets=written(before, self._ends(plan)))

    def _publish_entry(self, plan: Plan, entry: Entry, outbox: Acknowledged) -> None:
        """Write the day's record; where a newer run's came first, that one again: compaction keeps a key's last.

        :raises SupersededError: it did.
        """
        about, last = self._about(plan), entry
        while True:
            outbox.send(self.sink.ledger_topic, about.encoded(), last.model_dump_json().encode(), [])
            outbox.flush()
            standing = self.ledger.entries(plan.publish.day.date, {about}).get(about, last)
            if standing.row.order <= last.row.order:
                return self._require_newest(plan, last.row)
            last = standing

    # What all share

    def _transaction(self, plan: Plan, part: int | None) -> Transaction:
        return Transaction(
            self.connection,
            self._id(plan, part),
            self.sink.timeout_seconds,
            self.sink.transaction_timeout_seconds,
            self._settings(plan),
            what=self.claims.where(plan),
        )

    def _id(self, plan: Plan, part: int | None) -> str:
        """Return the transactional id; snapshots of a stream share one, since each builds on the one before."""
        names = [*self._about(plan)[:3], "snapshot" if plan.content == "changes" else str(plan.publish.day)]
        return transactional_id(*names) if part is None else transactional_id(*names, part)

    def _snapshot(self, plan: Plan, before: Ends) -> Snapshot:
        (topic,) = plan.topics
        reader = TopicReader(self.connection, topic, before[topic], self.sink.timeout_seconds, self.key)
        return Snapshot(reader, self.sink.empty_snapshot)

    def _settings(self, plan: Plan) -> dict[str, Any]:
        # A batch larger than its topic takes is refused with every record in it; a large record is a batch alone.
        sizes = [limits.max_message_bytes for limits in plan.limits.values()]
        return {
            "compression.type": self.sink.compression,
            "partitioner": self.sink.partitioner,
            "message.max.bytes": max([DEFAULT_MAX_MESSAGE_BYTES, *sizes]),
            "batch.size": min([_MAX_BATCH_BYTES, *sizes]),
        }

    def _about(self, plan: Plan, part: int | None = None) -> LedgerKey:
        return self.ledger.about(plan.publish.day.date, "day" if part is None else "part", part)

    def _standing(self, plan: Plan, entries: dict[LedgerKey, Entry]) -> LedgerRow | None:
        """Return what the ledger has of the day.

        :raises SupersededError: it was published for a newer intent.
        """
        entry = entries.get(self._about(plan))
        self._require_newest(plan, entry.row if entry else None)
        return entry.row if entry else None

    def _require_newest(self, plan: Plan, standing: LedgerRow | None) -> None:
        if standing is not None and standing.order > plan.publish.intent.order:
            raise SupersededError.by(standing.generation, self.claims.where(plan), plan.publish.intent.run)

    def _standing_entry(self, plan: Plan, entries: dict[LedgerKey, Entry], part: int | None) -> Entry | None:
        """Return what this intent has published already of what is about to be sent."""
        standing = self._standing(plan, entries)
        if plan.content == "changes":
            self._refuse_older_snapshot(plan)
        if part is not None:
            self.claims.require_own(plan)
            entry = entries.get(self._about(plan, part))
            return entry if entry and entry.row.generation == plan.generation else None
        mine = standing is not None and standing.token == plan.publish.intent.token
        return entries[self._about(plan)] if mine else None

    def _refuse_older_snapshot(self, plan: Plan) -> None:
        """Raise SupersededError where the topic shows a later day, or this one as a newer intent wanted it."""
        mine = (plan.publish.day.date, plan.publish.intent.order)
        for entry in self.ledger.newest(1, "wait"):
            if (entry.row.day, entry.row.order) > mine:
                where = f"{self.claims.where(plan)}, which shows {entry.row.day} already"
                raise SupersededError.by(entry.row.generation, where, plan.publish.intent.run)

    def _entry(self, plan: Plan, generation: int, sent: Sent) -> Entry:
        publish = plan.publish
        counts = publish.manifest.polled.all_counts | {
            "rejected": sent.rejected,
            "tombstones": sent.tombstones,
            "unchanged": sent.unchanged,
            "vanished": sent.vanished,
            "publish_ms": int(sent.seconds * 1000),
        }
        row = LedgerRow(
            day=publish.day.date,
            generation=generation,
            token=publish.intent.token,
            order=publish.intent.order,
            rows=sent.rows,
            digest=publish.manifest.polled.digest,
            attempt=publish.manifest.attempt,
            counts=counts,
            published_at=dt.datetime.now(dt.UTC),
            reference=self._id(plan, None),
        )
        return Entry(row=row, run=publish.intent.run, offsets=sent.offsets, columns=plan.columns)

    @cached_property
    def _admin(self) -> AdminClient:
        return admin(self.connection, self._heard)

    def _ends(self, plan: Plan) -> Ends:
        return ends(self._admin, plan.topics, self.sink.timeout_seconds, self._heard)

    def _with_new_limits(self, plan: Plan) -> Plan:
        topics = Topics.open(self.connection, self.sink.rules, self.sink.timeout_seconds)
        return replace(plan, limits={name: topics.limits(name) for name in plan.limits})
