"""Who publishes a day now: the claim that ``begin`` leaves in the ledger, before the first record is sent.

It decides nothing about what is published. It tells a producer that was fenced who did it, reserves a generation where
no single transaction finds one, and shows that the ledger is the one that ``begin`` wrote into.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sinks._kafka_ledger import Claim, Entry, KafkaLedger, LedgerKey
from airflow_provider_connect.sinks._kafka_records import Plan
from airflow_provider_connect.sinks._kafka_transaction import Transaction

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
            order=plan.publish.intent.order,
            run=plan.publish.intent.run,
            attempt=plan.publish.manifest.attempt,
            generation=plan.generation,
            used=_used(earlier),
            parts=max(parts, earlier.parts if earlier else 0),
            at=dt.datetime.now(dt.UTC),
        )
        return self._about(plan).encoded(), claim.model_dump_json().encode()

    def free_generation(self, plan: Plan, entries: dict[LedgerKey, Entry], claim: Claim | None) -> int:
        """Return a generation that no other intent, and no other try with other files, has sent records of."""
        if claim and claim.generation and _is_of(claim, plan):
            return claim.generation
        return max([_used(claim), *(entry.row.generation for entry in entries.values())]) + 1

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

    def require_own(self, plan: Plan) -> None:
        """Refuse to go on where another run has claimed the day.

        :raises RetriableError: it has.
        """
        claim = self.newest(plan)
        if claim is None or not _is_of(claim, plan):
            raise RetriableError(
                f"{self.where(plan)}: {claim.run if claim else 'another run'} has begun to publish this day too; "
                "the next try goes on or ends as superseded"
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


def _is_of(claim: Claim, plan: Plan) -> bool:
    return (claim.token, claim.attempt) == (plan.publish.intent.token, plan.publish.manifest.attempt)


def _used(claim: Claim | None) -> int:
    return max(claim.used, claim.generation or 0) if claim else 0
