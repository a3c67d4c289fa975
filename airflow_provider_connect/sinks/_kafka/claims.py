"""Claims: ledger records that ``begin`` writes before a day's first record is sent."""

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
    """Claims of one publish's day."""

    def __init__(self, options: KafkaOptions, ledger: KafkaLedger, plan: DayPlan) -> None:
        self.options = options
        self.ledger = ledger
        self.plan = plan
        self.ledger_key: LedgerKey = ledger.key_for(plan.publish.day.date, "claim")
        self.description = f"{ledger.key} {plan.publish.day} into {options.topic!r}"
        """The publish in messages."""

    def newest_claim(self) -> Claim | None:
        return self.ledger.newest_claim(self.ledger_key)

    def new_claim(self, earlier: Claim | None, generation: int | None = None, *, parts: int = 0) -> Claim:
        """Return this publish's claim, with the earlier claim's generations and parts."""
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
        """Write this publish's claim outside of transactions."""
        self.ledger.write_record(self.ledger_key, self.new_claim(earlier, generation))

    def find_conflicting_generation(self, generation: int, read_positions: dict[int, int]) -> int | None:
        """Return the day's highest claimed generation if another run claimed ``generation`` first."""
        records = self.ledger.records_since(self.ledger_key, read_positions)
        claims = [parse_record(Claim, value, self.options.ledger_topic) for value in records]
        for claim in claims:
            if claim.begun == self.plan.begin_id and claim.generation == generation:
                return None
            if claim.generation == generation and not self.is_same_try(claim):
                return max(claimed.generation or 0 for claimed in claims)
        return None

    def is_same_try(self, claim: Claim | None) -> bool:
        """Return True if the claim has this publish's intent and files."""
        publish = self.plan.publish
        own_attempt = (publish.intent.token, publish.manifest.attempt)
        return claim is not None and (claim.token, claim.attempt) == own_attempt

    def highest_used_generation(self) -> int:
        """Return the day's highest generation for which an earlier claim may have sent records.

        :raises ConfigError: the claim of ``begin`` is lost.
        """
        claim = self.newest_claim()
        if claim is None:
            raise ConfigError(
                f"{self.description}: ledger topic {self.options.ledger_topic!r} was deleted or emptied after this "
                "publish began. Nothing is sent. Restore it, or publish into another topic with another ledger_topic"
            )
        return claim.used

    def is_held(self) -> bool:
        claim = self.newest_claim()
        return claim is not None and claim.begun == self.plan.begin_id

    def require_held(self) -> None:
        """Check that the day's newest claim is this publish's.

        :raises RetriableError: another attempt holds it.
        """
        claim = self.newest_claim()
        if claim is None or claim.begun != self.plan.begin_id:
            raise RetriableError(
                f"{self.description}: {claim.run if claim else 'another run'} has begun to publish this day too: "
                "the next attempt lets the ledger decide"
            )

    def fencing_message(self, transaction: Transaction, error: str) -> str:
        """Explain why a producer was fenced, with the other run if known."""
        try:
            claim = self.newest_claim()
        except (RetriableError, ConfigError):
            return f"{self.description}: {error}"
        if claim is not None and claim.attempt != self.plan.publish.manifest.attempt:
            claim_text = f"which began to publish at {claim.at:%F %T} UTC"
            return f"{self.description}: fenced by {claim.run} (attempt {claim.attempt}), {claim_text}"
        if transaction.open_seconds > self.options.transaction_timeout_seconds:
            return (
                f"{self.description}: the broker ended the transaction, which was open for "
                f"{transaction.open_seconds:.0f} s and "
                f"may be for {self.options.transaction_timeout_seconds:.0f} s: raise transaction_timeout_seconds, or "
                "set atomicity='partition'"
            )
        candidates = (
            "another task of this same attempt, a retry of it, the clean-up of an earlier one, or a run that found the "
            "day unchanged"
        )
        return f"{self.description}: fenced by {candidates}"
