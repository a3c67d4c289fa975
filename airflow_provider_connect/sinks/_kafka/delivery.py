"""Base class of the deliveries."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from airflow_provider_connect.clients.kafka.errors import FencedError
from airflow_provider_connect.clients.kafka.outbox import Outbox
from airflow_provider_connect.clients.kafka.topic_reader import EndOffsets, written_spans
from airflow_provider_connect.clients.kafka.transaction import Transaction, transactional_id
from airflow_provider_connect.publishing import confirmed_row, ledger_row, next_generation, require_definition
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._kafka.claims import DayClaims
from airflow_provider_connect.sinks._kafka.cluster import Cluster
from airflow_provider_connect.sinks._kafka.dead_letters import DeadLetterSender
from airflow_provider_connect.sinks._kafka.ledger.kafka_ledger import KafkaLedger
from airflow_provider_connect.sinks._kafka.ledger.records import (
    NO_DAY,
    Claim,
    DayEntry,
    DefinitionRecord,
    LedgerKey,
    parse_record,
)
from airflow_provider_connect.sinks._kafka.record_encoder import DayPlan
from airflow_provider_connect.sinks._kafka.sender import SentShare, ShareSender
from airflow_provider_connect.sinks._kafka.snapshot_diff import SnapshotDiff
from airflow_provider_connect.sinks._kafka.topic_rules import DEFAULT_MAX_MESSAGE_BYTES
from airflow_provider_connect.stage.manifest import SeenPublish, StagedFile
from airflow_provider_connect.stage.soft_deletes import SOFT_DELETED
from airflow_provider_connect.wire import Wire

_MAX_BATCH_BYTES = 1_000_000


def _id_unit(plan: DayPlan) -> str:
    if plan.publish.kind == "increment":
        return "increment"
    return "snapshot" if plan.content == "changes" else str(plan.publish.day)


class DayDelivery(ABC):
    """Delivery of one day, with its newest publish as ``published_entry``.

    Methods raise OvertakenError if another run changed the day since the poll.
    """

    max_tries: ClassVar[int] = 1

    def __init__(self, cluster: Cluster, plan: DayPlan, ledger: KafkaLedger | None = None) -> None:
        self.cluster = cluster
        self.options = cluster.options
        self.plan = plan
        self.publish = plan.publish
        self.topics = sorted(set(plan.topic_by_value.values()))
        self.ledger = ledger or cluster.ledger
        self.ledger_key = self.ledger.publish_key(self.publish)
        self.id_parts = (*self.ledger_key[:3], _id_unit(plan))
        self.id = transactional_id(*self.id_parts)
        self.claims = DayClaims(self.options, self.ledger, plan)

    @abstractmethod
    def begin(self, published_entry: DayEntry | None) -> DayPlan:
        """Claim the day. Returns the plan for every :meth:`put`."""

    @abstractmethod
    def put(self, files: tuple[StagedFile, ...]) -> SentShare:
        """Send a share of the day, in an executor."""

    @abstractmethod
    def commit(self, receipts: list[SentShare]) -> LedgerRow:
        """Publish the day, unless a share's transaction did so."""

    def confirm(self) -> LedgerRow:
        """Confirm an unchanged day: write its ledger record again, with one more check."""
        return self.confirm_in_transaction()

    def confirm_in_transaction(self, after_fencing: Callable[[], None] | None = None) -> LedgerRow:
        """Confirm an unchanged day, and fence a run that sends the day."""
        transaction = self.transaction()
        try:
            with transaction:
                if after_fencing is not None:
                    after_fencing()
                published_entry = self.read_published_entry()
                if (own_row := self.row_of_this_intent(published_entry)) is not None:
                    return own_row
                entry = self.new_confirmation(published_entry, in_transaction=True)
                transaction.begin()
                self.write_record(transaction, entry)
                transaction.flush()
                transaction.commit()
        except FencedError as error:
            raise FencedError(self.claims.fencing_message(transaction, str(error))) from None
        return entry.row

    def abort(self) -> None:  # noqa: B027  # deliveries without transactions leave nothing open
        """End dead executors' transactions."""

    def transaction(self, part: int | None = None) -> Transaction:
        """Return a producer with the day's transactional id, or a part's."""
        name = self.id if part is None else transactional_id(*self.id_parts, part)
        return self.cluster.transaction(name, self.producer_settings(), description=self.claims.description)

    def producer_settings(self) -> dict[str, Any]:
        """Return librdkafka settings for the topics' limits."""
        # A batch above its topic's limit is refused with all its records. A large record forms a batch of its own.
        sizes = [limits.max_message_bytes for limits in self.plan.limits.values()]
        return {
            "message.max.bytes": max([DEFAULT_MAX_MESSAGE_BYTES, *sizes]),
            "batch.size": min([_MAX_BATCH_BYTES, *sizes]),
        }

    def send(
        self,
        sender: ShareSender,
        ends_before: EndOffsets,
        snapshot: SnapshotDiff | None = None,
        *,
        with_source_rejects: bool = False,
    ) -> SentShare:
        """Send a share and wait for its acknowledgement. Returns its counts and offsets."""
        started = time.monotonic()
        share = sender.send(snapshot)
        source_rejects = self.send_source_rejects(sender.outbox) if with_source_rejects else 0
        sender.outbox.flush()
        share.require_all(sender.files, sender.outbox, source_rejects)
        offsets = written_spans(ends_before, self.cluster.end_offsets(self.topics))
        seconds = time.monotonic() - started
        return replace(share, rejected=share.rejected + source_rejects, offsets=offsets, seconds=seconds)

    def read_published_entry(self) -> DayEntry | None:
        """Read the day's newest publish. Waits for open transactions that hide it."""
        return self.ledger.entries(self.ledger_key).get(self.ledger_key)

    def row_of_this_intent(self, published_entry: DayEntry | None) -> LedgerRow | None:
        return published_entry.row_for_intent(self.publish.intent.token) if published_entry else None

    def require_not_overtaken(self, published_entry: DayEntry | None) -> LedgerRow | None:
        """Return this intent's published ledger row, or None if it may still publish."""
        if (own_row := self.row_of_this_intent(published_entry)) is None:
            self.next_generation(published_entry.row if published_entry else None)
        return own_row

    def next_generation(self, newest_row: LedgerRow | None, used_generation: int = 0) -> int:
        """Return the generation to publish. Read the ledger just before.

        :raises OvertakenError: see the class. Or another definition is in force.
        """
        require_definition(self.publish, self.ledger.known_definition())
        return next_generation(self.publish, newest_row, used_generation, erased=self.ledger.known_erase_list().version)

    def free_generation(self, newest_row: LedgerRow | None, claim: Claim | None) -> int:
        """Return a generation without records of other intents or staged files."""
        generation = self.next_generation(newest_row, claim.highest_generation if claim else 0)
        return claim.generation if claim and claim.generation and self.claims.is_same_try(claim) else generation

    def new_entry(
        self,
        generation: int,
        share: SentShare,
        published_entry: DayEntry | None = None,
        seen_state: SeenPublish | None = None,
    ) -> DayEntry:
        """Return the ledger record that publishes the sent records.

        :param seen_state: basis of a publish without transactions.
        """
        counts = self.publish.manifest.polled.all_counts | {
            "rejected": share.rejected,
            "tombstones": share.tombstones,
            "unchanged": share.unchanged,
            "vanished": share.vanished,
            **({SOFT_DELETED: share.soft_deleted} if self.options.deletes == "soft" else {}),
            "publish_ms": int(share.seconds * 1000),
        }
        row = ledger_row(self.publish, generation, rows=share.rows, counts=counts, reference=self.id)
        covered_generations = published_entry.covered_generations() if published_entry else ()
        columns = {field.name: str(field.type) for field in self.publish.schema}
        return DayEntry(
            row=row,
            offsets=share.offsets,
            columns=columns,
            covered=covered_generations,
            built_on=seen_state.generation if seen_state else None,
            built_on_checks=seen_state.checks if seen_state else 0,
        )

    def new_confirmation(self, published_entry: DayEntry | None, *, in_transaction: bool) -> DayEntry:
        """Return the ledger record that confirms an unchanged day."""
        require_definition(self.publish, self.ledger.known_definition())
        row = confirmed_row(
            self.publish, published_entry.row if published_entry else None, self.ledger.known_erase_list().version
        )
        assert published_entry is not None
        return published_entry.confirmation(row, in_transaction=in_transaction)

    def write_record(self, outbox: Outbox, record: Wire, key: LedgerKey | None = None) -> None:
        """Pass a ledger record to a producer. ``key`` defaults to the day's."""
        outbox.send(self.options.ledger_topic, (key or self.ledger_key).encode(), record.model_dump_json().encode(), [])

    def write_definition(self, outbox: Outbox) -> None:
        """Write the publish's definition to the ledger if another definition or task is in force.

        :raises OvertakenError: another definition was written first.
        """
        publish, ledger = self.publish, self.ledger
        read_positions = dict(ledger.view.positions)  # copied first, because other threads read on too
        definition = ledger.known_definition()
        require_definition(publish, definition)
        if publish.definition is None or definition == (publish.definition, publish.intent.task_digest):
            return
        self.write_definition_record(outbox, DefinitionRecord(definition=publish.definition, run=publish.intent.run))
        first_value, *_ = ledger.records_since(ledger.key_for(NO_DAY, "in_force"), read_positions)
        self.require_first_definition(outbox, parse_record(DefinitionRecord, first_value, ledger.ledger_topic))

    def write_definition_record(self, outbox: Outbox, record: DefinitionRecord) -> None:
        """Write a definition to the ledger and wait for its acknowledgement."""
        self.write_record(outbox, record, self.ledger.key_for(NO_DAY, "in_force"))
        outbox.flush()

    def require_first_definition(self, outbox: Outbox, first_definition: DefinitionRecord) -> None:
        """Check that this publish's definition was written first."""
        require_definition(self.publish, first_definition.as_definition)

    def send_source_rejects(self, outbox: Outbox) -> int:
        """Send the source's rejects as dead letters. Returns their number."""
        return DeadLetterSender(self.plan, outbox, self.options.topic).send_source_rejects()

    def require_tolerated(self, receipts: list[SentShare]) -> None:
        """Refuse more than ``max_rejects`` rejects in all shares."""
        rejected = sum(share.rejected for share in receipts)
        self.options.tolerance.require(rejected, f"{self.claims.description}: {rejected:,} rows cannot become records")
