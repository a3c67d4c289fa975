"""Turns: only one open transaction for a topic at a time, across processes and machines.

A reader of committed records stops at the first record of *any* open transaction, so publishes queue in the ledger
topic.

1. A publish takes its day's transactional id **before** it writes a ticket, and never again under the same ticket.
2. The ticket's offset is its place. Of the tickets that share a topic, the owner of the first one sends.
3. The first owner writes a heartbeat every second. After six silent seconds the waiting owners pass it over: a
   ``pass`` under its ticket starts a roll call (:class:`.TurnQueue`), in which every waiting owner writes a heartbeat.
4. The next owner takes the ids of all passed-over owners, which fences their producers.
5. A publish that takes a day's id closes that day's tickets which it read before.
6. The driver of a dead executor takes the id only if its own ``begin`` wrote a ticket and no other run sends the day.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.kafka.connection import make_producer
from airflow_provider_connect.clients.kafka.errors import ClientErrors, classify, translate_kafka_errors
from airflow_provider_connect.clients.kafka.topic_reader import TopicReader, open_topic
from airflow_provider_connect.clients.kafka.transaction import Transaction
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConnectError, RetriableError
from airflow_provider_connect.patience import Patience
from airflow_provider_connect.sinks._kafka.ledger.records import LedgerKey
from airflow_provider_connect.sinks._kafka.ledger.view import TURN_KEY_PREFIX as TURN_KEYS
from airflow_provider_connect.sinks._kafka.ledger.view import TopicView
from airflow_provider_connect.sinks._kafka.turn_queue import (
    Ticket,
    TicketRecord,
    TurnQueue,
    heartbeat_key,
    new_number,
    state_key,
)

if TYPE_CHECKING:
    from confluent_kafka import Message

_LOG = logging.getLogger("airflow_provider_connect.sinks.kafka")
_POLL_SECONDS = 0.05
_ACKNOWLEDGE_SECONDS = 0.05
_MAX_POLL_SECONDS = 2.0
_SUSPENDED_SECONDS = 2.0
"""Delay of a read after which this process counts as suspended."""
_HEARTBEAT_SECONDS = 1.0
_ROLL_CALL_HEARTBEAT_SECONDS = 2.0
_WARN_AFTER_SECONDS = 30.0
"""Wait before the first log line, doubled for each further line."""


class PassedOverError(RetriableError):
    """Other publishes passed this one over because it wrote no heartbeat. A retry queues again."""


class Turn:
    """One publish in its topics' queue.

    :param view: the ledger topic as read so far.
    :param transaction_timeout_seconds: longest wait for one ticket.
    """

    def __init__(  # noqa: PLR0917
        self,
        connection: Connection,
        view: TopicView,
        transactional_id: str,
        topics: list[str],
        description: str,
        begin_id: str,
        transaction_timeout_seconds: float,
        timeout_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.connection = connection
        self.id = transactional_id
        self.topics = tuple(sorted(topics))
        self.description = description
        self.begin_id = begin_id
        self.transaction_timeout_seconds = transaction_timeout_seconds
        self.timeout_seconds = timeout_seconds
        self.queue = TurnQueue(clock)
        self._clock = clock
        self._ledger = view.topic
        self._position = view.positions.get(0, 0)
        for number, (offset, value) in sorted(view.tickets.items(), key=lambda item: item[1][0]):
            self.queue.add_record(offset, number, value)
        self._own_number: int | None = None
        self._numbers_to_fence: set[int] = set()
        self._stop_heartbeat_event = threading.Event()
        self._last_heartbeat: float | None = None
        self._heartbeat_thread: threading.Thread | None = None
        self._last_read = clock()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Turn:
        self._writer = _RecordWriter(self.connection, self._ledger, self.timeout_seconds)
        ledger = open_topic(self.connection, self._ledger, self.timeout_seconds, "read_uncommitted", "ledger topic")
        self._reader: TopicReader = self._stack.enter_context(ledger)
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stop_heartbeat()
        self._stack.__exit__(*raised)

    def wait_for_same_day(self) -> None:
        """Wait until no other live run is about to send this day.

        The caller takes the id next.

        :raises RetriableError: the other run goes on.
        """
        self._wait_for_tickets(None)
        self.note_own_tickets()

    def note_own_tickets(self) -> None:
        """Remember this day's present tickets for :meth:`close_fenced_tickets`."""
        self._read_queue()
        self._numbers_to_fence = {ticket.number for ticket in self.queue.with_id(self.id)}

    def wait_for_turn(self) -> None:
        """Write a ticket and wait until this publish may send. Requires the day's transactional id.

        :raises PassedOverError: other publishes went on.
        :raises RetriableError: no turn in time.
        """
        self._own_number = number = new_number()
        record = TicketRecord(what="want", id=self.id, topics=self.topics, who=self.description, begun=self.begin_id)
        self._write_state(number, record)
        self._wait_for_tickets(number)
        self._start_heartbeat(number)
        self._read_queue()
        own_ticket = self._own_ticket(number)
        for dead_ticket in self.queue.passed_over(own_ticket):
            if dead_ticket.record.id == self.id:
                raise PassedOverError(f"{self.description}: another run of the same day took its id at the same time")
            self._fence(dead_ticket)
            self._close_ticket(dead_ticket)
        self._read_queue()
        if self.queue.tickets_ahead(self._own_ticket(number)):
            raise PassedOverError(f"{self.description}: lost its turn")

    def leave_queue(self, *, transaction_is_over: bool) -> None:
        """Close this publish's ticket.

        :param transaction_is_over: False if a transaction may be open.
        """
        self._stop_heartbeat()
        if (number := self._own_number) is None:
            return
        with contextlib.suppress(ConnectError):  # otherwise the others pass it over within seconds
            own_ticket = self.queue.tickets.get(number)
            if transaction_is_over:
                self._delete_own_ticket(number)
            elif own_ticket is not None and not own_ticket.is_passed_over:
                self._pass_over(own_ticket)

    def close_fenced_tickets(self) -> None:
        """Close the tickets of this day that were read before its id was taken."""
        for ticket in self.queue.with_id(self.id):
            if ticket.number in self._numbers_to_fence:
                self._close_ticket(ticket)

    def has_orphan(self) -> bool:
        """Return True if an executor of this ``begin`` may have left a transaction open.

        False while another run sends the day.
        """
        self.note_own_tickets()
        tickets = self.queue.with_id(self.id)
        own_tickets = [ticket for ticket in tickets if ticket.record.begun == self.begin_id]
        return bool(own_tickets) and all(ticket in own_tickets or ticket.is_passed_over for ticket in tickets)

    # Waiting

    def _wait_for_tickets(self, number: int | None) -> None:
        self._read_queue()
        self.queue.watch_from(self._position)
        awaited_number, awaited_since = None, self._clock()
        started, warn_after = awaited_since, _WARN_AFTER_SECONDS
        while True:
            self._read_queue()
            tickets_ahead = self._rivals() if number is None else self._tickets_ahead(number)
            overdue = self.queue.silent_tickets(tickets_ahead)
            if number is None:
                tickets_ahead = [ticket for ticket in tickets_ahead if ticket not in overdue]
            if not tickets_ahead:
                return
            for ticket in overdue:
                if number is not None or ticket.record.id != self.id:
                    self._pass_over(ticket)
            if number is not None:
                self._answer_roll_call(number)
            time_now = self._clock()
            if tickets_ahead[0].number != awaited_number:
                awaited_number, awaited_since = tickets_ahead[0].number, time_now
            if time_now - awaited_since > self.transaction_timeout_seconds:
                raise self._too_long_error(number, tickets_ahead[0])
            if time_now - started > warn_after:
                warn_after *= 2
                _LOG.warning(
                    "%s: waits for its turn at place %d while %s is sending",
                    self.description,
                    len(tickets_ahead) + 1,
                    tickets_ahead[0].record.who,
                )
            time.sleep(min(_POLL_SECONDS * len(tickets_ahead), _MAX_POLL_SECONDS))

    def _too_long_error(self, number: int | None, first_ticket: Ticket) -> RetriableError:
        if number is not None:
            self._delete_own_ticket(number)
            self._own_number = None
        return RetriableError(
            f"{self.description}: {first_ticket.record.who} has been sending into "
            f"{', '.join(first_ticket.record.topics[:3])} for {self.transaction_timeout_seconds:.0f} s, and days of a "
            "topic take turns. The next attempt queues again"
        )

    def _rivals(self) -> list[Ticket]:
        rivals = [
            ticket
            for ticket in self.queue.with_id(self.id)
            if ticket.number != self._own_number and not ticket.is_passed_over
        ]
        return sorted(rivals, key=lambda ticket: ticket.offset)

    def _tickets_ahead(self, number: int) -> list[Ticket]:
        own_ticket = self._own_ticket(number)
        for ticket in self.queue.with_id(self.id):
            if ticket.number in self._numbers_to_fence:
                self._close_ticket(ticket)
            elif ticket.offset < own_ticket.offset and not ticket.is_passed_over:
                raise PassedOverError(f"{self.description}: another run of the same day queued at the same time")
        return self.queue.tickets_ahead(own_ticket)

    def _own_ticket(self, number: int) -> Ticket:
        own_ticket = self.queue.tickets.get(number)
        if own_ticket is None or own_ticket.is_passed_over:
            raise PassedOverError(f"{self.description}: wrote no heartbeat for a while, and others went on without it")
        return own_ticket

    def _read_queue(self) -> None:
        with translate_kafka_errors(f"reading ledger topic {self._ledger!r}"):
            _, end = self._reader.read_bounds(0)
            if end > self._position:
                for records in self._reader.read_batches({0: self._position}, {0: end}):
                    for message in records:
                        self._add_message(message)
                self._position = self._reader.stop_offsets[0]
                self._reader.pause()
        time_now = self._clock()
        if time_now - self._last_read > _MAX_POLL_SECONDS + _SUSPENDED_SECONDS:
            self.queue.restart_clock()
        self._last_read = time_now
        self.queue.mark_fronts()

    def _add_message(self, message: Message) -> None:
        raw, value = message.key(), message.value()
        if isinstance(raw, bytes) and raw.startswith(TURN_KEYS):
            number = LedgerKey.parse(raw).part
            if number is not None:
                self.queue.add_record(message.offset() or 0, number, value if isinstance(value, bytes) else None)

    # Heartbeats

    def _write_heartbeat(self, number: int) -> None:
        self._last_heartbeat = self._clock()
        self._writer.write(heartbeat_key(self.topics[0], number), b"{}")

    def _answer_roll_call(self, number: int) -> None:
        last_heartbeat = self._last_heartbeat
        if self.queue.must_answer_roll_call(number) and (
            last_heartbeat is None or self._clock() - last_heartbeat > _ROLL_CALL_HEARTBEAT_SECONDS
        ):
            self._write_heartbeat(number)

    def _start_heartbeat(self, number: int) -> None:
        self._stop_heartbeat_event.clear()

        def write_heartbeats() -> None:
            while not self._stop_heartbeat_event.wait(_HEARTBEAT_SECONDS):
                # Without heartbeats the ticket is passed over, which its owner reads in the queue.
                with contextlib.suppress(ConnectError):
                    self._write_heartbeat(number)

        self._heartbeat_thread = threading.Thread(target=write_heartbeats, name="turn", daemon=True)
        self._heartbeat_thread.start()

    def _stop_heartbeat(self) -> None:
        self._stop_heartbeat_event.set()
        if self._heartbeat_thread is not None:
            self._heartbeat_thread.join(_HEARTBEAT_SECONDS)

    # Written records

    def _write_state(self, number: int, record: TicketRecord) -> None:
        self._writer.write(state_key(record.topics[0], number), record.model_dump_json().encode())

    def _pass_over(self, ticket: Ticket) -> None:
        if ticket.number != self._own_number:
            _LOG.warning("%s: %s writes no heartbeat and is passed over", self.description, ticket.record.who)
        record = ticket.record.model_copy(update={"what": "pass", "place": ticket.offset})
        self._write_state(ticket.number, record)

    def _close_ticket(self, ticket: Ticket) -> None:
        for key in (state_key, heartbeat_key):
            self._writer.write(key(ticket.record.topics[0], ticket.number), None)
        self.queue.tickets.pop(ticket.number, None)

    def _delete_own_ticket(self, number: int) -> None:
        self._writer.write(state_key(self.topics[0], number), None)
        if self._last_heartbeat is not None:
            self._writer.write(heartbeat_key(self.topics[0], number), None)

    def _fence(self, ticket: Ticket) -> None:
        taker = Transaction(self.connection, ticket.record.id, self.timeout_seconds, self.transaction_timeout_seconds)
        taker.fence()


