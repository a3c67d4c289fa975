"""A day in parts: a transaction for each staged file, and one each that reserves the day and that completes it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.kafka.errors import FencedError
from airflow_provider_connect.clients.kafka.offsets import written
from airflow_provider_connect.publishing import next_generation
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._kafka.context import Context
from airflow_provider_connect.sinks._kafka.put import Sender, Sent
from airflow_provider_connect.sinks._kafka.records import Plan
from airflow_provider_connect.sinks._kafka.whole_day import require_all
from airflow_provider_connect.stage.manifest import StagedFile

if TYPE_CHECKING:
    import pyarrow as pa


class Parts:
    """Sends days file by file. What decides is what is published: a claim alone is in nobody's way."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.sink = context.sink

    def reserve(self, plan: Plan) -> int:
        """Claim the day, end what others are sending of it, and return the generation. Driver.

        After that no part of an earlier claim is committed any more: its producers are fenced, and new ones see that
        the claim is another's. So what lies between the offsets in the ledger is of one generation.

        :raises OvertakenError: somebody else has published the day since this attempt looked.
        """
        context = self.context
        with context.transaction(plan) as transaction:
            transaction.fence()
            earlier = context.claims.newest(plan)
            earlier_parts = earlier.parts if earlier else 0
            self._end_parts(plan, earlier_parts)  # what they have open hides what is published of the day
            standing = context.ledger.entries(plan.publish.day.date).get(context.about(plan))
            if standing is not None and (mine := standing.published(plan.publish.intent.token)) is not None:
                return mine.generation
            generation = context.claims.free_generation(plan, standing.row if standing else None, earlier)
            claimed = replace(plan, generation=generation)
            transaction.begin()
            transaction.send(self.sink.ledger_topic, *context.claims.record(claimed, earlier), [])
            transaction.commit()
        self._end_parts(plan, earlier_parts)
        return generation

    def send(self, plan: Plan, files: tuple[StagedFile, ...], schema: pa.Schema, part: int) -> Sent:
        """Send and commit one file; nothing of one that is published already. Executor.

        :raises UndecidedError: whether it was committed is not known.
        :raises RetriableError: another run has claimed the day.
        """
        context, about = self.context, self.context.about(plan, part)
        if not context.claims.is_own(plan):
            # A zombie that took the part's id would fence who sends it rightfully.
            newest = context.ledger.entry(plan.publish.day.date)
            if newest is None or newest.published(plan.publish.intent.token) is None:
                next_generation(plan.publish, newest.row if newest else None)
                context.claims.require_own(plan)
        with context.transaction(plan, part) as transaction:
            try:
                transaction.fence()
                entries = context.ledger.entries(plan.publish.day.date, {context.about(plan), about})
                standing, known = entries.get(context.about(plan)), entries.get(about)
                if standing is not None and standing.published(plan.publish.intent.token) is not None:
                    return Sent.of(standing)  # whoever completes the day finds it there
                next_generation(plan.publish, standing.row if standing else None)
                context.claims.require_own(plan)
                if known is not None and known.row.generation == plan.generation:
                    return Sent.of(known)
                before = context.ends(plan)
                transaction.begin()
                sent = Sender(self.sink, plan, transaction).send(files, schema, plan.generation or 1)
                transaction.flush()
                require_all(transaction, files, sent, 0)
                sent = replace(sent, offsets=written(before, context.ends(plan)), seconds=transaction.seconds)
                entry = context.entry(plan, plan.generation or 1, sent)
                transaction.send(self.sink.ledger_topic, about.encoded(), entry.model_dump_json().encode(), [])
                transaction.commit()
            except FencedError as error:
                raise FencedError(context.claims.who_fenced(plan, transaction, str(error))) from None
        return replace(sent, entry=entry)

    def complete(self, plan: Plan, receipts: list[Sent]) -> LedgerRow:
        """Write the day's record; the day is published then. Driver.

        :raises OvertakenError: somebody else has published the day since this attempt looked.
        """
        context = self.context
        with context.transaction(plan) as transaction:
            transaction.fence()
            about = context.about(plan)
            standing = context.ledger.entries(plan.publish.day.date, {about}).get(about)
            if standing is not None and (mine := standing.published(plan.publish.intent.token)) is not None:
                return mine
            next_generation(plan.publish, standing.row if standing else None)
            context.claims.require_own(plan)
            context.require_tolerated(plan, receipts)
            transaction.begin()
            rejected = Sender(self.sink, plan, transaction).send_source_rejects()
            entry = context.entry(plan, plan.generation or 1, Sent.total(receipts, rejected), standing)
            transaction.send(self.sink.ledger_topic, about.encoded(), entry.model_dump_json().encode(), [])
            transaction.flush()
            transaction.commit()
        return entry.row

    def abort(self, plan: Plan) -> None:
        """End what executors left open that died. Driver; nothing where another run has claimed the day meanwhile."""
        if self.context.claims.is_own(plan):
            self._end_parts(plan, len(plan.publish.manifest.polled.files))

    def _end_parts(self, plan: Plan, parts: int) -> None:
        def end(part: int) -> None:
            with self.context.transaction(plan, part) as others:
                others.fence()

        with ThreadPoolExecutor(8) as pool:  # each waits for a quarter of a second
            list(pool.map(end, range(parts)))
