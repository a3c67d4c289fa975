"""The life of one publish into Kafka: what ``begin``, ``put``, ``commit`` and ``abort`` do, for each delivery."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.kafka.errors import RefusedRecordError
from airflow_provider_connect.clients.kafka.transaction import RELEASE_SECONDS, UndecidedError
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.publishing import next_generation
from airflow_provider_connect.sink import Connections, LedgerRow, Publish, StreamKey
from airflow_provider_connect.sinks._kafka.acknowledged import AtLeastOnce
from airflow_provider_connect.sinks._kafka.context import Context
from airflow_provider_connect.sinks._kafka.ledger.days import KafkaLedger
from airflow_provider_connect.sinks._kafka.ledger.history import History
from airflow_provider_connect.sinks._kafka.ledger.view import Handed
from airflow_provider_connect.sinks._kafka.parts import Parts
from airflow_provider_connect.sinks._kafka.plan import make_plan
from airflow_provider_connect.sinks._kafka.put import Sent
from airflow_provider_connect.sinks._kafka.records import Plan
from airflow_provider_connect.sinks._kafka.topics import Topics
from airflow_provider_connect.sinks._kafka.turns.turn import PassedOverError
from airflow_provider_connect.sinks._kafka.whole_day import WholeDay
from airflow_provider_connect.stage.manifest import StagedFile

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sinks.kafka import KafkaSink

TRIES = 3
"""How often a share is sent whose outcome is unknown, that lost its turn, or whose topics' limits changed meanwhile."""


class Publisher:
    """Publishes days of one stream through one sink; made anew in every process."""

    def __init__(self, sink: KafkaSink, key: StreamKey, connections: Connections, handed: Handed | None = None) -> None:
        self.sink = sink
        self.context = Context(sink, key, connections, handed)

    @property
    def ledger(self) -> KafkaLedger:
        """The stream's ledger."""
        return self.context.ledger

    @property
    def history(self) -> History:
        """What ledger and topics say about each other."""
        context = self.context
        topics = Topics(context.admin, self.sink.rules, self.sink.timeout_seconds, context.heard)
        return History(self.sink, self.ledger, context.connection, topics)

    @cached_property
    def _whole_day(self) -> WholeDay:
        return WholeDay(self.context)

    @cached_property
    def _parts(self) -> Parts | None:
        in_parts = self.sink.delivery == "exactly_once" and self.sink.atomicity == "partition"
        return Parts(self.context) if in_parts else None

    @cached_property
    def _at_least_once(self) -> AtLeastOnce | None:
        return AtLeastOnce(self.context) if self.sink.delivery == "at_least_once" else None

    def begin(self, publish: Publish, schema: pa.Schema) -> Plan:
        """Make the day's topics and schemas ready, and say in the ledger who publishes it now. Driver.

        :raises OvertakenError: somebody else has published the day since this attempt looked.
        """
        if lost := self.history.problems():
            raise ConfigError("; ".join(lost))
        context, claims = self.context, self.context.claims
        plan = make_plan(self.sink, publish, schema, context.connections, self.ledger)
        standing = self.ledger.entry(publish.day.date)
        plan = replace(plan, handed=self.ledger.handed(publish.day.date))
        if self._parts is not None:
            return replace(plan, generation=self._parts.reserve(plan))
        if self._at_least_once is not None:
            return self._at_least_once.claim(plan)
        if standing is None or standing.published(publish.intent.token) is None:
            next_generation(publish, context.newest(plan, standing))
        claims.write(plan, claims.newest(plan))
        return plan

    def put(self, plan: Plan, files: tuple[StagedFile, ...], schema: pa.Schema) -> Sent:
        """Send a share of the day. Executor.

        :raises RetriableError: the broker is away, or another run has taken the day over.
        :raises DataError: rows are no records, and are not tolerated.
        """
        if self._at_least_once is not None:
            return self._at_least_once.send(plan, files, schema)
        for left in reversed(range(TRIES)):
            try:
                if self._parts is None:
                    return self._whole_day.send(plan, files, schema)
                number = [file.path for file in plan.publish.manifest.polled.files].index(files[0].path)
                return self._parts.send(plan, files, schema, number)
            except UndecidedError:  # the next try's producer decides it, and finds it in the ledger or sends again
                if not left:
                    raise
            except PassedOverError:  # it queues again
                if not left:
                    raise
            except RefusedRecordError:  # although the topic's limits allow it: have they just changed?
                fresh = self.context.with_new_limits(plan)
                if not left or fresh == plan:
                    raise
                plan = fresh
        raise AssertionError

    def commit(self, plan: Plan, receipts: list[Sent]) -> LedgerRow:
        """Write the day's row, where its only transaction has not written it already. Driver."""
        if self._at_least_once is not None:
            return self._at_least_once.complete(plan, receipts)
        if self._parts is not None:
            return self._parts.complete(plan, receipts)
        (sent,) = receipts
        assert sent.entry is not None
        return sent.entry.row


def abort(sink: KafkaSink, plan: Plan, connections: Connections) -> None:
    """End what executors left open that died, so that nobody waits for it. Driver, after any error since ``begin``."""
    if sink.delivery == "at_least_once":
        return
    hasty = sink.model_copy(update={"timeout_seconds": min(RELEASE_SECONDS, sink.timeout_seconds)})
    context = Context(hasty, plan.publish.key, connections)
    if sink.atomicity == "partition":
        Parts(context).abort(plan)
    else:
        WholeDay(context).abort(plan)
