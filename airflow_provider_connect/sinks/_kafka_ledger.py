"""The ledger of Kafka sinks: a compacted topic whose records are written in the transactions of the data.

A record's key says what it is about (:class:`LedgerKey`). The newest record of a key counts; of a day, that of the
newest intent. Of a day there is

* ``day``: its newest published state, what :class:`.Ledger` returns;
* ``part``: the same for one staged file, where each has a transaction of its own;
* ``claim``: who began last to publish it, so that a producer that was fenced can say who did it.

**Reading to the end.** A transaction of *another* day that is open in the ledger's partition holds back everything
behind it from readers of committed records, also a day that was committed long ago. So a reader looks behind that
point with the eyes of a reader of uncommitted records: is nothing of its own there, it has seen all; else it waits.
Data comes first in a transaction and the ledger record last, so that the partition is held for milliseconds.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from pydantic import ValidationError

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sink import Ledger, LedgerRow, StreamKey
from airflow_provider_connect.sinks._kafka_partitions import Isolation, Partitions, reading
from airflow_provider_connect.window import DaySet
from airflow_provider_connect.wire import Wire

if TYPE_CHECKING:
    from confluent_kafka import Message

Undecided = Literal["wait", "leave", "ignore"]
_PATIENCE_SECONDS: dict[Undecided, float] = {"wait": float("inf"), "leave": 10.0, "ignore": 0.0}
_LOOK_SECONDS = 0.05
_OWN_SECONDS = 1.0
"""What a commit may take that is under way; one that is dead is ended by the next try alone."""
_ADVICE = "Set cleanup.policy=compact alone, and write what is missing by hand, or use another ledger_topic"
_WHATS = ("day", "part", "claim")

W = TypeVar("W", bound=Wire)


class LedgerKey(NamedTuple):
    """What a ledger record is about; ``part`` is the staged file's number in its day, None for a whole day."""

    connector: str
    stream: str
    topic: str
    day: dt.date
    what: Literal["day", "part", "claim"] = "day"
    part: int | None = None

    def encoded(self) -> bytes:
        """Return the record's key: a JSON array."""
        fields = [self.connector, self.stream, self.topic, str(self.day), self.what]
        return json.dumps(fields if self.part is None else [*fields, self.part], separators=(",", ":")).encode()

    @classmethod
    def parse(cls, key: bytes | None) -> LedgerKey:
        """Read a record's key.

        :raises ValueError: it is none that :meth:`encoded` makes.
        """
        connector, stream, topic, day, what, *part = json.loads(key or b"null")
        texts = all(isinstance(text, str) for text in (connector, stream, topic, day))
        if not texts or what not in _WHATS or not all(isinstance(number, int) for number in part):
            raise ValueError("no key of this ledger")
        return cls(connector, stream, topic, dt.date.fromisoformat(day), what, *part)


class Entry(Wire):
    """What a ``day`` or ``part`` record says: the ledger's row and, for readers of the topic, where its records lie.

    :param run: whose intent it was, for people: ``dag_id/run_id/task_id``.
    :param offsets: of each topic and partition the first offset, and the one behind the last, between which the
        transaction's records lie; other days' records may lie between them.
    :param columns: the source's columns and their Arrow types.
    """

    row: LedgerRow
    run: str
    offsets: dict[str, dict[int, tuple[int, int]]] = {}
    columns: dict[str, str] = {}


class Claim(Wire):
    """What a ``claim`` record says.

    :param generation: reserved for the token where no single transaction finds it, else None.
    :param used: the highest generation that a claim before this one may have sent records of.
    :param parts: how many staged files this claim, or one before it, sends in a transaction each.
    """

    token: str
    order: int
    run: str
    attempt: str
    generation: int | None = None
    used: int = 0
    parts: int = 0
    at: dt.datetime


