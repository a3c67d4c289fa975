"""One producer and its one transaction; after it, whatever its end, the producer is thrown away.

A second transaction of the same producer could be committed or aborted by a delayed answer to the first one
(https://jepsen.io/analyses/bufstream-0.1.0, 2024-11). A new producer of the same transactional id fences whatever still
runs under it: :meth:`Transaction.fence` returns when nobody else's transaction is open any more.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sinks._kafka_connection import producer
from airflow_provider_connect.sinks._kafka_connection import settings as connection_settings
from airflow_provider_connect.sinks._kafka_errors import FencedError, Heard, classify, is_fenced, kafka_errors, of

if TYPE_CHECKING:
    from confluent_kafka import Producer

QUEUE_KBYTES = 48 * 1024
"""What a producer holds that the broker has not acknowledged."""
RELEASE_SECONDS = 10.0
_SHARE_OF_TIME = 0.9
_POLL_SECONDS = 0.1

Headers = list[tuple[str, str | bytes | None]]


class UndecidedError(RetriableError):
    """Whether a transaction was committed is not known; its ledger record tells."""


def transactional_id(*names: str | int) -> str:
    """Return the id under which a day, or a part of it, is published: the same for every run and every try of it."""
    return f"connect-{hashlib.sha256(json.dumps(names).encode()).hexdigest()[:32]}"


def wanted(transaction_timeout_seconds: float) -> dict[str, Any]:
    """Return the settings of every producer that may not change with the connection."""
    milliseconds = int(transaction_timeout_seconds * 1000)
    return {"transaction.timeout.ms": milliseconds, "message.timeout.ms": milliseconds}


class Outbox:
    """Hands records to a producer, and counts those it took."""

    def __init__(self, connection: Connection, timeout_seconds: float, settings: dict[str, Any]) -> None:
        defaults = {
            "linger.ms": 20,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 4 * QUEUE_KBYTES,
        }
        self.heard = Heard()
        self.timeout_seconds = timeout_seconds
        self.accepted = 0
        self._sent_bytes = 0
        given = connection_settings(connection)
        ours = {name: value for name, value in defaults.items() if name not in given}
        self._producer: Producer = producer(connection, self.heard, **(ours | settings))

    def send_batch(self, topic: str, records: list[dict[str, Any]], size_bytes: int) -> None:
        """Hand over records of one topic (``key`` and ``value`` each), in their order, waiting while the queue is full.

        ``produce_batch`` says in each record whether it was taken, and takes later ones where an earlier one was not.
        So there is room for all before the first is handed over.

        :param size_bytes: of all keys and values.
        """
        self._wait_for_room(size_bytes)
        with self.sending(topic):
            taken = self._producer.produce_batch(topic, records)
            self.accepted += taken
            self._sent_bytes += size_bytes
            if taken < len(records):
                raise _first_error(records)

    def send(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, partition: int | None = None
    ) -> None:
        """Hand over one record; who sends many calls :meth:`make_room` now and then.

        :param partition: where to; by the partitioner without it.
        """
        with self.sending(topic):
            self._producer.produce(topic, value, key, -1 if partition is None else partition, headers=headers)
        self.accepted += 1

    def send_each(  # noqa: PLR0917  # as many as a record has fields
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[Headers],
        timestamps: Sequence[int],
        partitions: Sequence[int],
    ) -> None:
        """Hand over records of one topic with headers, times or partitions, which ``produce_batch`` does not take."""
        produce = self._producer.produce
        with self.sending(topic):
            records = zip(keys, values, headers, timestamps, partitions, strict=True)
            for key, value, own_headers, timestamp, partition in records:
                produce(topic, value, key, partition, headers=own_headers, timestamp=timestamp)
        self.accepted += len(values)

    def make_room(self, size_bytes: int) -> None:
        """Wait until the queue has room for records that :meth:`send` gets next.

        :param size_bytes: of all keys and values, without headers.
        """
        self._wait_for_room(size_bytes)
        self._sent_bytes += size_bytes

    def _wait_for_room(self, size_bytes: int) -> None:
        """Wait until the queue holds little enough: its records are taken to be as large as all so far on average."""
        mean_bytes = self._sent_bytes / max(1, self.accepted)
        most = max(0, QUEUE_KBYTES * 1024 - size_bytes)
        self._wait(lambda: len(self._producer) * mean_bytes <= most)

    def flush(self) -> None:
        """Wait until the broker has answered for every record.

        :raises RetriableError: it took none for the whole timeout.
        """
        self._wait(lambda: not len(self._producer), self._producer.flush)

    def _wait(self, done: Callable[[], bool], wait: Callable[[float], int] | None = None) -> None:
        """Wait while the broker goes on taking records."""
        waiting, since = len(self._producer), time.monotonic()
        while not done():
            with self.sending():
                (wait or self._producer.poll)(_POLL_SECONDS)
            if len(self._producer) < waiting:
                waiting, since = len(self._producer), time.monotonic()
            elif time.monotonic() - since > self.timeout_seconds:
                stuck = f"the broker took none of {waiting:,} records for {self.timeout_seconds:.0f} s"
                raise self.heard.failure("sending") or RetriableError(f"{stuck}; it is expected to pass")

    @contextlib.contextmanager
    def sending(self, topic: str | None = None) -> Iterator[None]:
        """Name what the client raises."""
        with kafka_errors(f"sending to topic {topic!r}" if topic else "sending", self.heard):
            yield


def _first_error(records: list[dict[str, Any]]) -> Exception:
    from confluent_kafka import KafkaException

    errors = [record["_error"] for record in records if "_error" in record]
    if not errors:
        return RetriableError("the client did not take every record and does not say why: nothing is committed")
    return KafkaException(errors[0])


class Acknowledged(Outbox):
    """A producer without a transaction, which counts what the broker has taken."""

    def __init__(self, connection: Connection, timeout_seconds: float, settings: dict[str, Any]) -> None:
        self._delivered = 0
        self._failed: Any = None
        own = {"on_delivery": self._note, "message.timeout.ms": int(timeout_seconds * 1000)}
        super().__init__(connection, timeout_seconds, settings | own)

    def _note(self, error: Any, _: Any) -> None:
        self._delivered += error is None
        self._failed = self._failed or error

    def flush(self) -> None:
        """Wait until the broker has taken every record.

        :raises ConnectError: it refused one.
        """
        from confluent_kafka import KafkaException

        try:
            super().flush()
        except SystemError as error:  # confluent-kafka raises it where a callback meets a fatal error
            raise RetriableError("the client broke down while sending; the next try sends the day again") from error
        if self._failed is not None:
            raise classify(KafkaException(self._failed), "sending", self.heard)
        if self._delivered != self.accepted:
            raise RetriableError(f"{self._delivered:,} of {self.accepted:,} records were acknowledged; sent again")


class Transaction(Outbox):
    """A producer with a transactional id; ends without a trace unless :meth:`commit` returned.

    :param transaction_timeout_seconds: after which the broker ends the transaction.
    """

    def __init__(
        self,
        connection: Connection,
        transactional_id: str,
        timeout_seconds: float,
        transaction_timeout_seconds: float,
        settings: dict[str, Any] | None = None,
    ) -> None:
        own = {"transactional.id": transactional_id} | wanted(transaction_timeout_seconds)
        super().__init__(connection, timeout_seconds, (settings or {}) | own)
        self.id = transactional_id
        self.transaction_timeout_seconds = transaction_timeout_seconds
        self._connection = connection
        self._begun = 0.0
        self._ended = True

    def fence(self) -> None:
        """Take the transactional id: every producer that had it is fenced, and its transaction is over.

        :raises ConfigError: the broker allows no transaction that long, or the user may not use the id.
        :raises RetriableError: the broker is away.
        """
        from confluent_kafka import KafkaException

        try:
            self._producer.init_transactions(self.timeout_seconds)
        except KafkaException as error:
            self.heard.listen(self._producer)  # what stands behind a timeout
            raise classify(error, f"taking transactional id {self.id!r}", self.heard) from None

    def begin(self) -> None:
        """Begin; the broker's clock runs from the first record on."""
        self._begun = time.monotonic()
        self._ended = False
        with kafka_errors("beginning a transaction", self.heard):
            self._producer.begin_transaction()

    @contextlib.contextmanager
    def sending(self, topic: str | None = None) -> Iterator[None]:
        """Name what the client raises; behind "fatal" and "erroneous state" it is the reason that counts.

        Only a step of the transaction tells it: one that is out of turn is refused with the error that broke it.
        """
        from confluent_kafka import KafkaError, KafkaException

        with super().sending(topic):
            try:
                yield
            except KafkaException as error:
                kafka = of(error)
                if kafka is not None and kafka.code() == KafkaError._FATAL:
                    self._producer.abort_transaction(1.0)
                if kafka is not None and kafka.code() == KafkaError._STATE:
                    self._producer.begin_transaction()
                raise

    @property
    def seconds(self) -> float:
        """How long the transaction has been open."""
        return time.monotonic() - self._begun

    def check_time(self, done: int, total: int) -> None:
        """Leave while there is time for it.

        :raises ConfigError: the transaction's time is nearly over, and it will not be finished.
        """
        if self.seconds > _SHARE_OF_TIME * self.transaction_timeout_seconds:
            raise self._too_slow(done, total)

    def flush(self) -> None:
        """Wait until the broker has answered for every record.

        :raises RetriableError: it took none for the whole timeout.
        :raises ConfigError: the transaction's time is over; what was not sent by then is forgotten.
        """
        super().flush()
        if self.seconds > self.transaction_timeout_seconds:
            raise self._too_slow(self.accepted, self.accepted)

    def _too_slow(self, done: int, total: int) -> ConfigError:
        return ConfigError(
            f"{done:,} of {total:,} records took {self.seconds:.0f} s, and a transaction may be open for "
            f"{self.transaction_timeout_seconds:.0f} s: raise transaction_timeout_seconds (and the broker's "
            "transaction.max.timeout.ms), or set atomicity='partition'"
        )

    def commit(self) -> None:
        """Commit; the same call again is safe while the answer is missing.

        :raises UndecidedError: no answer in time, or one that does not tell.
        :raises FencedError: another producer has the id now.
        :raises DataError: the broker refused a record; nothing of the transaction is visible.
        """
        deadline = time.monotonic() + self.timeout_seconds
        while True:
            try:
                with self._commit_errors():
                    self._producer.commit_transaction(max(1.0, deadline - time.monotonic()))
                self._ended = True
                return
            except _Again as error:
                if time.monotonic() > deadline:
                    raise UndecidedError(
                        f"no answer to the commit of {self.id!r} for {self.timeout_seconds:.0f} s; the ledger decides"
                    ) from error

    @contextlib.contextmanager
    def _commit_errors(self) -> Iterator[None]:
        from confluent_kafka import KafkaException

        try:
            with kafka_errors(f"committing {self.id!r}", self.heard):
                try:
                    yield
                except KafkaException as error:
                    kafka = of(error)
                    if kafka is not None and kafka.retriable():
                        raise _Again from error
                    if kafka is not None and kafka.fatal() and not is_fenced(error):
                        raise UndecidedError(f"committing {self.id!r}: {kafka.name()}; the ledger decides") from error
                    raise
        except SystemError as error:  # confluent-kafka raises it where a callback meets a fatal error
            raise UndecidedError(f"the client broke down in the commit of {self.id!r}; the ledger decides") from error

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let readers of committed records go on, where this transaction failed and is still open."""
        if not self._ended and not isinstance(error, (FencedError, UndecidedError)):
            self._release()

    def _release(self) -> None:
        """End the open transaction by a producer that takes its id: its own abort may break the client.

        (https://github.com/confluentinc/librdkafka/issues/4849: fatal after 22 of 30 aborts without a flush.) Where
        that fails, the broker ends it after its timeout, or the next try does.
        """
        with contextlib.suppress(RetriableError, ConfigError):
            other = Transaction(self._connection, self.id, RELEASE_SECONDS, self.transaction_timeout_seconds)
            other.fence()


class _Again(Exception):  # noqa: N818  # no error: the same call is to be made again
    """The commit has no answer yet."""
