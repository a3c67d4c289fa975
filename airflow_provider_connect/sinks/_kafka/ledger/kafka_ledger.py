"""Ledger of the Kafka sink: a compacted topic with records in the data's transactions."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from heapq import nlargest
from typing import TYPE_CHECKING, get_args

from airflow_provider_connect.clients.kafka.outbox import AcknowledgedOutbox
from airflow_provider_connect.clients.kafka.topic_reader import Isolation, TopicReader, open_topic
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.patience import Patience
from airflow_provider_connect.sink import DefinitionInForce, LedgerRow, StreamKey
from airflow_provider_connect.sinks._kafka.ledger.records import (
    KEY_KINDS,
    NO_DAY,
    Claim,
    DayEntry,
    DefinitionRecord,
    KeyKind,
    LedgerKey,
    parse_record,
)
from airflow_provider_connect.sinks._kafka.ledger.spans import KeyFilter, OnUndecided, SpanLedger, day_of_key
from airflow_provider_connect.sinks._kafka.ledger.view import (
    LedgerHandover,
    TopicView,
    erase_list_keys,
    known_erase_list,
    parse_key,
    shared_view,
)
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.stage.notes import LedgerNote, NoteKind
from airflow_provider_connect.window import DaySet, SourceKind
from airflow_provider_connect.wire import Wire

if TYPE_CHECKING:
    from confluent_kafka import Message

    from airflow_provider_connect.sinks._kafka.options import KafkaOptions

NOTE_KINDS: tuple[NoteKind, ...] = tuple(kind for kind in get_args(NoteKind) if kind != "position")


_PATIENCE_SECONDS: dict[OnUndecided, float] = {"wait": float("inf"), "leave": 10.0, "ignore": 0.0}
_POLL_SECONDS = 0.05
_OWN_COMMIT_SECONDS = 1.0
"""Wait for a running commit of the same day."""
_ADVICE = "Set cleanup.policy=compact alone, and write what is missing by hand, or use another ledger_topic"


class KafkaLedger(SpanLedger):
    """Ledger of one stream and topic. Queries first read to the ledger topic's end.

    :param handover: state to continue from.
    """

    def __init__(
        self,
        connection: Connection,
        options: KafkaOptions,
        stream_key: StreamKey,
        handover: LedgerHandover | None = None,
    ) -> None:
        self.connection = connection
        self.ledger_topic = options.ledger_topic
        self.timeout_seconds = options.timeout_seconds
        self.key = stream_key
        self.target = options.topic
        self.replaces_whole = options.cleanup == "compact"
        """True if a snapshot of any day replaces the topic's content."""
        self.view = (
            TopicView(self.ledger_topic, stream_key, handover)
            if handover
            else shared_view(connection, self.ledger_topic, stream_key)
        )

    def key_for(self, day: dt.date, kind: KeyKind = "day", part: int | None = None) -> LedgerKey:
        return LedgerKey(self.key.connector, self.key.stream, self.target, day, kind, part)

    def entry(self, day: dt.date) -> DayEntry | None:
        """Return a day's newest published state with offsets, or None.

        Waits about a second for an open transaction of the same day.
        """
        key = self.key_for(day)
        self.read_on(lambda ledger_key: ledger_key == key, is_own=lambda ledger_key: ledger_key[:4] == key[:4])
        return self._known_entry(key.encode())

    def _known_entry(self, raw: bytes) -> DayEntry | None:
        value = self.view.counting_value(raw)
        return None if value is None else parse_record(DayEntry, value, self.ledger_topic)

    def newest(self, day: dt.date, kind: SourceKind) -> LedgerRow | None:
        """Return the publish that a new one follows: the day's, or the stream's newest snapshot or increment."""
        if kind == "increment":
            return self.newest_increment(day, "")
        if kind == "day" or not self.replaces_whole:
            return self.row(day)
        newest_snapshots = self.newest_entries(1, "wait")
        return newest_snapshots[0].row if newest_snapshots else None

    def erased(self) -> EraseList:
        self.read_on(self._is_erase_list)
        return self.known_erase_list()

    def known_erase_list(self) -> EraseList:
        return known_erase_list(self.view, self.target)

    def definition_in_force(self) -> DefinitionInForce | None:
        key = self.key_for(NO_DAY, "in_force")
        self.read_on(lambda ledger_key: ledger_key == key, is_own=self._is_of_target)
        return self.known_definition()

    def known_definition(self) -> DefinitionInForce | None:
        value = self.view.counting_value(self.key_for(NO_DAY, "in_force").encode())
        return None if value is None else parse_record(DefinitionRecord, value, self.ledger_topic).as_definition

    def refresh(self) -> None:
        """Read to the topic's end. Waits for an open erase, but only about a second for a definition."""
        key = self.key_for(NO_DAY, "in_force")
        self.read_on(
            lambda ledger_key: ledger_key == key or self._is_erase_list(ledger_key),
            is_own=lambda ledger_key: self._is_of_target(ledger_key) and ledger_key.kind != "erased",
        )

    def note_key(self, kind: NoteKind, note_id: str) -> LedgerKey:
        return self.key_for(NO_DAY, kind, int(note_id, 16))

    def notes(self) -> list[LedgerNote]:
        """Return the stream's notes, including those that an open transaction hides."""
        hidden_notes = self.undecided_records(lambda key: self._is_of_target(key) and key.kind in NOTE_KINDS)
        visible = {
            raw: self.view.counting_value(raw)
            for kind in NOTE_KINDS
            for raw in self.view.keys(kind, self.key_prefix(kind=kind))
        }
        values = visible | {key.encode(): value for key, value in hidden_notes.items()}
        return [parse_record(LedgerNote, value, self.ledger_topic) for value in values.values() if value is not None]

    def position_note(self, note_id: str) -> LedgerNote | None:
        """Return the note with a long position, also if an open transaction hides it."""
        key = self.note_key("position", note_id)
        hidden_notes = self.undecided_records(lambda ledger_key: ledger_key == key)
        value = hidden_notes.get(key) or self.view.counting_value(key.encode())
        return None if value is None else parse_record(LedgerNote, value, self.ledger_topic)

    def days(self) -> DaySet:
        """Return all published days, except days that an open transaction hides for long."""
        view = self.read_on(lambda key: self._is_of_kind(key, "day"), "leave")
        return DaySet.from_dates(day_of_key(raw) for raw in view.keys("day", self.key_prefix()))

    def newest_entries(self, days: int, on_undecided: OnUndecided = "leave") -> list[DayEntry]:
        """Return at most ``days`` published days, newest first.

        :param on_undecided: as for :meth:`read_on`.
        """
        is_own_transaction = self._is_of_target if self.replaces_whole else None  # snapshots share a transactional id
        view = self.read_on(lambda key: self._is_of_kind(key, "day"), on_undecided, is_own_transaction)
        keys = nlargest(days, view.keys("day", self.key_prefix()))
        return [entry for raw in keys if (entry := self._known_entry(raw)) is not None]

    def has_claims(self) -> bool:
        """Return True if any run ever began to publish this stream."""
        hidden_claims = self.undecided_records(lambda key: self._is_of_kind(key, "claim"))
        return bool(hidden_claims or self.view.keys("claim", self.key_prefix()))

    def entries(self, *keys: LedgerKey) -> dict[LedgerKey, DayEntry]:
        """Return the records under these keys. Waits for transactions that hide them or the definition in force."""
        awaited_keys = (*keys, self.key_for(NO_DAY, "in_force"))
        self.read_on(lambda ledger_key: ledger_key in awaited_keys)
        return {key: entry for key in keys if (entry := self._known_entry(key.encode())) is not None}

    def handover(self, day: dt.date) -> LedgerHandover:
        """Return the state that an executor needs to publish a day."""
        view = self.view
        newest = [*nlargest(1, view.keys("day", self.key_prefix())), *self._last_increment()]
        # Without claims: an executor must find its driver's claim in the topic, to prove that it is the same topic.
        own_keys = [
            *view.keys("day", self.key_prefix(day)),
            self.key_for(NO_DAY, "in_force").encode(),
            *erase_list_keys(view, self.target),
        ]
        return view.handover([*own_keys, *view.keys("part", self.key_prefix(day)), *newest])

    def superseded_entry(self, day: dt.date) -> DayEntry | None:
        """Return a day's last record if an earlier one counts instead of it. Reads nothing."""
        value = self.view.superseded_value(self.key_for(day).encode())
        return None if value is None else parse_record(DayEntry, value, self.ledger_topic)

    def key_prefix(self, day: dt.date | None = None, kind: KeyKind = "day") -> bytes:
        """Return the encoded prefix of the stream's keys, a day's keys, or one kind's notes."""
        names = [*self.key_for(NO_DAY, kind).name_fields, *([str(day)] if day else [])]
        return json.dumps(names, separators=(",", ":"))[:-1].encode() + b","

    def write_record(self, key: LedgerKey, record: Wire) -> None:
        """Write a record outside of transactions and wait for its acknowledgement."""
        # A duplicate record is harmless, and an idempotent producer's id takes half a second.
        outbox = AcknowledgedOutbox(self.connection, self.timeout_seconds, {"enable.idempotence": False})
        outbox.send(self.ledger_topic, key.encode(), record.model_dump_json().encode(), [])
        outbox.flush()

    # Reading the topic

    def read_records(
        self, is_wanted: KeyFilter, on_undecided: OnUndecided = "wait", *, skipped_prefix: bytes
    ) -> dict[LedgerKey, bytes]:
        """Return the newest committed record of every wanted key.

        :param skipped_prefix: of nearly all unwanted keys.
        """
        view = self.read_on(is_wanted, on_undecided)
        raws = [raw for kind in KEY_KINDS for raw in view.keys(kind) if not raw.startswith(skipped_prefix)]
        keys = [key for key in map(LedgerKey.parse, raws) if is_wanted(key)]
        return {key: value for key in keys if (value := view.counting_value(key.encode())) is not None}

    def read_on(
        self, is_wanted: KeyFilter, on_undecided: OnUndecided = "wait", is_own: KeyFilter | None = None
    ) -> TopicView:
        """Read to the topic's end. Returns the view of all records read so far.

        :param on_undecided: for wanted records that another open transaction hides: ``wait``, ``leave`` them out after
            a wait, or ``ignore`` them immediately.
        :param is_own: selects transactions that the caller will end. The wait for them is about a second.
        :raises ConfigError: the topic holds foreign records, or lost records to retention.
        :raises RetriableError: wanted records stay undecided.
        """
        seconds = min(self.timeout_seconds, _PATIENCE_SECONDS[on_undecided])
        patience = Patience(seconds, (_POLL_SECONDS,))
        with self._open_topic("read_committed") as reader:
            numbers = reader.partition_numbers()
            while True:
                hidden = self._advance_view(reader, numbers)
                hiding = self._hiding_transaction(hidden, is_wanted) if hidden and on_undecided != "ignore" else None
                if hiding is None:
                    return self.view
                if is_own is not None and is_own(hiding) and patience.spent_seconds > min(seconds, _OWN_COMMIT_SECONDS):
                    return self.view
                if not patience.wait_and_poll():
                    if on_undecided == "leave":
                        return self.view
                    raise RetriableError(
                        f"ledger topic {self.ledger_topic!r}: an open transaction of {hiding.connector}/"
                        f"{hiding.stream} {hiding.day} into {hiding.topic!r} hides records of this stream for "
                        f"{self.timeout_seconds:.0f} s already. A retry of that day or its transaction timeout "
                        "ends it. If neither does, see 'Readers that stop' in 'airflow connect docs kafka_errors'"
                    )

    def newest_claim(self, key: LedgerKey) -> Claim | None:
        """Return a day's newest claim, committed or not, or None."""
        hidden_claims = self.undecided_records(lambda ledger_key: ledger_key == key)
        value = hidden_claims[key] if key in hidden_claims else self.view.counting_value(key.encode())
        return parse_record(Claim, value, self.ledger_topic) if value is not None else None

    def records_since(self, key: LedgerKey, start_offsets: dict[int, int]) -> list[bytes]:
        """Return a key's records from these offsets on, committed or not."""
        raw = key.encode()
        with self._open_topic("read_uncommitted") as reader:
            messages = self._read_from(
                reader, {number: start_offsets.get(number, 0) for number in reader.partition_numbers()}
            )
            values = [message.value() for message in messages if message.key() == raw]
        return [value for value in values if isinstance(value, bytes)]

    def undecided_records(self, is_wanted: KeyFilter) -> dict[LedgerKey, bytes]:
        """Return the newest record of every wanted key that an open transaction wrote or hides."""
        with self._open_topic("read_committed") as reader:
            hidden = self._advance_view(reader, reader.partition_numbers())
        hidden_records = self._read_hidden(hidden) if hidden else []
        return {key: value for key, value in hidden_records if is_wanted(key) and value is not None}

    def _open_topic(self, isolation: Isolation) -> AbstractContextManager[TopicReader]:
        return open_topic(self.connection, self.ledger_topic, self.timeout_seconds, isolation, "ledger topic")

    def _advance_view(self, reader: TopicReader, numbers: list[int]) -> dict[int, int]:
        view = self.view
        with view.lock:
            ends = {number: self._read_end(reader, number) for number in numbers}
            if not numbers or any(ends[number] < view.positions.get(number, 0) for number in numbers):
                view.clear()  # the topic was created again
            if not numbers:
                return {}
            starts = {number: view.positions.get(number, 0) for number in numbers}
            for records in reader.read_batches(starts, ends):
                for message in records:
                    view.add(message)
            view.positions = reader.stop_offsets
            return {number: end for number, end in view.positions.items() if end < reader.cached_end(number)}

    def _read_end(self, reader: TopicReader, number: int) -> int:
        low, end = reader.read_bounds(number)
        if low > 0:
            raise ConfigError(
                f"ledger topic {self.ledger_topic!r} has lost its oldest records (it begins at offset {low}): "
                f"something other than compaction deletes from it. {_ADVICE}"
            )
        return end

    def _hiding_transaction(self, hidden: dict[int, int], wants: KeyFilter) -> LedgerKey | None:
        hidden_records = self._read_hidden(hidden)
        hides_wanted = any(value is not None and key.kind != "claim" and wants(key) for key, value in hidden_records)
        return hidden_records[0][0] if hides_wanted else None

    def _read_hidden(self, hidden: dict[int, int]) -> list[tuple[LedgerKey, bytes | None]]:
        with self._open_topic("read_uncommitted") as reader:
            records = [
                (parse_key(message, self.ledger_topic), message.value()) for message in self._read_from(reader, hidden)
            ]
        return [(key, value if isinstance(value, bytes) else None) for key, value in records]

    def _read_from(self, reader: TopicReader, starts: dict[int, int]) -> Iterator[Message]:
        ends = {number: self._read_end(reader, number) for number in starts}
        for records in reader.read_batches(starts, ends):
            yield from records

    def _is_of_target(self, key: LedgerKey) -> bool:
        return key[:3] == (self.key.connector, self.key.stream, self.target)

    def _is_erase_list(self, key: LedgerKey) -> bool:
        return key.kind == "erased" and key.topic == self.target

    def _is_of_kind(self, key: LedgerKey, kind: str) -> bool:
        return self._is_of_target(key) and key.kind == kind