class LedgerTopic:
    """Reads the ledger's topic; every read starts at its beginning."""

    def __init__(self, connection: Connection, name: str, timeout_seconds: float) -> None:
        self.connection = connection
        self.name = name
        self.timeout_seconds = timeout_seconds

    def read(
        self,
        wants: Callable[[LedgerKey], bool],
        undecided: Undecided = "wait",
        own: Callable[[LedgerKey], bool] | None = None,
    ) -> dict[LedgerKey, bytes]:
        """Return the newest committed record of every wanted key; of a topic that is not there, none.

        :param undecided: what to do about wanted records that an open transaction of others hides: wait until they
            are decided, leave them out after a wait, or ignore them at once.
        :param own: whose open transaction is not waited for, as the reader itself is about to end it.
        :raises ConfigError: the topic holds what no Kafka sink wrote, or lost records to retention.
        :raises RetriableError: the broker is away, or wanted records stay undecided.
        """
        patience = min(self.timeout_seconds, _PATIENCE_SECONDS[undecided])
        started = time.monotonic()
        found: dict[LedgerKey, bytes] = {}
        with self._reading("read_committed") as partitions:
            ends = dict.fromkeys(partitions.numbers(), 0)
            while True:
                ends = self._take(partitions, ends, found, wants)
                hidden = {number: end for number, end in ends.items() if end < partitions.told_end(number)}
                hiding = self._hiding(hidden, wants) if hidden and undecided != "ignore" else None
                if hiding is None:
                    return found
                waited = time.monotonic() - started
                if own is not None and own(hiding) and waited > min(patience, _OWN_SECONDS):
                    return found
                if waited > patience:
                    if undecided == "leave":
                        return found
                    raise RetriableError(
                        f"ledger topic {self.name!r}: an open transaction of {hiding.connector}/{hiding.stream} "
                        f"{hiding.day} into {hiding.topic!r} hides records of this stream for "
                        f"{self.timeout_seconds:.0f} s already; a retry of that day ends it, or its transaction timeout"
                    )
                time.sleep(_LOOK_SECONDS)

    def newest_claim(self, key: LedgerKey) -> Claim | None:
        """Return who began last to publish a day, committed or not; None if nobody is known."""
        found = self.undecided(lambda seen: seen == key)
        return parsed(Claim, found[key], self.name) if key in found else None

    def undecided(self, wants: Callable[[LedgerKey], bool]) -> dict[LedgerKey, bytes]:
        """Return the newest record of every wanted key, committed or not."""
        found: dict[LedgerKey, bytes] = {}
        with self._reading("read_uncommitted") as partitions:
            self._take(partitions, dict.fromkeys(partitions.numbers(), 0), found, wants)
        return found

    def _reading(self, isolation: Isolation) -> AbstractContextManager[Partitions]:
        return reading(self.connection, self.name, self.timeout_seconds, isolation, "ledger topic")

    def _take(
        self,
        partitions: Partitions,
        starts: dict[int, int],
        found: dict[LedgerKey, bytes],
        wants: Callable[[LedgerKey], bool],
    ) -> dict[int, int]:
        """Read every partition to its end; return the ends."""
        ends = {}
        for number in starts:
            low, ends[number] = partitions.bounds(number)
            if low > 0:
                raise ConfigError(
                    f"ledger topic {self.name!r} has lost its oldest records (it begins at offset {low}): something "
                    f"other than compaction deletes from it. {_ADVICE}"
                )
        for records in partitions.batches(starts, ends):
            for message in records:
                self._note(message, found, wants)
        return partitions.stopped

    def _note(self, message: Message, found: dict[LedgerKey, bytes], wants: Callable[[LedgerKey], bool]) -> None:
        try:
            key = LedgerKey.parse(message.key())
        except (ValueError, TypeError):
            raise ConfigError(
                f"ledger topic {self.name!r} holds a record at offset {message.offset()} that no Kafka sink wrote: "
                "use a ledger_topic of its own"
            ) from None
        if not wants(key):
            return
        value = message.value()
        if value is None:  # by hand: the day is to be forgotten
            found.pop(key, None)
        elif key.what != "day" or key not in found or self._order(value) >= self._order(found[key]):
            found[key] = value

    def _order(self, value: bytes) -> int:
        """Return whose day it is: without a transaction, an older run that wakes up may write behind a newer one."""
        return parsed(Entry, value, self.name).row.order

    def _hiding(self, hidden: dict[int, int], wants: Callable[[LedgerKey], bool]) -> LedgerKey | None:
        """Return whose transaction hides wanted records from readers of committed ones; None if none is hidden.

        The record at which they stop is the first of the transaction that is open.
        """
        keys: list[LedgerKey] = []
        wanted: dict[LedgerKey, bytes] = {}

        def look(key: LedgerKey) -> bool:
            keys.append(key)
            return wants(key) and key.what != "claim"

        with self._reading("read_uncommitted") as partitions:
            self._take(partitions, hidden, wanted, look)
        return keys[0] if wanted else None


