"""The ledger of Kafka sinks: a compacted topic whose records are written in the transactions of the data.

A record's key says what it is about (:class:`.LedgerKey`). The newest record of a key counts, mostly
(:func:`.ledger.records.standing`). Of a day there is

* ``day``: its newest published state, what :class:`.Ledger` returns;
* ``part``: the same for one staged file, where each has a transaction of its own;
* ``claim``: who began last to publish it, so that a producer that was fenced can say who did it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection
from heapq import nlargest
from typing import Literal

from airflow_provider_connect.sink import Ledger, LedgerRow, StreamKey
from airflow_provider_connect.sinks._kafka.ledger.records import Entry, LedgerKey, parsed
from airflow_provider_connect.sinks._kafka.ledger.topic import LedgerTopic, Undecided
from airflow_provider_connect.sinks._kafka.ledger.view import Handed
from airflow_provider_connect.window import DaySet, SourceKind

_DAY = b',"day"]'


class KafkaLedger(Ledger):
    """The ledger of one stream into one topic; every question reads on to the topic's end.

    :param replaces_whole: whether a snapshot replaces what the topic shows, of whatever day that is.
    """

    def __init__(self, topic: LedgerTopic, key: StreamKey, target: str, *, replaces_whole: bool = False) -> None:
        self.topic = topic
        self.key = key
        self.target = target
        self.replaces_whole = replaces_whole

    def about(self, day: dt.date, what: Literal["day", "part", "claim"] = "day", part: int | None = None) -> LedgerKey:
        """Return the key of a record of this stream."""
        return LedgerKey(self.key.connector, self.key.stream, self.target, day, what, part)

    def row(self, day: dt.date) -> LedgerRow | None:
        """Return the newest published state of a day, None if it never was."""
        entry = self.entry(day)
        return entry.row if entry else None

    def entry(self, day: dt.date) -> Entry | None:
        """Return the newest published state of a day, and where its records lie.

        What a transaction of this very day has open for long is not published: who publishes the day next ends it.
        """
        key = self.about(day)
        view = self.topic.current(lambda seen: seen == key, own=lambda seen: seen[:4] == key[:4])
        value = view.value(key.encoded())
        return None if value is None else parsed(Entry, value, self.topic.name)

    def newest(self, day: dt.date, kind: SourceKind) -> LedgerRow | None:
        """Return the day's newest publish; the stream's newest snapshot where one replaces the whole."""
        if kind == "day" or not self.replaces_whole:
            return self.row(day)
        found = self.newest_entries(1, "wait")
        return found[0].row if found else None

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return what was published of a day for one intent, None if nothing was."""
        entry = self.entry(day)
        return entry.published(token) if entry else None

    def days(self) -> DaySet:
        """Return every published day; one that an open transaction of others hides for long is left out for now."""
        view = self.topic.current(lambda key: self._mine(key, "day"), "leave")
        return DaySet.of(_date(raw) for raw in view.keys("day", self.begin()))

    def newest_entries(self, days: int, undecided: Undecided = "leave") -> list[Entry]:
        """Return what is published of the newest days, the newest first.

        :param undecided: as for :meth:`LedgerTopic.current`.
        """
        own = self._of_target if self.replaces_whole else None  # snapshots share a transactional id
        view = self.topic.current(lambda key: self._mine(key, "day"), undecided, own)
        keys = nlargest(days, view.keys("day", self.begin()))
        return [parsed(Entry, value, self.topic.name) for raw in keys if (value := view.value(raw)) is not None]

    def has_claims(self) -> bool:
        """Tell whether anybody ever began to publish a day of this stream."""
        behind = self.topic.undecided(lambda key: self._mine(key, "claim"))
        return bool(behind or self.topic.view.keys("claim", self.begin()))

    def entries(self, day: dt.date, only: Collection[LedgerKey] | None = None) -> dict[LedgerKey, Entry]:
        """Return what is published of a day, and of its parts.

        :param only: the records that matter, and are waited for; all by default.
        """
        view = self.topic.current(
            lambda key: (
                key in only
                if only is not None
                else key.day == day and (self._mine(key, "day") or self._mine(key, "part"))
            )
        )
        keys = only
        if only is None:
            keys = [self.about(day), *map(LedgerKey.parse, view.keys("part", self.begin(day)))]
        found = {key: value for key in keys or () if (value := view.value(key.encoded())) is not None}
        return {key: parsed(Entry, value, self.topic.name) for key, value in found.items()}

    def handed(self, day: dt.date) -> Handed:
        """Return what an executor needs to go on reading where this process stands, to publish a day."""
        view = self.topic.view
        newest = nlargest(1, view.keys("day", self.begin()))
        # Not the claims: that an executor finds its driver's in the topic shows that this is still the same topic.
        return view.handed([self.about(day).encoded(), *view.keys("part", self.begin(day)), *newest])

    def outdone(self, day: dt.date) -> Entry | None:
        """Return a day's last record where an earlier one counts, as far as the ledger was read."""
        value = self.topic.view.outdone(self.about(day).encoded())
        return None if value is None else parsed(Entry, value, self.topic.name)

    def begin(self, day: dt.date | None = None) -> bytes:
        """Return how the keys of this stream and target begin, or those of one of its days."""
        names = [self.key.connector, self.key.stream, self.target, *([str(day)] if day else [])]
        return json.dumps(names, separators=(",", ":"))[:-1].encode() + b","

    def _of_target(self, key: LedgerKey) -> bool:
        return key[:3] == (self.key.connector, self.key.stream, self.target)

    def _mine(self, key: LedgerKey, what: str) -> bool:
        return self._of_target(key) and key.what == what


def _date(raw: bytes) -> dt.date:
    """Return the day in the key of a day's record."""
    text = raw[: -len(_DAY)]
    return dt.date.fromisoformat(text[text.rindex(b',"') + 2 : -1].decode())
