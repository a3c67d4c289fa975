"""Turns: one open transaction a topic at a time, across processes and machines, by a queue in the ledger's topic.

A reader of committed records gets nothing behind the first record of *any* open transaction. With two days open in the
same partitions it would see the day that commits first only up to the other's first record. So days of a topic take
turns. No two clocks are compared, there is no group and no server, and no further rights are needed.

1. The day's transactional id is taken **before** the ticket is written, and never again under the same ticket.
2. The ticket's offset is its place. Of the tickets that share a topic, the owner of the first sends.
3. The first in line gives a sign of life every second. After six silent seconds those who wait pass it over. That calls
   the roll: everybody who waits shows that it lives, so that many dead cost no more time than one. A pass asks the
   owners of the tickets before it, and only who saw it happen judges by it (:class:`.TurnQueue`).
4. Whoever's turn begins takes the ids of all who were passed over. They had taken them before their tickets, so their
   producers are fenced wherever they were stopped: nothing of theirs is open, or can be opened.
5. Whoever takes a day's id ends at once the tickets of that day which it had read before. A driver whose executor died
   takes the id only where a ticket of its own ``begin`` says that something may be open, and no other ticket of the id
   is waiting or sending. Each ``begin`` has a name of its own for that: intent and attempt are the same in two tries of
   the same frozen files, and snapshots of all days share one id.

So what readers see never depends on a guess about who is dead: a wrong guess costs that day another try. Nor does it
depend on who owns a ticket: an orphan that its driver leaves alone is ended by those who pass it over.
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
_LOOK_SECONDS = 0.05
_NOTE_SECONDS = 0.05
_MOST_LOOK_SECONDS = 2.0
_AWAY_SECONDS = 2.0
"""How late a look may be before the watcher itself counts as having been away."""
_BEAT_SECONDS = 1.0
_ROLL_CALL_BEAT_SECONDS = 2.0
_WARNED_SECONDS = 30.0
"""How long one waits before the log says so; it says so again after twice that time."""


class PassedOverError(RetriableError):
    """Others went on without this publish, as it gave no sign of life for a while; it queues again."""


class Turn:
    """One publish's way through the queue: wait for a living run of its own day, take a ticket, wait, send, be over.

    :param view: what is known of the ledger's topic; the queue is followed from there on.
    :param name: transactional id of the day.
    :param topics: it sends into.
    :param who: publishes what, for people who wait for it.
    :param begun: see :class:`.records.DayPlan`.
    :param transaction_timeout_seconds: as nobody's transaction may be open for longer, so long one and the same ticket
        is waited for before the next try is left to Airflow.
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
        self.who = description
        self.begun = begin_id
        self.transaction_timeout_seconds = transaction_timeout_seconds
        self.timeout_seconds = timeout_seconds
        self.queue = TurnQueue(clock)
        self._clock = clock
        self._ledger = view.topic
        self._position = view.positions.get(0, 0)
        for number, (offset, value) in sorted(view.tickets.items(), key=lambda item: item[1][0]):
            self.queue.add_record(offset, number, value)
        self._own: int | None = None
        self._to_fence: set[int] = set()
        self._beating = threading.Event()
        self._beaten_at: float | None = None
        self._thread: threading.Thread | None = None
        self._last_look = clock()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Turn:
        """Open the ledger's topic."""
        self._notes = _Notes(self.connection, self._ledger, self.timeout_seconds)
        ledger = open_topic(self.connection, self._ledger, self.timeout_seconds, "read_uncommitted", "ledger topic")
        self._reader: TopicReader = self._stack.enter_context(ledger)
        return self

    def __exit__(self, *raised: Any) -> None:
        """Close it."""
        self._stop_beating()
        self._stack.__exit__(*raised)

    def wait_for_same_day(self) -> None:
        """Wait until no other run that lives is about to send this day: taking its id would only fence it.

        The id is to be taken right after this. That fences every ticket of the day that was read by now, as its own
        taking of the id came before it; of one that is read later nobody knows which of the two came first.

        :raises RetriableError: it is not over in time.
        """
        self._wait(None)
        self.note_own_tickets()

    def note_own_tickets(self) -> None:
        """Remember the tickets of this day, which will be over when its id is taken."""
        self._look()
        self._to_fence = {ticket.number for ticket in self.queue.with_id(self.id)}

    def wait_for_turn(self) -> None:
        """Queue, and wait until it is this publish's turn. The day's id is taken already.

        :raises PassedOverError: others went on without it.
        :raises RetriableError: its turn does not come in time.
        """
        self._own = number = new_number()
        record = TicketRecord(what="want", id=self.id, topics=self.topics, who=self.who, begun=self.begun)
        self._write(number, record)
        self._wait(number)
        self._beat_on(number)
        self._look()
        mine = self._mine(number)
        for dead in self.queue.passed_over(mine):
            if dead.record.id == self.id:
                raise PassedOverError(f"{self.who}: another run of the same day took its id at the same time")
            self._fence(dead)
            self._over(dead)
        self._look()
        if self.queue.tickets_ahead(self._mine(number)):
            raise PassedOverError(f"{self.who}: lost its turn")

    def leave_queue(self, *, transaction_is_over: bool) -> None:
        """Let the next one begin.

        :param is_over: whether this publish's transaction is known to have ended; if not, whoever comes next ends it.
        """
        self._stop_beating()
        if (number := self._own) is None:
            return
        with contextlib.suppress(ConnectError):  # then it is passed over in some seconds
            mine = self.queue.tickets.get(number)
            if transaction_is_over:
                self._tombstones(number)
            elif mine is not None and not mine.is_passed_over:
                self._pass(mine)

    def close_fenced_tickets(self) -> None:
        """End the tickets of this day that were noted before its id was taken, which is done now.

        Not first in its own turn: a day that turns out to be published takes none, and a ticket that was passed over
        would stay in the ledger, and be fenced again, by each publisher of its topics.
        """
        for ticket in self.queue.with_id(self.id):
            if ticket.number in self._to_fence:
                self._over(ticket)

    def has_orphan(self) -> bool:
        """Look whether an executor of this ``begin`` may have left something open, and nobody else sends the day.

        A transaction is begun with a ticket alone, which stands until it is over: without one nothing is open.
        Whoever else has a ticket that was not passed over may be sending, or is about to: taking the id would end
        that, whichever of the two began first; and it ends an orphan itself before it sends, as does everybody who
        passes one over. So what is left alone here costs others some seconds, and what is taken nobody's work.
        """
        self.note_own_tickets()
        found = self.queue.with_id(self.id)
        own = [ticket for ticket in found if ticket.record.begun == self.begun]
        return bool(own) and all(ticket in own or ticket.is_passed_over for ticket in found)

    # Waiting

    def _wait(self, number: int | None) -> None:
        """Wait until nobody is before a ticket; before one is taken, until no other ticket of the same day lives."""
        self._look()
        self.queue.watch_from(self._position)
        waited_for, since = None, self._clock()
        begun, tell_after = since, _WARNED_SECONDS
        while True:
            self._look()
            before = self._rivals() if number is None else self._before(number)
            overdue = self.queue.silent_tickets(before)
            if number is None:
                before = [ticket for ticket in before if ticket not in overdue]
            if not before:
                return
            for ticket in overdue:
                if number is not None or ticket.record.id != self.id:
                    self._pass(ticket)
            if number is not None:
                self._answer_roll_call(number)
            now = self._clock()
            if before[0].number != waited_for:
                waited_for, since = before[0].number, now
            if now - since > self.transaction_timeout_seconds:
                raise self._too_long(number, before[0])
            if now - begun > tell_after:
                tell_after *= 2
                _LOG.warning(
                    "%s: waits for its turn, as number %d; %s is sending",
                    self.who,
                    len(before) + 1,
                    before[0].record.who,
                )
            time.sleep(min(_LOOK_SECONDS * len(before), _MOST_LOOK_SECONDS))

    def _too_long(self, number: int | None, first: Ticket) -> RetriableError:
        if number is not None:
            self._tombstones(number)
            self._own = None
        return RetriableError(
            f"{self.who}: {first.record.who} has been sending into {', '.join(first.record.topics[:3])} for "
            f"{self.transaction_timeout_seconds:.0f} s, and days of a topic take turns: the next try queues again"
        )

    def _rivals(self) -> list[Ticket]:
        found = [
            ticket for ticket in self.queue.with_id(self.id) if ticket.number != self._own and not ticket.is_passed_over
        ]
        return sorted(found, key=lambda ticket: ticket.offset)

    def _before(self, number: int) -> list[Ticket]:
        mine = self._mine(number)
        for other in self.queue.with_id(self.id):
            if other.number in self._to_fence:
                self._over(other)
            elif other.offset < mine.offset and not other.is_passed_over:
                raise PassedOverError(f"{self.who}: another run of the same day queued at the same time")
        return self.queue.tickets_ahead(mine)

    def _mine(self, number: int) -> Ticket:
        mine = self.queue.tickets.get(number)
        if mine is None or mine.is_passed_over:
            raise PassedOverError(f"{self.who}: gave no sign of life for a while, and others went on without it")
        return mine

    def _look(self) -> None:
        """Read the queue to its end."""
        with translate_kafka_errors(f"reading ledger topic {self._ledger!r}"):
            _, end = self._reader.read_bounds(0)
            if end > self._position:
                for records in self._reader.read_batches({0: self._position}, {0: end}):
                    for message in records:
                        self._note(message)
                self._position = self._reader.stop_offsets[0]
                self._reader.pause()
        now = self._clock()
        if now - self._last_look > _MOST_LOOK_SECONDS + _AWAY_SECONDS:
            self.queue.restart_clock()
        self._last_look = now
        self.queue.mark_fronts()

    def _note(self, message: Message) -> None:
        raw, value = message.key(), message.value()
        if isinstance(raw, bytes) and raw.startswith(TURN_KEYS):
            number = LedgerKey.parse(raw).part
            if number is not None:
                self.queue.add_record(message.offset() or 0, number, value if isinstance(value, bytes) else None)

    # Signs of life

    def _beat(self, number: int) -> None:
        self._beaten_at = self._clock()
        self._notes.write(heartbeat_key(self.topics[0], number), b"{}")

    def _answer_roll_call(self, number: int) -> None:
        last = self._beaten_at
        if self.queue.must_answer_roll_call(number) and (
            last is None or self._clock() - last > _ROLL_CALL_BEAT_SECONDS
        ):
            self._beat(number)

    def _beat_on(self, number: int) -> None:
        self._beating.clear()

        def beating() -> None:
            while not self._beating.wait(_BEAT_SECONDS):
                with contextlib.suppress(ConnectError):  # without a sign of life it is passed over, and finds that out
                    self._beat(number)

        self._thread = threading.Thread(target=beating, name="turn", daemon=True)
        self._thread.start()

    def _stop_beating(self) -> None:
        self._beating.set()
        if self._thread is not None:
            self._thread.join(_BEAT_SECONDS)

    # What is written

    def _write(self, number: int, record: TicketRecord) -> None:
        self._notes.write(state_key(record.topics[0], number), record.model_dump_json().encode())

    def _pass(self, ticket: Ticket) -> None:
        if ticket.number != self._own:
            _LOG.warning("%s: %s gives no sign of life, and is passed over", self.who, ticket.record.who)
        record = ticket.record.model_copy(update={"what": "pass", "place": ticket.offset})
        self._write(ticket.number, record)

    def _over(self, ticket: Ticket) -> None:
        for key in (state_key, heartbeat_key):
            self._notes.write(key(ticket.record.topics[0], ticket.number), None)
        self.queue.tickets.pop(ticket.number, None)

    def _tombstones(self, number: int) -> None:
        self._notes.write(state_key(self.topics[0], number), None)
        if self._beaten_at is not None:
            self._notes.write(heartbeat_key(self.topics[0], number), None)

    def _fence(self, dead: Ticket) -> None:
        """End what a ticket that was passed over may have open, and all that it could open."""
        taker = Transaction(self.connection, dead.record.id, self.timeout_seconds, self.transaction_timeout_seconds)
        taker.fence()