def parsed(kind: type[W], value: bytes, topic: str) -> W:
    """Read a record's value.

    :raises ConfigError: it is none that a Kafka sink wrote.
    """
    try:
        return kind.model_validate_json(value)
    except ValidationError:
        raise ConfigError(
            f"ledger topic {topic!r} holds a record that cannot be read: another version of this package, or somebody "
            "else, wrote it. Use the version that wrote it, or another ledger_topic"
        ) from None


class KafkaLedger(Ledger):
    """The ledger of one stream into one topic, read anew at every question."""

    def __init__(self, topic: LedgerTopic, key: StreamKey, target: str) -> None:
        self.topic = topic
        self.key = key
        self.target = target

    def about(self, day: dt.date, what: Literal["day", "part", "claim"] = "day", part: int | None = None) -> LedgerKey:
        """Return the key of a record of this stream."""
        return LedgerKey(self.key.connector, self.key.stream, self.target, day, what, part)

    def row(self, day: dt.date) -> LedgerRow | None:
        """Return the newest published state of a day, None if it never was.

        What a transaction of this very day has open for long is not published: who publishes the day next ends it.
        """
        key = self.about(day)
        found = self.topic.read(lambda seen: seen == key, own=lambda seen: seen[:4] == key[:4])
        return parsed(Entry, found[key], self.topic.name).row if key in found else None

    def days(self) -> DaySet:
        """Return every published day; one that an open transaction of others hides for long is left out for now."""
        return DaySet.of(key.day for key in self.topic.read(lambda key: self._mine(key, "day"), "leave"))

    def newest(self, days: int, undecided: Undecided = "leave") -> list[Entry]:
        """Return what is published of the newest days, the newest first.

        :param undecided: as for :meth:`LedgerTopic.read`.
        """
        found = self.topic.read(lambda key: self._mine(key, "day"), undecided)
        keys = sorted(found, key=lambda key: key.day, reverse=True)[:days]
        return [parsed(Entry, found[key], self.topic.name) for key in keys]

    def has_claims(self) -> bool:
        """Tell whether anybody ever began to publish a day of this stream."""
        return bool(self.topic.undecided(lambda key: self._mine(key, "claim")))

    def entries(self, day: dt.date, only: Collection[LedgerKey] | None = None) -> dict[LedgerKey, Entry]:
        """Return what is published of a day, and of its parts.

        :param only: the records that matter, and are waited for; all by default.
        """
        found = self.topic.read(
            lambda key: (
                key in only
                if only is not None
                else key.day == day and (self._mine(key, "day") or self._mine(key, "part"))
            )
        )
        return {key: parsed(Entry, value, self.topic.name) for key, value in found.items()}

    def _mine(self, key: LedgerKey, what: str) -> bool:
        return key[:3] == (self.key.connector, self.key.stream, self.target) and key.what == what
