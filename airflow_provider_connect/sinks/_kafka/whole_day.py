"""Delivery of a whole day in one transaction, in the day's turn.

A broker may lose a committed transaction's end (KAFKA-20734, see 'Readers that stop' in ``docs/kafka_errors.md``).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from airflow_provider_connect.clients.kafka.errors import FencedError
from airflow_provider_connect.clients.kafka.transaction import RELEASE_SECONDS, Transaction
from airflow_provider_connect.errors import ConnectError, RetriableError
from airflow_provider_connect.patience import Patience
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._kafka.delivery import DayDelivery
from airflow_provider_connect.sinks._kafka.ledger.records import DayEntry
from airflow_provider_connect.sinks._kafka.record_encoder import DayPlan
from airflow_provider_connect.sinks._kafka.sender import SentShare, ShareSender
from airflow_provider_connect.sinks._kafka.snapshot_diff import SnapshotDiff
from airflow_provider_connect.sinks._kafka.turn import PassedOverError, Turn
from airflow_provider_connect.stage.manifest import StagedFile

if TYPE_CHECKING:
    from airflow_provider_connect.clients.kafka.topic_reader import EndOffsets
    from airflow_provider_connect.sinks._kafka.cluster import Cluster
_LOG = logging.getLogger("airflow_provider_connect.sinks.kafka")
VISIBILITY_SECONDS = 10.0
"""Time for a committed day to become visible, before a warning."""
_POLL_SECONDS = 0.05
_MAX_SHOWN = 10


class WholeDayDelivery(DayDelivery):
    """Sends a day in one transaction."""

    max_tries: ClassVar[int] = 5

    def begin(self, published_entry: DayEntry | None) -> DayPlan:
        """Claim the day. The transaction of :meth:`put` chooses the generation."""
        if self.row_of_this_intent(published_entry) is None:
            self.next_generation(self._previous_publish(published_entry))
        self.claims.write_claim(self.claims.newest_claim())
        return self.plan

    def put(self, files: tuple[StagedFile, ...]) -> SentShare:
        """Send and commit the day, unless it is published already."""
        with self._open_turn() as turn:
            if turn is not None:
                turn.wait_for_same_day()
            transaction = self.transaction()
            try:
                with transaction:
                    share = self._send_day(files, transaction, turn)
            except FencedError as error:
                raise self._fenced_error(transaction, turn, error) from None
            finally:
                if turn is not None:
                    turn.leave_queue(transaction_is_over=transaction.is_over)
        # The next day begins after this one and does not hide it. Without turns other days may, which is expected.
        if turn is not None and transaction.open_seconds and share.entry is not None:
            warn_if_hidden(self.cluster, share.entry, self.id, self.claims.description)
        return share

    def commit(self, receipts: list[SentShare]) -> LedgerRow:
        """Return the ledger row that :meth:`put` has committed."""
        (share,) = receipts
        assert share.entry is not None
        return share.entry.row

    def confirm(self) -> LedgerRow:
        """Confirm an unchanged day, without a turn. Waits for another run that sends the day."""
        with self._open_turn() as turn:
            if turn is None:
                return self.confirm_in_transaction()
            turn.wait_for_same_day()
            return self.confirm_in_transaction(turn.close_fenced_tickets)

    def abort(self) -> None:
        """End the transaction of a dead executor, unless another attempt has claimed the day.

        With turns, also does nothing if the executor left no ticket, or while another run sends the day.
        """
        if not self.claims.is_held():
            return
        with self._open_turn() as turn:
            if turn is not None and not turn.has_orphan():
                return
            seconds = RELEASE_SECONDS, self.options.transaction_timeout_seconds
            Transaction(self.cluster.connection, self.id, *seconds).fence()
            if turn is not None:
                turn.close_fenced_tickets()

    def _send_day(self, files: tuple[StagedFile, ...], transaction: Transaction, turn: Turn | None) -> SentShare:
        if turn is not None:
            turn.close_fenced_tickets()
        # From here on another publish of the day must fence this producer first. So this decision still holds at the
        # commit, however long the wait for the turn takes.
        published_entry = self.read_published_entry()
        if published_entry is not None and (own_row := self.row_of_this_intent(published_entry)) is not None:
            return SentShare.from_entry(published_entry.model_copy(update={"row": own_row}))
        newest_row = self._previous_publish(published_entry)
        generation = self.next_generation(newest_row, self.claims.highest_used_generation())
        sender = ShareSender(self.options, self.plan, transaction, files, generation)
        sender.encode_ahead()
        if turn is not None:
            turn.wait_for_turn()
            # An erase takes turns too. It has found earlier publishes, and later ones must read its list. Another day's
            # publish may have changed the definition in force.
            self.ledger.refresh()
            self.next_generation(newest_row)
        ends_before = self.cluster.end_offsets(self.topics)
        snapshot = None
        if self.plan.content == "changes":
            (topic,) = self.topics
            snapshot = SnapshotDiff(self.cluster, topic, ends_before[topic], self.publish.on_empty)
        transaction.begin()
        share = self.send(sender, ends_before, snapshot, with_source_rejects=True)
        entry = self.new_entry(generation, share, published_entry)
        self.write_record(transaction, entry)
        self.write_definition(transaction)
        transaction.commit()
        return replace(share, entry=entry)

    def _previous_publish(self, published_entry: DayEntry | None) -> LedgerRow | None:
        if self.publish.kind == "increment":
            return self.ledger.followed_increment(self.publish)
        if self.plan.content == "changes":
            return self.ledger.newest(self.publish.day.date, self.publish.kind)
        return published_entry.row if published_entry else None

    def _fenced_error(self, transaction: Transaction, turn: Turn | None, error: FencedError) -> RetriableError:
        in_time = transaction.open_seconds < self.options.transaction_timeout_seconds
        if turn is not None and in_time and self.claims.is_held():
            # Fenced by the run that passed it over, or by a later run that ends its earlier ticket.
            return PassedOverError(
                f"{self.claims.description}: was passed over, and another producer took its transactional id"
            )
        return FencedError(self.claims.fencing_message(transaction, str(error)))

    @contextlib.contextmanager
    def _open_turn(self) -> Iterator[Turn | None]:
        if self.options.turns == "off" or not self.topics:
            yield None
            return
        self.claims.highest_used_generation()  # reads the ledger to its end, where the queue continues
        description = f"{self.publish.intent.run} ({self.claims.description})"
        with self.cluster.turn(self.ledger.view, self.id, self.topics, description, self.plan.begin_id) as turn:
            yield turn


def warn_if_hidden(cluster: Cluster, entry: DayEntry, transactional_id: str, description: str) -> None:
    """Wait until readers of committed records see the day. Logs a warning if they still do not."""
    started = time.monotonic()
    try:
        hidden = _hidden_offsets(cluster, entry)
    except ConnectError as error:  # such as a partition that still has no leader
        hidden = [str(error)]
    if hidden:
        hidden_text = ", ".join(hidden[:_MAX_SHOWN]) + (", …" if len(hidden) > _MAX_SHOWN else "")
        _LOG.warning(
            "%s is published as generation %d, but readers of committed records have not got past it for %.0f s: %s. "
            "If no other program has a transaction open there, the broker has lost the end of transaction %r: "
            "see 'Readers that stop' in 'airflow connect docs kafka_errors'",
            description,
            entry.row.generation,
            time.monotonic() - started,
            hidden_text,
            transactional_id,
        )


def _hidden_offsets(cluster: Cluster, entry: DayEntry) -> list[str]:
    ledger = cluster.options.ledger_topic
    target_ends: EndOffsets = {
        topic: {part: span[1] for part, span in spans.items()} for topic, spans in entry.offsets.items()
    }
    target_ends |= cluster.end_offsets([ledger])
    patience = Patience(VISIBILITY_SECONDS, (_POLL_SECONDS,))
    while True:
        visible_ends = cluster.end_offsets(target_ends, committed=True)
        hidden = [
            f"{topic!r} partition {partition} at offset {visible_ends[topic][partition]} of {end}"
            for topic, partitions in target_ends.items()
            for partition, end in partitions.items()
            if visible_ends[topic].get(partition, end) < end
        ]
        if not hidden or not patience.wait_and_poll():
            return hidden
