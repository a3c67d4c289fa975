"""Who publishes a day now: the claim that ``begin`` leaves in the ledger, before the first record is sent.

It decides nothing about what is published. It tells a producer that was fenced who did it, reserves a generation where
no single transaction finds one, and shows that the ledger is the one that ``begin`` wrote into.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.kafka.outbox import Acknowledged
from airflow_provider_connect.clients.kafka.transaction import Transaction
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.publishing import next_generation
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._kafka.ledger.days import KafkaLedger
from airflow_provider_connect.sinks._kafka.ledger.records import Claim, LedgerKey, parsed
from airflow_provider_connect.sinks._kafka.records import Plan

if TYPE_CHECKING:
    from airflow_provider_connect.sinks.kafka import KafkaSink


class Claims:
    """The claims of one stream's days."""

    def __init__(self, sink: KafkaSink, ledger: KafkaLedger) -> None:
        self.sink = sink
        self.ledger = ledger

    def newest(self, plan: Plan) -> Claim | None:
        """Return who began last to publish the plan's day; None if nobody ever did."""
        return self.ledger.topic.newest_claim(self._about(plan))

    def record(self, plan: Plan, earlier: Claim | None) -> tuple[bytes, bytes]:
        """Return key and value of a claim, which remembers what those before it may have left behind."""
        in_parts = self.sink.delivery == "exactly_once" and self.sink.atomicity == "partition"
        parts = len(plan.publish.manifest.polled.files) if in_parts else 0
        claim = Claim(
            token=plan.publish.intent.token,
            run=plan.publish.intent.run,
            attempt=plan.publish.manifest.attempt,
            generation=plan.generation,
            used=_used(earlier),
            parts=max(parts, earlier.parts if earlier else 0),
            begun=plan.begun,
            at=dt.datetime.now(dt.UTC),
        )
        return self._about(plan).encoded(), claim.model_dump_json().encode()

    def write(self, plan: Plan, earlier: Claim | None) -> None:
        """Write the plan's claim, outside of any transaction."""
        # A claim that is written twice is the same claim, and getting an idempotent producer's id takes half a second.
        outbox = Acknowledged(self.ledger.topic.connection, self.sink.timeout_seconds, {"enable.idempotence": False})
        outbox.send(self.sink.ledger_topic, *self.record(plan, earlier), [])
        outbox.flush()

    def lost_to(self, plan: Plan, stood: dict[int, int]) -> int | None:
        """Return the highest generation that is claimed, where somebody else has claimed the plan's one before it did.

        None where the generation is the plan's own. Two that look before either writes claim the same one. Both read
        on when they have written: the first claim in the ledger holds, and whoever finds one before its own takes the
        next. A claim that comes later is in nobody's way, as its owner finds the first one in the same manner.

        :param stood: from where on the claims are read that nobody had seen when the generation was chosen.
        """
        found = [
            parsed(Claim, value, self.sink.ledger_topic)
            for value in self.ledger.topic.written_since(self._about(plan), stood)
        ]
        for claim in found:
            if claim.begun == plan.begun and claim.generation == plan.generation:
                return None
            if claim.generation == plan.generation and not self.is_of(claim, plan):
                return max(other.generation or 0 for other in found)
        return None

    def free_generation(self, plan: Plan, newest: LedgerRow | None, claim: Claim | None) -> int:
        """Return a generation that no other intent, and no other try with other files, has sent records of.

        :param newest: the day's newest publish: what counts is published; a claim alone stands in nobody's way.
        :raises OvertakenError: somebody else has published the day since this attempt looked.
        """
        free = next_generation(plan.publish, newest, _used(claim))
        return claim.generation if claim and claim.generation and self.is_of(claim, plan) else free

    @staticmethod
    def is_of(claim: Claim | None, plan: Plan) -> bool:
        """Tell whether a claim is of a try that sends the same files for the same intent."""
        mine = (plan.publish.intent.token, plan.publish.manifest.attempt)
        return claim is not None and (claim.token, claim.attempt) == mine

    def used_before(self, plan: Plan) -> int:
        """Return the highest generation that a claim before this one may have sent records of.

        :raises ConfigError: the ledger does not know what ``begin`` wrote into it.
        """
        claim = self.newest(plan)
        if claim is None:
            raise ConfigError(
                f"{self.where(plan)}: ledger topic {self.sink.ledger_topic!r} was deleted or emptied since this "
                "publish began: nothing is sent. Restore it, or publish into another topic with another ledger_topic"
            )
        return claim.used

    def is_own(self, plan: Plan) -> bool:
        """Tell whether nobody has begun to publish the day since the plan was made, another try of it neither."""
        claim = self.newest(plan)
        return claim is not None and claim.begun == plan.begun

    def require_own(self, plan: Plan) -> None:
        """Refuse to go on where another run, or another try of this one, has claimed the day.

        :raises RetriableError: it has.
        """
        claim = self.newest(plan)
        if claim is None or claim.begun != plan.begun:
            raise RetriableError(
                f"{self.where(plan)}: {claim.run if claim else 'another run'} has begun to publish this day too; "
                "the next try finds out whose answer counts"
            )

    def who_fenced(self, plan: Plan, transaction: Transaction, error: str) -> str:
        """Say who fenced a producer, as far as the ledger knows."""
        where = self.where(plan)
        try:
            claim = self.newest(plan)
        except (RetriableError, ConfigError):
            return f"{where}: {error}"
        if claim is not None and claim.attempt != plan.publish.manifest.attempt:
            began = f"which began to publish at {claim.at:%F %T} UTC"
            return f"{where}: fenced by {claim.run} (attempt {claim.attempt}), {began}"
        if transaction.seconds > self.sink.transaction_timeout_seconds:
            return (
                f"{where}: the broker ended the transaction, which was open for {transaction.seconds:.0f} s and may be "
                f"for {self.sink.transaction_timeout_seconds:.0f} s: raise transaction_timeout_seconds, or set "
                "atomicity='partition'"
            )
        others = "another task of this same attempt, a retry of it, or the clean-up of an earlier one"
        return f"{where}: fenced by {others}"

    def where(self, plan: Plan) -> str:
        """Return what is being published, for messages."""
        return f"{self.ledger.key} {plan.publish.day} into {self.sink.topic!r}"

    def _about(self, plan: Plan) -> LedgerKey:
        return self.ledger.about(plan.publish.day.date, "claim")


def _used(claim: Claim | None) -> int:
    return max(claim.used, claim.generation or 0) if claim else 0
