"""A day without a transaction: its records are acknowledged first, and then the ledger decides whose day counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.kafka.offsets import written
from airflow_provider_connect.clients.kafka.outbox import Acknowledged
from airflow_provider_connect.publishing import next_generation, overtaken
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._kafka.context import Context
from airflow_provider_connect.sinks._kafka.ledger.records import Entry
from airflow_provider_connect.sinks._kafka.put import Sender, Sent
from airflow_provider_connect.sinks._kafka.records import Plan
from airflow_provider_connect.stage.manifest import StagedFile

if TYPE_CHECKING:
    import pyarrow as pa


class AtLeastOnce:
    """Sends days through idempotent producers."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.sink = context.sink

    def claim(self, plan: Plan) -> Plan:
        """Claim the day, and a generation to send records under that nobody else sends any under. Driver.

        :raises OvertakenError: somebody else has published the day since this attempt looked.
        """
        claims, used = self.context.claims, 0
        standing = self._mended(plan)
        while True:
            stood = dict(self.context.ledger.topic.view.positions)
            earlier = claims.newest(plan)
            if standing is not None and (mine := standing.published(plan.publish.intent.token)) is not None:
                plan = replace(plan, generation=mine.generation)
                claims.write(plan, earlier)
                return plan
            free = claims.free_generation(plan, standing.row if standing else None, earlier)
            if claims.is_of(earlier, plan):
                stood = {}  # of an earlier try, which may have died before it read on
            plan = replace(plan, generation=max(free, used + 1))
            claims.write(plan, earlier)
            if (lost_to := claims.lost_to(plan, stood)) is None:
                return plan
            used, standing = lost_to, self._standing(plan)

    def send(self, plan: Plan, files: tuple[StagedFile, ...], schema: pa.Schema) -> Sent:
        """Send a share. Executor."""
        outbox = Acknowledged(self.context.connection, self.sink.timeout_seconds, self.context.settings(plan))
        before = self.context.ends(plan)
        sent = Sender(self.sink, plan, outbox).send(files, schema, plan.generation or 1)
        outbox.flush()
        return replace(sent, offsets=written(before, self.context.ends(plan)))

    def complete(self, plan: Plan, receipts: list[Sent]) -> LedgerRow:
        """Write the day's record. Driver.

        :raises OvertakenError: somebody else has published the day since this attempt looked.
        """
        standing = self._mended(plan)
        if standing is not None and (mine := standing.published(plan.publish.intent.token)) is not None:
            return mine
        next_generation(plan.publish, standing.row if standing else None)
        self.context.require_tolerated(plan, receipts)
        outbox = Acknowledged(self.context.connection, self.sink.timeout_seconds, self.context.settings(plan))
        rejected = Sender(self.sink, plan, outbox).send_source_rejects()
        total = Sent.total(receipts, rejected)
        entry = self.context.entry(plan, plan.generation or 1, total, standing, plan.publish.manifest.seen.generation)
        self._settle(plan, entry, outbox)
        return entry.row

    def _settle(self, plan: Plan, entry: Entry, outbox: Acknowledged) -> None:
        """Write the day's record; where another one counts, that one again: compaction keeps a key's last.

        Of two that were decided on the same generation the first in the ledger counts. So the ledger's own order
        decides, and every reader of it finds the same.

        :raises OvertakenError: another one counts.
        """
        about, counts = self.context.about(plan), entry
        while True:
            outbox.send(self.sink.ledger_topic, about.encoded(), counts.model_dump_json().encode(), [])
            outbox.flush()
            last, counts = counts, self._standing(plan) or counts
            if counts.row.attempt == last.row.attempt:
                break
            counts = counts.over(entry)
        if counts.published(entry.row.token) is None:
            raise overtaken(plan.publish, counts.row)

    def _mended(self, plan: Plan) -> Entry | None:
        """Return the record that counts; where it is not its key's last, write it again, so that compaction keeps it.

        Who lost and wrote the winner again may have done so behind a newer day's record, and died before it saw that.
        """
        standing = self._standing(plan)
        last = self.context.ledger.outdone(plan.publish.day.date)
        if standing is None or last is None:
            return standing
        mended = standing.over(last)
        outbox = Acknowledged(self.context.connection, self.sink.timeout_seconds, self.context.settings(plan))
        about = self.context.about(plan)
        outbox.send(self.sink.ledger_topic, about.encoded(), mended.model_dump_json().encode(), [])
        outbox.flush()
        return mended

    def _standing(self, plan: Plan) -> Entry | None:
        about = self.context.about(plan)
        return self.context.ledger.entries(plan.publish.day.date, {about}).get(about)
