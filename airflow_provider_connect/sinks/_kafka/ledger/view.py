"""In-process cache of a ledger topic: one stream's keys and values."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.kafka.connection import librdkafka_settings
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks._kafka.ledger.records import (
    KEY_KINDS,
    NO_DAY,
    STREAM_KINDS,
    KeyKind,
    LedgerKey,
    erase_list_key,
    parse_record,
    select_counting_value,
)
from airflow_provider_connect.stage.erase_list import EraseList

if TYPE_CHECKING:
    from confluent_kafka import Message


TURN_KEY_PREFIX = b'["","",'
"""Prefix of turn records' keys (:mod:`.turn_queue`)."""
_KEY = re.compile(
    rb'\["[^"\\]*","[^"\\]*","[^"\\]*","\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])","(?:day|part|claim|erased)"(?:,\d+)?\]'
)
"""Matches nearly all keys, which saves parsing them."""
_STREAM_KEY_PREFIX = b'["/'
"""Prefix of :data:`.records.StreamKind` keys."""
_KEY_SUFFIXES: dict[KeyKind, bytes] = {"day": b'"day"]', "claim": b'"claim"]', "erased": b'"erased"]'}
_SPAN_KEY = re.compile(rb'","day",\d+\]$')
"""Matches the key of a day's later span (:mod:`.ledger.spans`)."""
_MAX_CACHED_VIEWS = 8


@dataclass(frozen=True)
class LedgerHandover:
    """Ledger state that a driver hands to its executors.

    :param positions: next offset of each partition.
    :param tickets: offset and value of each open ticket, by ticket number.
    """

    positions: dict[int, int]
    values: dict[bytes, bytes] = field(default_factory=dict, repr=False)
    tickets: dict[int, tuple[int, bytes]] = field(default_factory=dict, repr=False)


class TopicView:
    """One stream's committed records in a ledger topic, up to known offsets."""

    def __init__(self, topic: str, key: StreamKey, handover: LedgerHandover | None = None) -> None:
        self.topic = topic
        self.lock = threading.Lock()
        """Held while records are added, selected or handed over."""
        self._day_key_prefix = _key_prefix(key.connector, key.stream)
        stream_keys = (LedgerKey(key.connector, key.stream, "", NO_DAY, kind) for kind in STREAM_KINDS)
        self._stream_key_prefixes = tuple(
            _key_prefix(*stream_key_of_kind.name_fields[:2]) for stream_key_of_kind in stream_keys
        )
        self.clear()
        if handover:
            self.positions |= handover.positions
            self.tickets |= handover.tickets
            for raw, value in handover.values.items():
                self._values[kind_of(raw)][raw] = [value]

    def clear(self) -> None:
        self.positions: dict[int, int] = {}
        self.tickets: dict[int, tuple[int, bytes]] = {}
        self._superseded: dict[bytes, bytes] = {}
        self._values: dict[KeyKind, dict[bytes, list[bytes]]] = {kind: {} for kind in KEY_KINDS}

    def add(self, message: Message) -> None:
        """Add a record of this stream. Ignores other streams' records.

        :raises ConfigError: an unknown record.
        """
        raw, value = message.key(), message.value()
        if not isinstance(raw, bytes) or not _KEY.fullmatch(raw):
            parse_key(message, self.topic)
        assert isinstance(raw, bytes)
        kind, is_of_stream = (
            kind_of(raw),
            raw.startswith(_STREAM_KEY_PREFIX) and raw.startswith(self._stream_key_prefixes),
        )
        # All writers of a topic obey its erase lists.
        if raw.startswith(self._day_key_prefix) or is_of_stream or kind == "erased":
            if not isinstance(value, bytes):  # written by hand to forget the day
                self._values[kind].pop(raw, None)
                self._superseded.pop(raw, None)
            elif kind == "day":
                self._values[kind].setdefault(raw, []).append(value)
            else:
                self._values[kind][raw] = [value]
        elif raw.startswith(TURN_KEY_PREFIX):
            self._add_turn(message, raw, value)

    def _add_turn(self, message: Message, raw: bytes, value: str | bytes | None) -> None:
        number = LedgerKey.parse(raw).part
        if number is None or number % 2:  # old heartbeats do not matter
            return
        if not isinstance(value, bytes):
            self.tickets.pop(number, None)
        elif (known_ticket := self.tickets.get(number)) is None or known_ticket[1] != value:  # else a copy of it
            self.tickets[number] = (message.offset() or 0, value)

    def counting_value(self, raw: bytes) -> bytes | None:
        """Return the record that counts under a key, or None.

        :raises ConfigError: an unreadable record.
        """
        values = self._values[kind_of(raw)].get(raw, [])
        if len(values) > 1:
            with self.lock:  # another thread may select or add records
                return self._select_counting(raw)
        return values[0] if values else None

    def _select_counting(self, raw: bytes) -> bytes | None:
        values = self._values[kind_of(raw)].get(raw, [])
        if len(values) > 1:
            last_value, counting = values[-1], select_counting_value(values, self.topic)
            values[:] = [counting]
            if counting == last_value:
                self._superseded.pop(raw, None)
            else:
                self._superseded[raw] = last_value
        return values[0] if values else None

    def superseded_value(self, raw: bytes) -> bytes | None:
        """Return a key's last record if an earlier record counts instead of it, else None."""
        with self.lock:
            self._select_counting(raw)
            return self._superseded.get(raw)

    def keys(self, kind: KeyKind, prefix: bytes = b"") -> list[bytes]:
        return [raw for raw in list(self._values[kind]) if raw.startswith(prefix)]

    def handover(self, keys: Collection[bytes]) -> LedgerHandover:
        """Return the state for an executor that reads these keys."""
        with self.lock:  # a consistent state: no record may be missing between values and positions
            values = {raw: value for raw in keys if (value := self._select_counting(raw)) is not None}
            return LedgerHandover(dict(self.positions), values, dict(self.tickets))


