"""A day in parts: a transaction for each staged file, one to reserve the day before, and one to complete it behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar

from airflow_provider_connect.clients.kafka.errors import FencedError
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._kafka.attempt import Attempt
from airflow_provider_connect.sinks._kafka.ledger.records import Entry
from airflow_provider_connect.sinks._kafka.put import Sender, Sent
from airflow_provider_connect.sinks._kafka.records import Plan
from airflow_provider_connect.stage.manifest import StagedFile


class Parts(Attempt):
    """Sends a day file by file. What is published decides: a claim alone is in nobody's way."""

    tries: ClassVar[int] = 3

    def begin(self, standing: Entry | None) -> Plan:
        """Claim the day, end what others are sending of it, and reserve a generation.

        After that no part of an earlier claim is committed any more: its producers are fenced, and new ones see that
        the claim is another's. So what lies between the offsets in the ledger is of one generation.
        """
        with self.transaction() as transaction:
            earlier = self.claims.newest()
            earlier_parts = earlier.parts if earlier else 0
            self._end_parts(earlier_parts)  # what they have open hides what is published of the day
            standing = self.standing()
            if (own := self.own(standing)) is not None:
                return replace(self.plan, generation=own.generation)
            generation = self.free_generation(standing.row if standing else None, earlier)
            transaction.begin()
            claim = self.claims.record(earlier, generation, parts=len(self.publish.manifest.polled.files))
            self.write(transaction, claim, self.claims.key)
            transaction.commit()
        self._end_parts(earlier_parts)
        return replace(self.plan, generation=generation)

    def put(self, files: tuple[StagedFile, ...]) -> Sent:
        """Send and commit one file; nothing of one that is published already.

        :raises UndecidedError: whether it was committed is not known.
        :raises RetriableError: another run has claimed the day.
        """
        part = [file.path for file in self.publish.manifest.polled.files].index(files[0].path)
        generation = self.plan.generation or 1
        if not self.claims.is_own():
            # A zombie that took the part's id would fence who sends it rightfully.
            newest = self.ledger.entry(self.publish.day.date)
            if self.settled(newest) is None:
                self.claims.require_own()
        key = self.key._replace(what="part", part=part)
        transaction = self.transaction(part)
        try:
            with transaction:
                entries = self.ledger.entries(self.key, key)
                standing, known = entries.get(self.key), entries.get(key)
                if self.settled(standing) is not None and standing is not None:
                    return Sent.from_entry(standing)  # whoever completes the day finds it there
                self.claims.require_own()
                if known is not None and known.row.generation == self.plan.generation:
                    return Sent.from_entry(known)
                before = self.cluster.ends(self.topics)
                transaction.begin()
                sent = self.send(Sender(self.options, self.plan, transaction, files, generation), before)
                entry = self.entry(generation, sent)
                self.write(transaction, entry, key)
                transaction.commit()
        except FencedError as error:
            raise FencedError(self.claims.who_fenced(transaction, str(error))) from None
        return replace(sent, entry=entry)

    def commit(self, receipts: list[Sent]) -> LedgerRow:
        """Write the day's record; the day is published then.

        :raises OvertakenError: somebody else has published the day since this attempt looked.
        """
        with self.transaction() as transaction:
            standing = self.standing()
            if (own := self.settled(standing)) is not None:
                return own
            self.claims.require_own()
            self.require_tolerated(receipts)
            transaction.begin()
            rejected = self.send_source_rejects(transaction)
            entry = self.entry(self.plan.generation or 1, Sent.total(receipts, rejected), standing)
            self.write(transaction, entry)
            self.write_definition(transaction)
            transaction.flush()
            transaction.commit()
        return entry.row

    def abort(self) -> None:
        """End what executors left open that died; nothing where another run has claimed the day meanwhile."""
        if self.claims.is_own():
            self._end_parts(len(self.publish.manifest.polled.files))

    def _end_parts(self, parts: int) -> None:
        def end(part: int) -> None:
            self.transaction(part).fence()

        with ThreadPoolExecutor(8) as pool:  # each waits for a quarter of a second
            list(pool.map(end, range(parts)))
