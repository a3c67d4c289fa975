"""A whole day in one transaction: its records and its ledger record, when it is the day's turn."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.kafka.errors import FencedError
from airflow_provider_connect.clients.kafka.offsets import written
from airflow_provider_connect.clients.kafka.transaction import RELEASE_SECONDS, Transaction
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.publishing import next_generation
from airflow_provider_connect.sinks._kafka.context import Context
from airflow_provider_connect.sinks._kafka.put import Sender, Sent
from airflow_provider_connect.sinks._kafka.records import Plan
from airflow_provider_connect.sinks._kafka.turns.turn import PassedOverError, Turn
from airflow_provider_connect.stage.manifest import StagedFile

if TYPE_CHECKING:
    import pyarrow as pa


class WholeDay:
    """Sends days, each in one transaction of one producer. Executor, and the driver's clean-up."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.sink = context.sink

    def send(self, plan: Plan, files: tuple[StagedFile, ...], schema: pa.Schema) -> Sent:
        """Send and commit the day; nothing of a day that is published already.

        :raises UndecidedError: whether it was committed is not known.
        :raises PassedOverError: others took this one for dead, and went on.
        :raises OvertakenError: somebody else has published the day since this attempt looked.
        """
        with self._turn(plan) as turn:
            if turn is not None:
                turn.wait_for_own_day()
            transaction = self.context.transaction(plan)
            try:
                with transaction:
                    return self._send(plan, files, schema, transaction, turn)
            except FencedError as error:
                raise self._fenced(plan, transaction, turn, error) from None
            finally:
                if turn is not None:
                    turn.leave(is_over=transaction.is_over)

    def _send(
        self, plan: Plan, files: tuple[StagedFile, ...], schema: pa.Schema, transaction: Transaction, turn: Turn | None
    ) -> Sent:
        context = self.context
        transaction.fence()
        if turn is not None:
            turn.end_fenced()
        # From here on nobody else can publish the day without fencing this producer: what is decided now holds at the
        # commit, however long the turn is waited for.
        standing = context.ledger.entries(plan.publish.day.date, {context.about(plan)}).get(context.about(plan))
        if standing is not None and (mine := standing.published(plan.publish.intent.token)) is not None:
            return Sent.of(standing.model_copy(update={"row": mine}))
        used = context.claims.used_before(plan)
        generation = next_generation(plan.publish, context.newest(plan, standing), used)
        sender = Sender(self.sink, plan, transaction)
        sender.prepare(files, schema, generation)
        if turn is not None:
            turn.take()
        before = context.ends(plan)
        snapshot = context.snapshot(plan, before) if plan.content == "changes" else None
        transaction.begin()
        sent = sender.send(files, schema, generation, snapshot)
        source_rejects = sender.send_source_rejects()
        transaction.flush()
        require_all(transaction, files, sent, source_rejects)
        sent = replace(
            sent,
            rejected=sent.rejected + source_rejects,
            offsets=written(before, context.ends(plan)),
            seconds=transaction.seconds,
        )
        entry = context.entry(plan, generation, sent, standing)
        transaction.send(self.sink.ledger_topic, context.about(plan).encoded(), entry.model_dump_json().encode(), [])
        transaction.commit()
        return replace(sent, entry=entry)

    def _fenced(self, plan: Plan, transaction: Transaction, turn: Turn | None, error: FencedError) -> RetriableError:
        """Return what to raise where another producer has taken the day's id."""
        in_time = transaction.seconds < self.sink.transaction_timeout_seconds
        if turn is not None and in_time and self.context.claims.is_own(plan):
            # By who passed it over, or, where it queued again meanwhile, by who ends now what it left open before.
            return PassedOverError(f"{self.context.claims.where(plan)}: was passed over, and its id was taken")
        return FencedError(self.context.claims.who_fenced(plan, transaction, str(error)))

    @contextlib.contextmanager
    def _turn(self, plan: Plan) -> Iterator[Turn | None]:
        """Open the queue; None where no turns are taken."""
        if self.sink.turns == "off" or not plan.topics:
            yield None
            return
        context = self.context
        context.claims.used_before(plan)  # reads the ledger on; the queue is followed from there
        with Turn(
            context.connection,
            context.ledger.topic.view,
            context.id(plan),
            plan.topics,
            f"{plan.publish.intent.run} ({context.claims.where(plan)})",
            plan.begun,
            self.sink.transaction_timeout_seconds,
            self.sink.timeout_seconds,
        ) as turn:
            yield turn

    def abort(self, plan: Plan) -> None:
        """End what an executor left open that died. Driver.

        Nothing is done where another run, or another try, has claimed the day meanwhile: it ends, or has ended, what is
        open. Nor, where days take turns, if no ticket says that something is, or if somebody else is sending.
        """
        context = self.context
        if not context.claims.is_own(plan):
            return
        with self._turn(plan) as turn:
            if turn is not None and not turn.has_orphan():
                return
            name, seconds = context.id(plan), self.sink.transaction_timeout_seconds
            with Transaction(context.connection, name, RELEASE_SECONDS, seconds) as orphan:
                orphan.fence()
            if turn is not None:
                turn.end_fenced()


def require_all(transaction: Transaction, files: tuple[StagedFile, ...], sent: Sent, source_rejects: int) -> None:
    """Refuse to commit fewer or more records than the staged rows make.

    :raises RetriableError: the client took another number.
    """
    staged = sum(file.rows for file in files)
    expected = staged - sent.unchanged + sent.vanished + source_rejects
    if sent.rows + sent.rejected != staged or transaction.accepted != expected:
        raise RetriableError(
            f"{staged:,} rows were staged and {expected:,} records should be sent, but the client took "
            f"{transaction.accepted:,}: nothing is committed"
        )
