"""The ledger of Kafka sinks: a compacted topic whose records are written in the transactions of the data.

A record's key says what it is about (:class:`.LedgerKey`). The newest record of a key counts, mostly
(:func:`.ledger.records.select_counting_value`). Of a day there is

* ``day``: its newest published state, what :class:`.Ledger` returns;
* ``part``: the same for one staged file, where each has a transaction of its own;
* ``claim``: who began last to publish it, so that a producer that was fenced can say who did it.

Of the topic there is ``erased``: its erase list (:func:`.view.known_erase_list`). Of the stream there are

* ``in_force``: the definition of its newest publish, written by the transaction of that publish;
* a record for each of its notes, by kind and id. No transaction writes them, so that nobody waits for one to see them.

The topic is read once from its beginning in a process, and on from there at every later question. A transaction of
*another* day that is open in the ledger's partition holds back everything behind it from readers of committed records,
also a day that was committed long ago. So a reader looks behind that point as one of uncommitted records: if nothing of
its own is there, it has seen all; else it waits. A transaction sends its data first and its ledger record last, so that
it holds the partition for milliseconds.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from heapq import nlargest
from typing import TYPE_CHECKING, Literal, get_args

from airflow_provider_connect.clients.kafka.outbox import AcknowledgedOutbox
from airflow_provider_connect.clients.kafka.topic_reader import Isolation, TopicReader, open_topic
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.patience import Patience
from airflow_provider_connect.sink import DefinitionInForce, Ledger, LedgerRow, StreamKey
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
from airflow_provider_connect.window import ONE_DAY, DaySet, SourceKind
from airflow_provider_connect.wire import Wire

if TYPE_CHECKING:
    from confluent_kafka import Message

    from airflow_provider_connect.sinks._kafka.options import KafkaOptions

NOTE_KINDS: tuple[NoteKind, ...] = get_args(NoteKind)
_DAY = b',"day"]'
_SPAN = b'"span":{'
"""In the record of an increment; others are not worth parsing."""


OnUndecided = Literal["wait", "leave", "ignore"]
KeyFilter = Callable[[LedgerKey], bool]
_PATIENCE_SECONDS: dict[OnUndecided, float] = {"wait": float("inf"), "leave": 10.0, "ignore": 0.0}
_LOOK_SECONDS = 0.05
_OWN_SECONDS = 1.0
"""What a commit may take that is under way; one that is dead is ended by the next try alone."""
_ADVICE = "Set cleanup.policy=compact alone, and write what is missing by hand, or use another ledger_topic"


class KafkaLedger(Ledger):
    """The ledger of one stream into one topic; every question reads on to the topic's end.

    :param handed: what a driver has read already; what this process knows by default.
    """

    def __init__(
        self, connection: Connection, options: KafkaOptions, stream_key: StreamKey, handed: LedgerHandover | None = None
    ) -> None:
        self.connection = connection
        self.ledger_topic = options.ledger_topic
        self.timeout_seconds = options.timeout_seconds
        self.key = stream_key
        self.target = options.topic
        self.replaces_whole = options.cleanup == "compact"
        """Whether a snapshot replaces what the topic shows, of whatever day that is."""
        self.view = (
            TopicView(self.ledger_topic, stream_key, handed)
            if handed
            else shared_view(connection, self.ledger_topic, stream_key)
        )

    def key_for(self, day: dt.date, kind: KeyKind = "day", part: int | None = None) -> LedgerKey:
        """Return the key of a record of this stream."""
        return LedgerKey(self.key.connector, self.key.stream, self.target, day, kind, part)

    def row(self, day: dt.date) -> LedgerRow | None:
        """Return the newest published state of a day, None if it never was."""
        entry = self.entry(day)
        return entry.row if entry else None

    def entry(self, day: dt.date) -> DayEntry | None:
        """Return the newest published state of a day, and where its records lie.

        What a transaction of this very day has open for long is not published: who publishes the day next ends it.
        """
        key = self.key_for(day)
        self.read_on(lambda seen: seen == key, is_ended_by_reader=lambda seen: seen[:4] == key[:4])
        return self._known(key.encode())

    def _known(self, raw: bytes) -> DayEntry | None:
        """Return what a key's record says, as far as the ledger was read; None without one."""
        value = self.view.counting_value(raw)
        return None if value is None else parse_record(DayEntry, value, self.ledger_topic)

    def between(self, first: dt.date, last: dt.date) -> list[LedgerRow]:
        """Return each day's newest publish; one that an open transaction of others hides for long as it was before."""
        self.read_on(lambda key: self._mine(key, "day") and first <= key.day <= last, "leave")
        keys = (self.key_for(first + ONE_DAY * i).encode() for i in range((last - first).days + 1))
        return [entry.row for raw in keys if (entry := self._known(raw)) is not None]

    def newest(self, day: dt.date, kind: SourceKind) -> LedgerRow | None:
        """Return the day's newest publish; the stream's newest snapshot, or increment, where that is followed."""
        if kind == "increment":
            # Increments share a transactional id, so what one of them has open is ended by who reads here.
            self.read_on(lambda key: self._mine(key, "day"), "wait", self._of_target)
            entries = map(self._known, (self.key_for(day).encode(), *self._last_increment()))
            return next((entry.row for entry in entries if entry is not None), None)
        if kind == "day" or not self.replaces_whole:
            return self.row(day)
        found = self.newest_entries(1, "wait")
        return found[0].row if found else None

    def erased(self) -> EraseList:
        """Return whose rows are kept out of the topic."""
        self.read_on(self._is_list)
        return self.known_erase_list()

    def known_erase_list(self) -> EraseList:
        """Return the same, as far as the ledger was read."""
        return known_erase_list(self.view, self.target)

    def definition_in_force(self) -> DefinitionInForce | None:
        """Return the definition of the stream's newest publish; one that is being published is not in force yet."""
        key = self.key_for(NO_DAY, "in_force")
        self.read_on(lambda seen: seen == key, is_ended_by_reader=self._of_target)
        return self.known_definition()

    def known_definition(self) -> DefinitionInForce | None:
        """Return the same, as far as the ledger was read."""
        value = self.view.counting_value(self.key_for(NO_DAY, "in_force").encode())
        return None if value is None else parse_record(DefinitionRecord, value, self.ledger_topic).as_definition

    def refresh(self) -> None:
        """Read on, for the erase list and the definition that are in force now.

        An erase that others have open is waited for. A definition is not, for long: who publishes the day ends that.
        """
        key = self.key_for(NO_DAY, "in_force")
        self.read_on(
            lambda seen: seen == key or self._is_list(seen),
            is_ended_by_reader=lambda seen: self._of_target(seen) and seen.kind != "erased",
        )

    def note_key(self, kind: NoteKind, note_id: str) -> LedgerKey:
        """Return the key of a note of this stream."""
        return self.key_for(NO_DAY, kind, int(note_id, 16))

    def notes(self) -> list[LedgerNote]:
        """Return the stream's notes, also those that an open transaction of others hides."""
        hidden = self.undecided_records(lambda key: self._of_target(key) and key.kind in NOTE_KINDS)
        known = {
            raw: self.view.counting_value(raw)
            for kind in NOTE_KINDS
            for raw in self.view.keys(kind, self.key_prefix(kind=kind))
        }
        values = known | {key.encode(): value for key, value in hidden.items()}
        return [parse_record(LedgerNote, value, self.ledger_topic) for value in values.values() if value is not None]

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return what was published of a day for one intent, None if nothing was."""
        entry = self.entry(day)
        return entry.row_for_intent(token) if entry else None

    def days(self) -> DaySet:
        """Return every published day; one that an open transaction of others hides for long is left out for now."""
        view = self.read_on(lambda key: self._mine(key, "day"), "leave")
        return DaySet.from_dates(_date(raw) for raw in view.keys("day", self.key_prefix()))

    def newest_entries(self, days: int, on_undecided: OnUndecided = "leave") -> list[DayEntry]:
        """Return what is published of the newest days, the newest first.

        :param undecided: as for :meth:`read_on`.
        """
        own = self._of_target if self.replaces_whole else None  # snapshots share a transactional id
        view = self.read_on(lambda key: self._mine(key, "day"), on_undecided, own)
        keys = nlargest(days, view.keys("day", self.key_prefix()))
        return [entry for raw in keys if (entry := self._known(raw)) is not None]

    def _last_increment(self) -> list[bytes]:
        """Return the key of the stream's newest increment, as far as the ledger was read; [] if it has none."""
        numbers: dict[bytes, int] = {}
        for raw in self.view.keys("day", self.key_prefix()):
            value = self.view.counting_value(raw)
            if (
                value is not None
                and _SPAN in value
                and (span := parse_record(DayEntry, value, self.ledger_topic).row.span)
            ):
                numbers[raw] = span.number
        return sorted(numbers, key=numbers.__getitem__)[-1:]

    def has_claims(self) -> bool:
        """Tell whether anybody ever began to publish a day of this stream."""
        behind = self.undecided_records(lambda key: self._mine(key, "claim"))
        return bool(behind or self.view.keys("claim", self.key_prefix()))

    def entries(self, *keys: LedgerKey) -> dict[LedgerKey, DayEntry]:
        """Return what is published of a day or of its parts; wait for open transactions that hide it.

        Nor may they hide which definition is in force: see :meth:`known_definition`.
        """
        wanted = (*keys, self.key_for(NO_DAY, "in_force"))
        self.read_on(lambda seen: seen in wanted)
        return {key: entry for key in keys if (entry := self._known(key.encode())) is not None}

    def handover(self, day: dt.date) -> LedgerHandover:
        """Return what an executor needs to go on reading where this process stands, to publish a day."""
        view = self.view
        newest = [*nlargest(1, view.keys("day", self.key_prefix())), *self._last_increment()]
        # Not the claims: that an executor finds its driver's in the topic shows that this is still the same topic.
        own = [
            self.key_for(day).encode(),
            self.key_for(NO_DAY, "in_force").encode(),
            *erase_list_keys(view, self.target),
        ]
        return view.handover([*own, *view.keys("part", self.key_prefix(day)), *newest])

    def superseded_entry(self, day: dt.date) -> DayEntry | None:
        """Return a day's last record where an earlier one counts, as far as the ledger was read."""
        value = self.view.superseded_value(self.key_for(day).encode())
        return None if value is None else parse_record(DayEntry, value, self.ledger_topic)

    def key_prefix(self, day: dt.date | None = None, kind: KeyKind = "day") -> bytes:
        """Return how the keys of this stream and target begin, or those of one of its days, or its notes of a kind."""
        names = [*self.key_for(NO_DAY, kind).name_fields, *([str(day)] if day else [])]
        return json.dumps(names, separators=(",", ":"))[:-1].encode() + b","

    def write_record(self, key: LedgerKey, record: Wire) -> None:
        """Write a record outside of any transaction, and wait until the broker has it."""
        # Written twice it is the same record, and getting an idempotent producer's id takes half a second.
        outbox = AcknowledgedOutbox(self.connection, self.timeout_seconds, {"enable.idempotence": False})
        outbox.send(self.ledger_topic, key.encode(), record.model_dump_json().encode(), [])
        outbox.flush()

    # Reading the topic

    def read_records(
        self, is_wanted: KeyFilter, on_undecided: OnUndecided = "wait", *, skipped_prefix: bytes
    ) -> dict[LedgerKey, bytes]:
        """Return the newest committed record of every wanted key of the stream; of a topic that is not there, none.

        :param skipped: how the keys begin that nobody wants, nearly all of them: they are not even parsed.
        """
        view = self.read_on(is_wanted, on_undecided)
        raws = [raw for kind in KEY_KINDS for raw in view.keys(kind) if not raw.startswith(skipped_prefix)]
        keys = [key for key in map(LedgerKey.parse, raws) if is_wanted(key)]
        return {key: value for key in keys if (value := view.counting_value(key.encode())) is not None}

    def read_on(
        self, is_wanted: KeyFilter, on_undecided: OnUndecided = "wait", is_ended_by_reader: KeyFilter | None = None
    ) -> TopicView:
        """Read on to the end; return what is known then.

        :param wants: what the question is about.
        :param undecided: what to do about wanted records that an open transaction of others hides: wait until they
            are decided, leave them out after a wait, or ignore them at once.
        :param own: whose open transaction is not waited for, as the reader itself is about to end it.
        :raises ConfigError: the topic holds what no Kafka sink wrote, or lost records to retention.
        :raises RetriableError: the broker is away, or wanted records stay undecided.
        """
        seconds = min(self.timeout_seconds, _PATIENCE_SECONDS[on_undecided])
        patience = Patience(seconds, (_LOOK_SECONDS,))
        with self._reading("read_committed") as partitions:
            numbers = partitions.partition_numbers()
            while True:
                hidden = self._read_on(partitions, numbers)
                hiding = self._hiding(hidden, is_wanted) if hidden and on_undecided != "ignore" else None
                if hiding is None:
                    return self.view
                if (
                    is_ended_by_reader is not None
                    and is_ended_by_reader(hiding)
                    and patience.spent_seconds > min(seconds, _OWN_SECONDS)
                ):
                    return self.view
                if not patience.wait_and_poll():
                    if on_undecided == "leave":
                        return self.view
                    raise RetriableError(
                        f"ledger topic {self.ledger_topic!r}: an open transaction of {hiding.connector}/{hiding.stream} "
                        f"{hiding.day} into {hiding.topic!r} hides records of this stream for "
                        f"{self.timeout_seconds:.0f} s already; a retry of that day ends it, or its transaction "
                        "timeout; if neither does, see 'Readers that stop' in docs/kafka_errors.md"
                    )

    def newest_claim(self, key: LedgerKey) -> Claim | None:
        """Return who began last to publish a day, committed or not; None if nobody is known."""
        found = self.undecided_records(lambda seen: seen == key)
        value = found[key] if key in found else self.view.counting_value(key.encode())
        return parse_record(Claim, value, self.ledger_topic) if value is not None else None

    def records_since(self, key: LedgerKey, start_offsets: dict[int, int]) -> list[bytes]:
        """Return all records of a key from some offsets on, in their order, committed or not."""
        raw = key.encode()
        with self._reading("read_uncommitted") as partitions:
            messages = self._from(
                partitions, {number: start_offsets.get(number, 0) for number in partitions.partition_numbers()}
            )
            values = [message.value() for message in messages if message.key() == raw]
        return [value for value in values if isinstance(value, bytes)]

    def undecided_records(self, is_wanted: KeyFilter) -> dict[LedgerKey, bytes]:
        """Return the newest record of every wanted key behind what the view holds, which this brings to the end.

        Such records may be committed some time, or not, or may be hidden by another's open transaction.
        """
        with self._reading("read_committed") as partitions:
            hidden = self._read_on(partitions, partitions.partition_numbers())
        behind = self._behind(hidden) if hidden else []
        return {key: value for key, value in behind if is_wanted(key) and value is not None}

    def _reading(self, isolation: Isolation) -> AbstractContextManager[TopicReader]:
        return open_topic(self.connection, self.ledger_topic, self.timeout_seconds, isolation, "ledger topic")

    def _read_on(self, partitions: TopicReader, numbers: list[int]) -> dict[int, int]:
        """Bring the view to the end; return where it stands in partitions in which an open transaction hides more."""
        view = self.view
        with view.lock:
            ends = {number: self._end(partitions, number) for number in numbers}
            if not numbers or any(ends[number] < view.positions.get(number, 0) for number in numbers):
                view.clear()  # another topic of that name
            if not numbers:
                return {}
            starts = {number: view.positions.get(number, 0) for number in numbers}
            for records in partitions.read_batches(starts, ends):
                for message in records:
                    view.add(message)
            view.positions = partitions.stop_offsets
            return {number: end for number, end in view.positions.items() if end < partitions.cached_end(number)}

    def _end(self, partitions: TopicReader, number: int) -> int:
        low, end = partitions.read_bounds(number)
        if low > 0:
            raise ConfigError(
                f"ledger topic {self.ledger_topic!r} has lost its oldest records (it begins at offset {low}): something "
                f"other than compaction deletes from it. {_ADVICE}"
            )
        return end

    def _hiding(self, hidden: dict[int, int], wants: KeyFilter) -> LedgerKey | None:
        """Return whose transaction hides wanted records from readers of committed ones; None if none is hidden.

        The record at which they stop is the first of the transaction that is open.
        """
        behind = self._behind(hidden)
        wanted = any(value is not None and key.kind != "claim" and wants(key) for key, value in behind)
        return behind[0][0] if wanted else None

    def _behind(self, hidden: dict[int, int]) -> list[tuple[LedgerKey, bytes | None]]:
        """Return the records behind some offsets, committed or not."""
        with self._reading("read_uncommitted") as partitions:
            found = [
                (parse_key(message, self.ledger_topic), message.value()) for message in self._from(partitions, hidden)
            ]
        return [(key, value if isinstance(value, bytes) else None) for key, value in found]

    def _from(self, partitions: TopicReader, starts: dict[int, int]) -> Iterator[Message]:
        """Yield the records of partitions from some offsets on, up to their ends."""
        ends = {number: self._end(partitions, number) for number in starts}
        for records in partitions.read_batches(starts, ends):
            yield from records

    def _of_target(self, key: LedgerKey) -> bool:
        return key[:3] == (self.key.connector, self.key.stream, self.target)

    def _is_list(self, key: LedgerKey) -> bool:
        return key.kind == "erased" and key.topic == self.target

    def _mine(self, key: LedgerKey, what: str) -> bool:
        return self._of_target(key) and key.kind == what


def _date(raw: bytes) -> dt.date:
    """Return the day in the key of a day's record."""
    text = raw[: -len(_DAY)]
    return dt.date.fromisoformat(text[text.rindex(b',"') + 2 : -1].decode())
