"""Producer for one transaction. A second transaction needs a new producer.

With a reused producer, a delayed response to the first transaction could commit or abort the second
(https://jepsen.io/analyses/bufstream-0.1.0, 2024-11).
"""

from __future__ import annotations

import hashlib
import json
import time
from types import TracebackType
from typing import Any

from airflow_provider_connect.clients.kafka.errors import (
    FencedError,
    classify,
    is_fenced,
    kafka_error_of,
    translate_kafka_errors,
)
from airflow_provider_connect.clients.kafka.outbox import Outbox
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.patience import Patience

RELEASE_SECONDS = 10.0
USABLE_TIME_SHARE = 0.9
"""Share of the timeout after which a transaction is aborted."""


class UndecidedError(RetriableError):
    """The outcome of a commit is unknown until the ledger is read again."""


def transactional_id(*names: str | int) -> str:
    """Return the transactional id of a day or a part of it, which all runs and attempts share."""
    return f"connect-{hashlib.sha256(json.dumps(names).encode()).hexdigest()[:32]}"


class Transaction(Outbox):
    """Producer with a transactional id. Readers see nothing unless :meth:`commit` returns.

    :param transaction_timeout_seconds: age at which the broker ends the transaction.
    :param description: the transaction in messages. Defaults to the id.
    """

    def __init__(
        self,
        connection: Connection,
        transactional_id: str,
        timeout_seconds: float,
        transaction_timeout_seconds: float,
        settings: dict[str, Any] | None = None,
        *,
        description: str | None = None,
    ) -> None:
        milliseconds = int(transaction_timeout_seconds * 1000)
        times = {"transaction.timeout.ms": milliseconds, "message.timeout.ms": milliseconds}
        overrides = {"transactional.id": transactional_id} | times
        super().__init__(connection, timeout_seconds, (settings or {}) | overrides)
        self.id = transactional_id
        self.description = description or repr(transactional_id)
        self.transaction_timeout_seconds = transaction_timeout_seconds
        self._connection = connection
        self._begun_at = 0.0
        self._is_over = True

    @property
    def is_over(self) -> bool:
        """True if no transaction is open: never begun, committed, aborted or fenced."""
        return self._is_over

    def fence(self) -> None:
        """Take the transactional id. This fences the id's earlier producers and ends their transactions.

        :raises ConfigError: the broker does not allow this timeout, or the user may not use the id.
        """
        from confluent_kafka import KafkaException

        try:
            self._producer.init_transactions(self.timeout_seconds)
        except KafkaException as error:
            self.client_errors.poll(self._producer)  # collects the reason of a timeout
            raise classify(error, f"taking transactional id {self.id!r}", self.client_errors) from None

    def begin(self) -> None:
        """Begin the transaction. Its age at the broker counts from the first record."""
        self._begun_at = time.monotonic()
        self._is_over = False
        with translate_kafka_errors("beginning a transaction", self.client_errors):
            self._producer.begin_transaction()

    def raise_cause(self, error: Exception) -> None:
        """Raise the reason for an error that only reports a "fatal" or "erroneous state".

        The client refuses the transaction's next step with the error that broke the transaction.
        """
        from confluent_kafka import KafkaError

        kafka_error = kafka_error_of(error)
        if kafka_error is not None and kafka_error.code() == KafkaError._FATAL:
            self._producer.abort_transaction(1.0)
        if kafka_error is not None and kafka_error.code() == KafkaError._STATE:
            self._producer.begin_transaction()

    @property
    def open_seconds(self) -> float:
        """Seconds since the transaction began, or 0."""
        return time.monotonic() - self._begun_at if self._begun_at else 0.0

    def require_time_left(self, sent_records: int, total_records: int) -> None:
        """Check the transaction's age while there is still time to abort it.

        :raises RetriableError: the time is nearly over.
        """
        if self.open_seconds > USABLE_TIME_SHARE * self.transaction_timeout_seconds:
            raise self._too_slow_error(sent_records, total_records)

    def flush(self) -> None:
        """Wait until the broker has acknowledged or refused every record.

        :raises RetriableError: also if the transaction's time is over and unsent records were dropped.
        """
        super().flush()
        if self.open_seconds > self.transaction_timeout_seconds:
            raise self._too_slow_error(self.accepted_records, self.accepted_records)

    def _too_slow_error(self, sent_records: int, total_records: int) -> RetriableError:
        return RetriableError(
            f"{self.description}: {sent_records:,} of {total_records:,} records took {self.open_seconds:.0f} s, and a "
            "transaction may be open for "
            f"{self.transaction_timeout_seconds:.0f} s. The next attempt may be faster. If this persists, raise "
            "transaction_timeout_seconds (and the broker's transaction.max.timeout.ms), or set atomicity='partition'"
        )

    def commit(self) -> None:
        """Commit the transaction. Repeats the call while the broker does not answer, which is safe.

        :raises UndecidedError: no response in time, or an unclear one.
        :raises FencedError: another producer took the id.
        :raises DataError: the broker refused a record. Nothing of the transaction is visible.
        """
        from confluent_kafka import KafkaException

        patience = Patience(self.timeout_seconds)
        while True:
            try:
                self._producer.commit_transaction(max(1.0, patience.left_seconds))
            except SystemError as error:  # raised by confluent-kafka if a fatal error occurs in a callback
                raise UndecidedError(
                    f"the client failed during the commit of {self.description}. The ledger shows the outcome"
                ) from error
            except KafkaException as error:
                kafka_error = kafka_error_of(error)
                if kafka_error is not None and kafka_error.retriable():
                    if patience.wait_and_retry():
                        continue
                    raise UndecidedError(
                        f"no answer to the commit of {self.description} for {self.timeout_seconds:.0f} s. The ledger "
                        "shows the outcome"
                    ) from error
                if kafka_error is not None and kafka_error.fatal() and not is_fenced(error):
                    raise UndecidedError(
                        f"committing {self.description}: {kafka_error.name()}. The ledger shows the outcome"
                    ) from error
                raise classify(error, f"committing {self.description}", self.client_errors) from None
            self._is_over = True
            return

    def __enter__(self) -> Transaction:
        self.fence()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End an open transaction after an error. Readers of committed records wait for it."""
        if isinstance(error, FencedError):
            self._is_over = True
        elif not self._is_over and not isinstance(error, UndecidedError):
            self._is_over = self._end_open()

    def _end_open(self) -> bool:
        """End the open transaction, if necessary by a new producer. Returns True if it has ended, even by fencing.

        Otherwise the next attempt ends the transaction, or the broker after the timeout.
        """
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + RELEASE_SECONDS
        try:
            # An abort with unacknowledged records is fatal to the client in most cases: 22 of 30 times, and never after
            # a flush (https://github.com/confluentinc/librdkafka/issues/4849).
            if self._producer.flush(RELEASE_SECONDS):
                raise RetriableError("records are still on their way")
            self._producer.abort_transaction(max(1.0, deadline - time.monotonic()))
        except (KafkaException, RetriableError, SystemError) as error:
            return is_fenced(error) or self._end_with_new_producer()
        return True

    def _end_with_new_producer(self) -> bool:
        try:
            Transaction(self._connection, self.id, RELEASE_SECONDS, self.transaction_timeout_seconds).fence()
        except (RetriableError, ConfigError):
            return False
        return True