class _RecordWriter:
    """Producer of single records outside of transactions. Thread-safe.

    Not idempotent: repeated records have no effect.
    """

    def __init__(self, connection: Connection, topic: str, timeout_seconds: float) -> None:
        self.topic = topic
        self.timeout_seconds = timeout_seconds
        self._client_errors = ClientErrors()
        overrides = {"enable.idempotence": False, "linger.ms": 0, "message.timeout.ms": int(timeout_seconds * 1000)}
        self._producer = make_producer(connection, self._client_errors, **overrides)

    def write(self, key: bytes, value: bytes | None) -> None:
        """Write a record and wait until all in-sync replicas have it."""
        from confluent_kafka import KafkaException

        outcome: list[Any] = []
        action = f"writing to topic {self.topic!r}"
        with translate_kafka_errors(action, self._client_errors):
            self._producer.produce(self.topic, value, key, on_delivery=lambda error, _: outcome.append(error))
            patience = Patience(self.timeout_seconds + 1.0)
            while not outcome and not patience.is_over:
                self._producer.poll(_ACKNOWLEDGE_SECONDS)
        if not outcome:
            raise RetriableError(f"{action}: no answer for {self.timeout_seconds:.0f} s")
        if outcome[0] is not None:
            raise classify(KafkaException(outcome[0]), action, self._client_errors)