def _key_prefix(*names: str) -> bytes:
    return json.dumps(names, separators=(",", ":"))[:-1].encode() + b","


def kind_of(raw: bytes) -> KeyKind:
    if raw.startswith(_STREAM_KEY_PREFIX):
        return next((kind for kind in STREAM_KINDS if raw.startswith(b'["/%s/' % kind.encode())), "claim")
    by_suffix = next((kind for kind, end in _KEY_SUFFIXES.items() if raw.endswith(end)), None)
    return by_suffix or ("day" if _SPAN_KEY.search(raw) else "part")


def parse_key(message: Message, topic: str) -> LedgerKey:
    """Parse a record's key.

    :raises ConfigError: no Kafka sink wrote it.
    """
    raw = message.key()
    try:
        return LedgerKey.parse(raw if isinstance(raw, bytes) else None)
    except (ValueError, TypeError):
        raise ConfigError(
            f"ledger topic {topic!r} holds a record at offset {message.offset()} that no Kafka sink wrote. "
            "Use a separate ledger_topic"
        ) from None


_views: OrderedDict[tuple[str, str, StreamKey], TopicView] = OrderedDict()
_views_lock = threading.Lock()


def shared_view(connection: Connection, topic: str, key: StreamKey) -> TopicView:
    cluster = hashlib.sha256(json.dumps(sorted(librdkafka_settings(connection).items())).encode()).hexdigest()
    name = (cluster, topic, key)
    with _views_lock:
        view = _views.pop(name, None) or TopicView(topic, key)
        _views[name] = view
        while len(_views) > _MAX_CACHED_VIEWS:
            _views.popitem(last=False)
    return view


def erase_list_keys(view: TopicView, topic: str) -> list[bytes]:
    return sorted(raw for raw in view.keys("erased") if LedgerKey.parse(raw).topic == topic)


def known_erase_list(view: TopicView, topic: str) -> EraseList:
    """Return a topic's erase list, merged from all records read so far."""
    topic_list_key = erase_list_key(topic).encode()
    lists = {
        raw: parse_record(EraseList, value, view.topic)
        for raw in erase_list_keys(view, topic)
        if (value := view.counting_value(raw))
    }
    topic_list = lists.pop(topic_list_key, EraseList())
    merged_versions = {part.salt: part.version for part in topic_list.parts}
    later = [
        stream_list for stream_list in lists.values() if stream_list.version > merged_versions.get(stream_list.salt, 0)
    ]
    version = topic_list.version + sum(
        stream_list.version - merged_versions.get(stream_list.salt, 0) for stream_list in later
    )
    return EraseList.join([*later, topic_list], version)
