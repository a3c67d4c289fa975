"""Who publishes a day now: the claim that ``begin`` leaves in the ledger, before the first record is sent.

It decides nothing about what is published. It tells a producer that was fenced who did it, reserves a generation where
no single transaction finds one, and shows that the ledger is the one that ``begin`` wrote into.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.kafka.transaction import Transaction
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sinks._kafka.ledger.kafka_ledger import KafkaLedger
from airflow_provider_connect.sinks._kafka.ledger.records import Claim, LedgerKey, parse_record
from airflow_provider_connect.sinks._kafka.record_encoder import DayPlan

if TYPE_CHECKING:
    from airflow_provider_connect.sinks._kafka.options import KafkaOptions


class DayClaims:
    """The claims of one publish's day.

    :param plan: of the publish; its generation does not matter here, as the claims choose it.
    """

    def __init__(self, options: KafkaOptions, ledger: KafkaLedger, plan: DayPlan) -> None:
        self.options = options
        self.ledger = ledger
        self.plan = plan
        self.ledger_key: LedgerKey = ledger.key_for(plan.publish.day.date, "claim")
        self.description = f"{ledger.key} {plan.publish.day} into {options.topic!r}"
        """What is being published, for messages."""

    def newest_claim(self) -> Claim | None:
        """Return who began last to publish the day; None if nobody ever did."""
        return self.ledger.newest_claim(self.ledger_key)

    def new_claim(self, earlier: Claim | None, generation: int | None = None, *, parts: int = 0) -> Claim:
        """Return a claim, which remembers what those before it may have left behind.

        :param parts: how many transactions of their own the day's files get.
        """
        publish = self.plan.publish
        return Claim(
            token=publish.intent.token,
            run=publish.intent.run,
            attempt=publish.manifest.attempt,
            generation=generation,
            used=earlier.highest_generation if earlier else 0,
            parts=max(parts, earlier.parts if earlier else 0),
            begun=self.plan.begin_id,
            at=dt.datetime.now(dt.UTC),
        )

    def write_claim(self, earlier: Claim | None, generation: int | None = None) -> None:
        """Claim the day, outside of any transaction."""
        self.ledger.write_record(self.ledger_key, self.new_claim(earlier, generation))

    def find_conflicting_generation(self, generation: int, read_positions: dict[int, int]) -> int | None:
        """Return the highest generation that is claimed, where somebody else has claimed this one first; else None.

        Two that look before either writes claim the same one. Both read on when they have written: the first claim in
        the ledger holds, and whoever finds one before its own takes the next. A claim that comes later is in nobody's
        way, as its owner finds the first one in the same manner.

        :param read_to: how far the ledger was read when the generation was chosen: later claims were not seen.
        """
        records = self.ledger.records_since(self.ledger_key, read_positions)
        found = [parse_record(Claim, value, self.options.ledger_topic) for value in records]
        for claim in found:
            if claim.begun == self.plan.begin_id and claim.generation == generation:
                return None
            if claim.generation == generation and not self.is_same_try(claim):
                return max(other.generation or 0 for other in found)
        return None

    def is_same_try(self, claim: Claim | None) -> bool:
        """Tell whether a claim is of a try that sends the same files for the same intent."""
        publish = self.plan.publish
        mine = (publish.intent.token, publish.manifest.attempt)
        return claim is not None and (claim.token, claim.attempt) == mine

    def highest_used_generation(self) -> int:
        """Return the highest generation that a claim before this one may have sent records of.

        :raises ConfigError: the ledger does not know what ``begin`` wrote into it.
        """
        claim = self.newest_claim()
        if claim is None:
            raise ConfigError(
                f"{self.description}: ledger topic {self.options.ledger_topic!r} was deleted or emptied since this "
                "publish began: nothing is sent. Restore it, or publish into another topic with another ledger_topic"
            )
        return claim.used

    def is_held(self) -> bool:
        """Tell whether nobody has begun to publish the day since, not even another try of the same intent."""
        claim = self.newest_claim()
        return claim is not None and claim.begun == self.plan.begin_id

    def require_held(self) -> None:
        """Refuse to go on where another run, or another try of this one, has claimed the day.

        :raises RetriableError: it has.
        """
        claim = self.newest_claim()
        if claim is None or claim.begun != self.plan.begin_id:
            raise RetriableError(
                f"{self.description}: {claim.run if claim else 'another run'} has begun to publish this day too; "
                "the next try finds out whose answer counts"
            )

    def fencing_message(self, transaction: Transaction, error: str) -> str:
        """Say who fenced a producer, as far as the ledger knows."""
        try:
            claim = self.newest_claim()
        except (RetriableError, ConfigError):
            return f"{self.description}: {error}"
        if claim is not None and claim.attempt != self.plan.publish.manifest.attempt:
            began = f"which began to publish at {claim.at:%F %T} UTC"
            return f"{self.description}: fenced by {claim.run} (attempt {claim.attempt}), {began}"
        if transaction.open_seconds > self.options.transaction_timeout_seconds:
            return (
                f"{self.description}: the broker ended the transaction, which was open for {transaction.open_seconds:.0f} s and "
                f"may be for {self.options.transaction_timeout_seconds:.0f} s: raise transaction_timeout_seconds, or "
                "set atomicity='partition'"
            )
        others = (
            "another task of this same attempt, a retry of it, the clean-up of an earlier one, or a run that found the "
            "day unchanged"
        )
        return f"{self.description}: fenced by {others}"
