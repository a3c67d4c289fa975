"""Publishes the days of one stream into a topic: what driver and executors call, for each kind of delivery."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_connect.capabilities.publisher import (
    Confirms,
    Erases,
    InspectsTarget,
    KeepsNotes,
    KeepsRejects,
    StagesByExecutors,
)
from airflow_provider_connect.clients.kafka.errors import RefusedRecordError
from airflow_provider_connect.clients.kafka.transaction import RELEASE_SECONDS, UndecidedError
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.patience import FROM_NONE, Patience, doubling_pauses
from airflow_provider_connect.sink import Connections, LedgerRow, Publish, Publisher, StreamKey
from airflow_provider_connect.sinks._kafka.at_least_once import AtLeastOnceDelivery
from airflow_provider_connect.sinks._kafka.cluster import Cluster
from airflow_provider_connect.sinks._kafka.dead_letters import read_dead_letters
from airflow_provider_connect.sinks._kafka.delivery import DayDelivery
from airflow_provider_connect.sinks._kafka.eraser import KafkaEraser
from airflow_provider_connect.sinks._kafka.ledger.kafka_ledger import KafkaLedger
from airflow_provider_connect.sinks._kafka.ledger_check import LedgerCheck
from airflow_provider_connect.sinks._kafka.partwise import PartwiseDelivery
from airflow_provider_connect.sinks._kafka.planner import Planner
from airflow_provider_connect.sinks._kafka.preflight import Preflight
from airflow_provider_connect.sinks._kafka.record_encoder import DayPlan
from airflow_provider_connect.sinks._kafka.sender import SentShare
from airflow_provider_connect.sinks._kafka.turn import PassedOverError
from airflow_provider_connect.sinks._kafka.whole_day import WholeDayDelivery
from airflow_provider_connect.stage.erase_list import Erasure, ShapingDigest, no_shaping
from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.stage.rejects import DayRejects
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sinks._kafka.options import KafkaOptions

_PAUSES = doubling_pauses(0.5, 8.0)


class KafkaPublisher(Publisher, StagesByExecutors, Confirms, Erases, InspectsTarget, KeepsNotes, KeepsRejects):
    """Publishes days of one stream; how a day is sent is its delivery's: :class:`.Attempt`."""

    def __init__(self, options: KafkaOptions, key: StreamKey, connections: Connections) -> None:
        self.options = options
        self._cluster = Cluster(options, key, connections)
        self._delivery: type[DayDelivery] = WholeDayDelivery
        if options.delivery == "at_least_once":
            self._delivery = AtLeastOnceDelivery
        elif options.atomicity == "partition":
            self._delivery = PartwiseDelivery

    @property
    def ledger(self) -> KafkaLedger:
        """The stream's ledger."""
        return self._cluster.ledger

    def preflight(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Find what would fail the publish; make the topic and the ledger's when nothing would."""
        return Preflight(self._cluster, schema, days, kind).problems()

    def inspect(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Find what would fail the publish, as far as columns, topics and rights tell; take no transactional id."""
        return Preflight(self._cluster, schema, days, kind).problems_without_changes()

    def rejects(self, first: dt.date, last: dt.date, records: int) -> Iterator[DayRejects]:
        """Yield what the topic of dead letters has of each published day."""
        return read_dead_letters(self._cluster, first, last, records)

    def note(self, note: LedgerNote) -> None:
        """Keep a note in the ledger's topic. Makes that topic if it is missing. The stream's topic need not exist.

        :raises ConfigError: the ledger's topic cannot be made or used.
        :raises RetriableError: the broker is away.
        """
        ledger = self.ledger
        if problems := self._cluster.topics().ensure_ledger_topic(ledger.ledger_topic):
            raise ConfigError("; ".join(problems))
        if not any((known.kind, known.id) == (note.kind, note.id) for known in ledger.notes()):
            ledger.write_record(ledger.note_key(note.kind, note.id), note)

    def begin(self, publish: Publish) -> DayPlan:
        """Make the day's topics and schemas ready, and say in the ledger who publishes it now.

        :raises ConfigError: ledger and topics do not fit, or a topic cannot be made or used.
        :raises DataError: the registry does not take the schema.
        :raises OvertakenError: somebody else has published the day since this attempt looked.
        """
        self._require_whole()
        plan = Planner(self._cluster, publish.schema).plan(publish)
        standing = self.ledger.entry(publish.day.date)
        plan = replace(plan, handover=self.ledger.handover(publish.day.date))
        return self._delivery(self._cluster, plan).begin(standing)

    def shares(self, files: Sequence[StagedFile]) -> list[tuple[StagedFile, ...]]:
        """Give one transaction the whole day, an empty one too; else each file alone."""
        return [tuple(files)] if self._delivery is WholeDayDelivery else super().shares(files)

    def put(self, token: DayPlan, stage: str, share: tuple[StagedFile, ...]) -> SentShare:
        """Send a share of the day; with its transaction it is published.

        :raises RetriableError: the broker is away, or another run has taken the day over.
        :raises DataError: rows cannot become records, and are not tolerated.
        """
        plan = replace(token, publish=replace(token.publish, stage=stage))
        ledger = self._cluster.ledger_from(plan.handover)
        patience = self._patience()
        while True:
            try:
                return self._delivery(self._cluster, plan, ledger).put(share)
            except (UndecidedError, PassedOverError):  # the next try finds out what became of it, or queues again
                if not patience.wait_and_retry():
                    raise
            except RefusedRecordError:  # although the topic's limits allow it: have they just changed?
                topics = self._cluster.topics()
                fresh = replace(plan, limits={name: topics.limits(name) for name in plan.limits})
                if fresh == plan or not patience.wait_and_retry():
                    raise
                plan = fresh

    def commit(self, publish: Publish, token: DayPlan, receipts: list[SentShare]) -> LedgerRow:
        """Write the day's row, where its only transaction has not written it already."""
        return self._delivery(self._cluster, token).commit(receipts)

    def confirm(self, publish: Publish) -> LedgerRow:
        """Write the day's record into the ledger once more, with one check more; no topic of the data is touched.

        :raises ConfigError: ledger and topics do not fit: what was published may be gone.
        """
        self._require_whole()
        standing = self.ledger.entry(publish.day.date)
        routes: dict[str | None, str] = {name: name for name in standing.offsets} if standing else {}
        plan = DayPlan(
            publish=publish, content="rows", topic_by_value=routes, value_schemas={}, limits={}, dead_letter_topic=None
        )
        patience = self._patience()
        while True:
            try:
                return self._delivery(self._cluster, plan).confirm()
            except UndecidedError:  # the next try finds out what became of it
                if not patience.wait_and_retry():
                    raise

    def find(self, column: str, values: Sequence[str]) -> dict[dt.date, int]:
        """Count the keys that :meth:`erase` would bury, by the day that wrote their value."""
        return KafkaEraser(self._cluster, column).find(values)

    def erase(
        self, column: str, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest = no_shaping
    ) -> Erasure:
        """Put people on the topic's list, and a tombstone on each of their keys, in one transaction."""
        self._require_whole()
        return KafkaEraser(self._cluster, column).erase(values, shaping)

    def copies(self) -> list[str]:
        """Name the records that tombstones cover, and the topic of dead letters. Does not look into them."""
        options = self.options
        return [
            f"records of topic {options.topic!r} that a tombstone covers, or that a failed transaction left: they can "
            "be read until the broker compacts their segments, as the topic's max.compaction.lag.ms says",
            f"rejects in topic {options.effective_dead_letter_topic!r}, if there is one: nothing says whose a rejected record is. "
            "The topic's retention deletes them, or kafka-delete-records.sh",
        ]

    def _patience(self) -> Patience:
        """Return how often a delivery is tried. Two that took one id from each other must not come back together."""
        return Patience(pauses=_PAUSES, jitter=FROM_NONE, tries=self._delivery.max_tries)

    def _require_whole(self) -> None:
        """Check that ledger and topics fit.

        :raises ConfigError: they do not.
        """
        if lost := LedgerCheck(self._cluster, self._cluster.topics()).problems():
            raise ConfigError("; ".join(lost))

    def abort(self, publish: Publish, token: DayPlan) -> None:
        """End what an executor left open that died: readers wait for it, and so do the next days."""
        seconds = min(RELEASE_SECONDS, self.options.timeout_seconds)
        hasty = self.options.model_copy(update={"timeout_seconds": seconds})
        self._delivery(Cluster(hasty, publish.key, self._cluster.connections), token).abort()

    def close(self) -> None:
        """Let go of the clients."""
        self._cluster.close()
