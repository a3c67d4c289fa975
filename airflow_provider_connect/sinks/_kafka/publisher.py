"""Publisher of one stream's days, used by driver and executors."""

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
    TestsConnection,
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


class KafkaPublisher(
    Publisher, StagesByExecutors, Confirms, Erases, InspectsTarget, KeepsNotes, KeepsRejects, TestsConnection
):
    """Publishes days of one stream in the chosen delivery mode."""

    def __init__(self, options: KafkaOptions, key: StreamKey, connections: Connections) -> None:
        self.options = options
        self._cluster = Cluster(options, key, connections)
        self._delivery_class: type[DayDelivery] = WholeDayDelivery
        if options.delivery == "at_least_once":
            self._delivery_class = AtLeastOnceDelivery
        elif options.atomicity == "partition":
            self._delivery_class = PartwiseDelivery

    @property
    def ledger(self) -> KafkaLedger:
        return self._cluster.ledger

    def preflight(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        return Preflight(self._cluster, schema, days, kind).problems()

    def inspect(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Return problems of columns, topics and rights. Fences no running producer."""
        return Preflight(self._cluster, schema, days, kind).inspect()

    def test_connection(self, max_seconds: float) -> None:
        self._cluster.topics().wait_until_reachable(max_seconds)

    def rejects(self, first: dt.date, last: dt.date, records: int) -> Iterator[DayRejects]:
        return read_dead_letters(self._cluster, first, last, records)

    def note(self, note: LedgerNote) -> None:
        """Write a note into the ledger topic, which is created if needed."""
        ledger = self.ledger
        if problems := self._cluster.topics().ensure_ledger_topic(ledger.ledger_topic):
            raise ConfigError("; ".join(problems))
        if note.kind == "position":
            is_new = ledger.position_note(note.id) is None
        else:
            is_new = not any((existing.kind, existing.id) == (note.kind, note.id) for existing in ledger.notes())
        if is_new:
            ledger.write_record(ledger.note_key(note.kind, note.id), note)

    def begin(self, publish: Publish) -> DayPlan:
        self._require_undamaged()
        plan = Planner(self._cluster, publish.schema).plan(publish)
        published_entry = self.ledger.publish_entry(publish)
        plan = replace(plan, handover=self.ledger.handover(publish.day.date))
        return self._delivery_class(self._cluster, plan).begin(published_entry)

    def shares(self, files: Sequence[StagedFile]) -> list[tuple[StagedFile, ...]]:
        """Return one share of all files for a single transaction, else a share for each file."""
        return [tuple(files)] if self._delivery_class is WholeDayDelivery else super().shares(files)

    def put(self, token: DayPlan, stage: str, share: tuple[StagedFile, ...]) -> SentShare:
        """Send a share of the day, and commit it if it has its own transaction."""
        plan = replace(token, publish=replace(token.publish, stage=stage))
        ledger = self._cluster.ledger_from(plan.handover)
        patience = self._patience()
        while True:
            try:
                return self._delivery_class(self._cluster, plan, ledger).put(share)
            except (UndecidedError, PassedOverError):  # the next attempt reads the outcome, or queues again
                if not patience.wait_and_retry():
                    raise
            except RefusedRecordError:  # the topic's limits may have changed
                topics = self._cluster.topics()
                fresh = replace(plan, limits={name: topics.limits(name) for name in plan.limits})
                if fresh == plan or not patience.wait_and_retry():
                    raise
                plan = fresh

    def commit(self, publish: Publish, token: DayPlan, receipts: list[SentShare]) -> LedgerRow:
        return self._delivery_class(self._cluster, token).commit(receipts)

    def confirm(self, publish: Publish) -> LedgerRow:
        """Confirm an unchanged day in the ledger. Sends no data.

        :raises ConfigError: ledger and topics disagree.
        """
        self._require_undamaged()
        published_entry = self.ledger.entry(publish.day.date)
        routes: dict[str | None, str] = {name: name for name in published_entry.offsets} if published_entry else {}
        plan = DayPlan(
            publish=publish, content="rows", topic_by_value=routes, value_schemas={}, limits={}, dead_letter_topic=None
        )
        patience = self._patience()
        while True:
            try:
                return self._delivery_class(self._cluster, plan).confirm()
            except UndecidedError:  # the next attempt reads the outcome
                if not patience.wait_and_retry():
                    raise

    def find(self, column: str, values: Sequence[str]) -> dict[dt.date, int]:
        return KafkaEraser(self._cluster, column).find(values)

    def erase(
        self, column: str, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest = no_shaping
    ) -> Erasure:
        self._require_undamaged()
        return KafkaEraser(self._cluster, column).erase(values, shaping)

    def copies(self) -> list[str]:
        options = self.options
        return [
            f"records of topic {options.topic!r} covered by a tombstone or left by a failed transaction: they can "
            "be read until the broker compacts their segments, as the topic's max.compaction.lag.ms says",
            f"rejects in topic {options.effective_dead_letter_topic!r}, if it exists: rejected records do not name "
            "their person. The topic's retention deletes them, or kafka-delete-records.sh",
        ]

    def _patience(self) -> Patience:
        return Patience(pauses=_PAUSES, jitter=FROM_NONE, tries=self._delivery_class.max_tries)

    def _require_undamaged(self) -> None:
        if problems := LedgerCheck(self._cluster, self._cluster.topics()).problems():
            raise ConfigError("; ".join(problems))

    def abort(self, publish: Publish, token: DayPlan) -> None:
        seconds = min(RELEASE_SECONDS, self.options.timeout_seconds)
        short_timeout_options = self.options.model_copy(update={"timeout_seconds": seconds})
        self._delivery_class(Cluster(short_timeout_options, publish.key, self._cluster.connections), token).abort()

    def close(self) -> None:
        self._cluster.close()