class _Notes:
    """Writes records that are not part of any transaction, one by one; from several threads, too.

    A record that is written twice is the same record to whoever reads it, and an idempotent producer would first have
    to get its id, which takes half a second.
    """

    def __init__(self, connection: Connection, topic: str, timeout_seconds: float) -> None:
        self.topic = topic
        self.timeout_seconds = timeout_seconds
        self._heard = ClientErrors()
        own = {"enable.idempotence": False, "linger.ms": 0, "message.timeout.ms": int(timeout_seconds * 1000)}
        self._producer = make_producer(connection, self._heard, **own)

    def write(self, key: bytes, value: bytes | None) -> None:
        """Write a record; return when all replicas in sync have it.

        :raises ConnectError: they have not.
        """
        from confluent_kafka import KafkaException

        outcome: list[Any] = []
        doing = f"writing to topic {self.topic!r}"
        with translate_kafka_errors(doing, self._heard):
            self._producer.produce(self.topic, value, key, on_delivery=lambda error, _: outcome.append(error))
            patience = Patience(self.timeout_seconds + 1.0)
            while not outcome and not patience.is_over:
                self._producer.poll(_NOTE_SECONDS)
        if not outcome:
            raise RetriableError(f"{doing}: no answer for {self.timeout_seconds:.0f} s")
        if outcome[0] is not None:
            raise classify(KafkaException(outcome[0]), doing, self._heard)
