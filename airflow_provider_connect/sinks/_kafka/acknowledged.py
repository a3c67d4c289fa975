"""A day without a transaction: its records are acknowledged first, and then the ledger decides whose day counts."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_connect.clients.kafka.outbox import Acknowledged, Outbox
from airflow_provider_connect.errors import OvertakenError
from airflow_provider_connect.publishing import overtaken
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._kafka.attempt import Attempt
from airflow_provider_connect.sinks._kafka.ledger.records import Entry, InForce
from airflow_provider_connect.sinks._kafka.put import Sender, Sent
from airflow_provider_connect.sinks._kafka.records import Plan
from airflow_provider_connect.stage.manifest import StagedFile


class AtLeastOnce(Attempt):
    """Sends a day through idempotent producers."""

    def begin(self, standing: Entry | None) -> Plan:
        """Claim the day, and a generation under which nobody else sends records."""
        claims, used = self.claims, 0
        standing = self._mended()
        while True:
            read_to = dict(self.ledger.view.positions)
            earlier = claims.newest()
            if (own := self.own(standing)) is not None:
                claims.write(earlier, own.generation)
                return replace(self.plan, generation=own.generation)
            free = self.free_generation(standing.row if standing else None, earlier)
            if claims.is_same_try(earlier):
                read_to = {}  # the earlier try may have died before it read on
            generation = max(free, used + 1)
            claims.write(earlier, generation)
            if (lost_to := claims.lost_to(generation, read_to)) is None:
                return replace(self.plan, generation=generation)
            used, standing = lost_to, self.standing()

    def put(self, files: tuple[StagedFile, ...]) -> Sent:
        """Send a share, and wait until the broker has it."""
        sender = Sender(self.options, self.plan, self._outbox(), files, self.plan.generation or 1)
        return self.send(sender, self.cluster.ends(self.topics))

    def commit(self, receipts: list[Sent]) -> LedgerRow:
        """Write the day's record.

        :raises OvertakenError: somebody else has published the day since this attempt looked.
        """
        standing = self._mended()
        if (own := self.settled(standing)) is not None:
            return own
        self.require_tolerated(receipts)
        outbox = self._outbox()
        total = Sent.total(receipts, self.send_source_rejects(outbox))
        entry = self.entry(self.plan.generation or 1, total, standing, self.publish.manifest.seen)
        # Before the day: a publish that dies between the two is compared with once too often, and not once too seldom.
        self.write_definition(outbox)
        self._settle(entry, outbox)
        return entry.row

    def confirm(self) -> LedgerRow:
        """Write the day's record once more, with one check more; the ledger's order decides, as at a commit."""
        standing = self._mended()
        if (own := self.own(standing)) is not None:
            return own
        entry = self.confirmed(standing, in_transaction=False)
        self._settle(entry, self._outbox())
        return entry.row

    def require_first(self, outbox: Outbox, first: InForce) -> None:
        """Do the same, and write the other one again: no transaction takes back the record that came too late."""
        try:
            super().require_first(outbox, first)
        except OvertakenError:
            self.write_in_force(outbox, first)
            raise

    def _settle(self, entry: Entry, outbox: Acknowledged) -> None:
        """Write the day's record; where another one counts, that one again: compaction keeps a key's last.

        Of two that were decided on the same generation the first in the ledger counts. So the ledger's own order
        decides, and every reader of it finds the same.

        :raises OvertakenError: another one counts.
        """
        counts = entry
        while True:
            self.write(outbox, counts)
            outbox.flush()
            last, counts = counts, self.standing() or counts
            if counts.is_same_try(last):
                break
            counts = counts.over(entry)
        if counts.published(entry.row.token) is None:
            raise overtaken(self.publish, counts.row)

    def _mended(self) -> Entry | None:
        """Return the record that counts; where it is not its key's last, write it again, so that compaction keeps it.

        The loser may have written the winner again behind a newer day's record, and died before it saw that.
        """
        standing = self.standing()
        last = self.ledger.outdone(self.publish.day.date)
        if standing is None or last is None:
            return standing
        mended = standing.over(last)
        outbox = self._outbox()
        self.write(outbox, mended)
        outbox.flush()
        return mended

    def _outbox(self) -> Acknowledged:
        return Acknowledged(self.cluster.connection, self.options.timeout_seconds, self.producer_settings())
