"""Delivery in parts: a transaction for each staged file, one before and one after."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar

from airflow_provider_connect.clients.kafka.errors import FencedError
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._kafka.delivery import DayDelivery
from airflow_provider_connect.sinks._kafka.ledger.records import DayEntry
from airflow_provider_connect.sinks._kafka.record_encoder import DayPlan
from airflow_provider_connect.sinks._kafka.sender import SentShare, ShareSender
from airflow_provider_connect.stage.manifest import StagedFile


class PartwiseDelivery(DayDelivery):
    """Delivery of each staged file in its own transaction."""

    max_tries: ClassVar[int] = 3

    def begin(self, published_entry: DayEntry | None) -> DayPlan:
        """Claim the day, end other runs' transactions of it, and reserve a generation.

        Afterwards no other run can commit a part.
        """
        with self.transaction() as transaction:
            newest_claim = self.claims.newest_claim()
            earlier_parts = newest_claim.parts if newest_claim else 0
            self._end_parts(earlier_parts)  # their open transactions hide the day's publish
            published_entry = self.read_published_entry()
            if (own_row := self.row_of_this_intent(published_entry)) is not None:
                return replace(self.plan, generation=own_row.generation)
            generation = self.free_generation(published_entry.row if published_entry else None, newest_claim)
            transaction.begin()
            claim = self.claims.new_claim(newest_claim, generation, parts=len(self.publish.manifest.polled.files))
            self.write_record(transaction, claim, self.claims.ledger_key)
            transaction.commit()
        self._end_parts(earlier_parts)
        return replace(self.plan, generation=generation)

    def put(self, files: tuple[StagedFile, ...]) -> SentShare:
        """Send and commit one file, unless it is published already."""
        part = [file.path for file in self.publish.manifest.polled.files].index(files[0].path)
        generation = self.plan.generation or 1
        if not self.claims.is_held():
            # A zombie that took the part's id would fence the rightful sender.
            newest = self.ledger.entry(self.publish.day.date)
            if self.require_not_overtaken(newest) is None:
                self.claims.require_held()
        key = self.ledger_key._replace(kind="part", part=part)
        transaction = self.transaction(part)
        try:
            with transaction:
                entries = self.ledger.entries(self.ledger_key, key)
                published_entry, part_entry = entries.get(self.ledger_key), entries.get(key)
                if self.require_not_overtaken(published_entry) is not None and published_entry is not None:
                    return SentShare.from_entry(published_entry)  # the day is already complete
                self.claims.require_held()
                if part_entry is not None and part_entry.row.generation == self.plan.generation:
                    return SentShare.from_entry(part_entry)
                ends_before = self.cluster.end_offsets(self.topics)
                transaction.begin()
                share = self.send(ShareSender(self.options, self.plan, transaction, files, generation), ends_before)
                entry = self.new_entry(generation, share)
                self.write_record(transaction, entry, key)
                transaction.commit()
        except FencedError as error:
            raise FencedError(self.claims.fencing_message(transaction, str(error))) from None
        return replace(share, entry=entry)

    def commit(self, receipts: list[SentShare]) -> LedgerRow:
        with self.transaction() as transaction:
            published_entry = self.read_published_entry()
            if (own_row := self.require_not_overtaken(published_entry)) is not None:
                return own_row
            self.claims.require_held()
            self.require_tolerated(receipts)
            transaction.begin()
            rejected = self.send_source_rejects(transaction)
            entry = self.new_entry(self.plan.generation or 1, SentShare.total(receipts, rejected), published_entry)
            self.write_record(transaction, entry)
            self.write_definition(transaction)
            transaction.flush()
            transaction.commit()
        return entry.row

    def abort(self) -> None:
        """End dead executors' transactions, unless another run has claimed the day."""
        if self.claims.is_held():
            self._end_parts(len(self.publish.manifest.polled.files))

    def _end_parts(self, parts: int) -> None:
        def end(part: int) -> None:
            self.transaction(part).fence()

        with ThreadPoolExecutor(8) as pool:  # each call waits a quarter of a second
            list(pool.map(end, range(parts)))
