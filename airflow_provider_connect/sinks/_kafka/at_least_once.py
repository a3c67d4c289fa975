"""Delivery without transactions. The order of the ledger's records decides between concurrent runs."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_connect.clients.kafka.outbox import AcknowledgedOutbox, Outbox
from airflow_provider_connect.errors import OvertakenError
from airflow_provider_connect.publishing import overtaken_error
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._kafka.delivery import DayDelivery
from airflow_provider_connect.sinks._kafka.ledger.records import DayEntry, DefinitionRecord
from airflow_provider_connect.sinks._kafka.record_encoder import DayPlan
from airflow_provider_connect.sinks._kafka.sender import SentShare, ShareSender
from airflow_provider_connect.stage.manifest import StagedFile


class AtLeastOnceDelivery(DayDelivery):
    """Sends a day without transactions."""

    def begin(self, published_entry: DayEntry | None) -> DayPlan:
        claims, highest_conflict = self.claims, 0
        published_entry = self._read_and_repair()
        while True:
            read_positions = dict(self.ledger.view.positions)
            newest_claim = claims.newest_claim()
            if (own_row := self.row_of_this_intent(published_entry)) is not None:
                claims.write_claim(newest_claim, own_row.generation)
                return replace(self.plan, generation=own_row.generation)
            free_generation = self.free_generation(published_entry.row if published_entry else None, newest_claim)
            if claims.is_same_try(newest_claim):
                read_positions = {}  # the earlier attempt may have died before it read the claims
            generation = max(free_generation, highest_conflict + 1)
            claims.write_claim(newest_claim, generation)
            if (conflicting_generation := claims.find_conflicting_generation(generation, read_positions)) is None:
                return replace(self.plan, generation=generation)
            highest_conflict, published_entry = conflicting_generation, self.read_published_entry()

    def put(self, files: tuple[StagedFile, ...]) -> SentShare:
        sender = ShareSender(self.options, self.plan, self._make_outbox(), files, self.plan.generation or 1)
        return self.send(sender, self.cluster.end_offsets(self.topics))

    def commit(self, receipts: list[SentShare]) -> LedgerRow:
        published_entry = self._read_and_repair()
        if (own_row := self.require_not_overtaken(published_entry)) is not None:
            return own_row
        self.require_tolerated(receipts)
        outbox = self._make_outbox()
        total = SentShare.total(receipts, self.send_source_rejects(outbox))
        entry = self.new_entry(self.plan.generation or 1, total, published_entry, self.publish.manifest.seen)
        # Before the day: if the publish dies between the two, one comparison too many follows instead of one too few.
        self.write_definition(outbox)
        self._write_until_settled(entry, outbox)
        return entry.row

    def confirm(self) -> LedgerRow:
        published_entry = self._read_and_repair()
        if (own_row := self.row_of_this_intent(published_entry)) is not None:
            return own_row
        entry = self.new_confirmation(published_entry, in_transaction=False)
        self._write_until_settled(entry, self._make_outbox())
        return entry.row

    def require_first_definition(self, outbox: Outbox, first_definition: DefinitionRecord) -> None:
        """Refuse a definition that is not the first. Writes the first again, as the newest record."""
        try:
            super().require_first_definition(outbox, first_definition)
        except OvertakenError:
            self.write_definition_record(outbox, first_definition)
            raise

    def _write_until_settled(self, entry: DayEntry, outbox: AcknowledgedOutbox) -> None:
        counting_entry = entry
        while True:
            self.write_record(outbox, counting_entry)
            outbox.flush()
            last_written, counting_entry = counting_entry, self.read_published_entry() or counting_entry
            if counting_entry.is_same_attempt(last_written):
                break
            counting_entry = counting_entry.rewritten_over(entry)
        if counting_entry.row_for_intent(entry.row.token) is None:
            raise overtaken_error(self.publish, counting_entry.row)

    def _read_and_repair(self) -> DayEntry | None:
        published_entry = self.read_published_entry()
        last_entry = self.ledger.superseded_entry(self.publish.day.date)
        if published_entry is None or last_entry is None:
            return published_entry
        rewritten_entry = published_entry.rewritten_over(last_entry)
        outbox = self._make_outbox()
        self.write_record(outbox, rewritten_entry)
        outbox.flush()
        return rewritten_entry

    def _make_outbox(self) -> AcknowledgedOutbox:
        return AcknowledgedOutbox(self.cluster.connection, self.options.timeout_seconds, self.producer_settings())
