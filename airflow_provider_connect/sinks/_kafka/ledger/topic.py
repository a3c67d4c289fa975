"""Reads a ledger's topic: once from its beginning in a process, and on from there at every later question.

A transaction of *another* day that is open in the ledger's partition holds back everything behind it from readers of
committed records, also a day that was committed long ago. So a reader looks behind that point as one of
uncommitted records: if nothing of its own is there, it has seen all; else it waits. A transaction sends its data first
and its ledger record last, so that it holds the partition for milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Literal

from airflow_provider_connect.clients.kafka.partitions import Isolation, Partitions, reading
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.patience import Patience
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks._kafka.ledger.records import Claim, LedgerKey, parsed
from airflow_provider_connect.sinks._kafka.ledger.view import KINDS, View, checked_key, view_of

Undecided = Literal["wait", "leave", "ignore"]
Wants = Callable[[LedgerKey], bool]
_PATIENCE_SECONDS: dict[Undecided, float] = {"wait": float("inf"), "leave": 10.0, "ignore": 0.0}
_LOOK_SECONDS = 0.05
_OWN_SECONDS = 1.0
"""What a commit may take that is under way; one that is dead is ended by the next try alone."""
_ADVICE = "Set cleanup.policy=compact alone, and write what is missing by hand, or use another ledger_topic"


class LedgerTopic:
    """The ledger's topic, as one stream needs it.

    :param view: what is known of it already; what this process knows by default.
    """

    def __init__(
        self, connection: Connection, name: str, timeout_seconds: float, key: StreamKey, view: View | None = None
    ) -> None:
        self.connection = connection
        self.name = name
        self.timeout_seconds = timeout_seconds
        self.view = view or view_of(connection, name, key)

    def read(self, wants: Wants, undecided: Undecided = "wait", *, skipped: bytes) -> dict[LedgerKey, bytes]:
        """Return the newest committed record of every wanted key of the stream; of a topic that is not there, none.

        :param skipped: how the keys begin that nobody wants, nearly all of them: they are not even parsed.
        """
        view = self.current(wants, undecided)
        raws = [raw for kind in KINDS for raw in view.keys(kind) if not raw.startswith(skipped)]
        keys = [key for key in map(LedgerKey.parse, raws) if wants(key)]
        return {key: value for key in keys if (value := view.value(key.encoded())) is not None}

    def current(self, wants: Wants, undecided: Undecided = "wait", own: Wants | None = None) -> View:
        """Read on to the end; return what is known then.

        :param wants: what the question is about.
        :param undecided: what to do about wanted records that an open transaction of others hides: wait until they
            are decided, leave them out after a wait, or ignore them at once.
        :param own: whose open transaction is not waited for, as the reader itself is about to end it.
        :raises ConfigError: the topic holds what no Kafka sink wrote, or lost records to retention.
        :raises RetriableError: the broker is away, or wanted records stay undecided.
        """
        seconds = min(self.timeout_seconds, _PATIENCE_SECONDS[undecided])
        patience = Patience(seconds, (_LOOK_SECONDS,))
        with self._reading("read_committed") as partitions:
            numbers = partitions.numbers()
            while True:
                hidden = self._read_on(partitions, numbers)
                hiding = self._hiding(hidden, wants) if hidden and undecided != "ignore" else None
                if hiding is None:
                    return self.view
                if own is not None and own(hiding) and patience.spent_seconds > min(seconds, _OWN_SECONDS):
                    return self.view
                if not patience.look_again():
                    if undecided == "leave":
                        return self.view
                    raise RetriableError(
                        f"ledger topic {self.name!r}: an open transaction of {hiding.connector}/{hiding.stream} "
                        f"{hiding.day} into {hiding.topic!r} hides records of this stream for "
                        f"{self.timeout_seconds:.0f} s already; a retry of that day ends it, or its transaction timeout"
                    )

    def newest_claim(self, key: LedgerKey) -> Claim | None:
        """Return who began last to publish a day, committed or not; None if nobody is known."""
        found = self.undecided(lambda seen: seen == key)
        value = found[key] if key in found else self.view.value(key.encoded())
        return parsed(Claim, value, self.name) if value is not None else None

    def written_since(self, key: LedgerKey, starts: dict[int, int]) -> list[bytes]:
        """Return all records of a key from some offsets on, in their order, committed or not."""
        found: list[bytes] = []
        with self._reading("read_uncommitted") as partitions:
            numbers = partitions.numbers()
            ends = {number: self._end(partitions, number) for number in numbers}
            for records in partitions.batches({number: starts.get(number, 0) for number in numbers}, ends):
                for message in records:
                    if message.key() == key.encoded() and isinstance(value := message.value(), bytes):
                        found.append(value)
        return found

    def undecided(self, wants: Wants) -> dict[LedgerKey, bytes]:
        """Return the newest record of every wanted key behind what the view holds, which this brings to the end.

        Such records may be committed some time, or not, or may be hidden by another's open transaction.
        """
        with self._reading("read_committed") as partitions:
            hidden = self._read_on(partitions, partitions.numbers())
        found: dict[LedgerKey, bytes] = {}
        for key, value in self._behind(hidden) if hidden else []:
            if wants(key) and value is not None:
                found[key] = value
        return found

    def _reading(self, isolation: Isolation) -> AbstractContextManager[Partitions]:
        return reading(self.connection, self.name, self.timeout_seconds, isolation, "ledger topic")

    def _read_on(self, partitions: Partitions, numbers: list[int]) -> dict[int, int]:
        """Bring the view to the end; return where it stands in partitions in which an open transaction hides more."""
        view = self.view
        with view.lock:
            ends = {number: self._end(partitions, number) for number in numbers}
            if not numbers or any(ends[number] < view.positions.get(number, 0) for number in numbers):
                view.forget()  # another topic of that name
            if not numbers:
                return {}
            starts = {number: view.positions.get(number, 0) for number in numbers}
            for records in partitions.batches(starts, ends):
                for message in records:
                    view.note(message)
            view.positions = partitions.stopped
            return {number: end for number, end in view.positions.items() if end < partitions.told_end(number)}

    def _end(self, partitions: Partitions, number: int) -> int:
        low, end = partitions.bounds(number)
        if low > 0:
            raise ConfigError(
                f"ledger topic {self.name!r} has lost its oldest records (it begins at offset {low}): something "
                f"other than compaction deletes from it. {_ADVICE}"
            )
        return end

    def _hiding(self, hidden: dict[int, int], wants: Wants) -> LedgerKey | None:
        """Return whose transaction hides wanted records from readers of committed ones; None if none is hidden.

        The record at which they stop is the first of the transaction that is open.
        """
        behind = self._behind(hidden)
        wanted = any(value is not None and key.what != "claim" and wants(key) for key, value in behind)
        return behind[0][0] if wanted else None

    def _behind(self, hidden: dict[int, int]) -> list[tuple[LedgerKey, bytes | None]]:
        """Return the records behind some offsets, committed or not."""
        found: list[tuple[LedgerKey, bytes | None]] = []
        with self._reading("read_uncommitted") as partitions:
            ends = {number: self._end(partitions, number) for number in hidden}
            for records in partitions.batches(hidden, ends):
                for message in records:
                    value = message.value()
                    found.append((checked_key(message, self.name), value if isinstance(value, bytes) else None))
        return found
