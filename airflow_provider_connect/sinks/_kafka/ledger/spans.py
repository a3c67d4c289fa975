"""Increments in the ledger: a day has a ``day`` record for each span."""

from __future__ import annotations

import datetime as dt
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator
from heapq import nlargest
from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.ledger import day_row
from airflow_provider_connect.sink import Ledger, LedgerRow, Publish
from airflow_provider_connect.sinks._kafka.ledger.records import DayEntry, KeyKind, LedgerKey

if TYPE_CHECKING:
    from airflow_provider_connect.sinks._kafka.ledger.view import TopicView

OnUndecided = Literal["wait", "leave", "ignore"]
KeyFilter = Callable[[LedgerKey], bool]

_NUMBER = re.compile(rb'"span":\{"number":(\d+)')
"""Matches a record of an increment, as pydantic writes it."""
_DAY_KEY = re.compile(rb',"(\d{4}-\d\d-\d\d)","day"(?:,\d+)?\]')


def span_number(value: bytes) -> int | None:
    """Return the number of the span of a day's record, None if it is no increment."""
    match = _NUMBER.search(value)
    return None if match is None else int(match[1])


def span_numbers(view: TopicView, prefix: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the key and number of each span as read so far."""
    for raw in view.keys("day", prefix):
        value = view.counting_value(raw)
        number = None if value is None else span_number(value)
        if number is not None:
            yield raw, number


def day_of_key(raw: bytes) -> dt.date:
    match = _DAY_KEY.search(raw)
    assert match is not None
    return dt.date.fromisoformat(match[1].decode())


class SpanLedger(Ledger):
    """Ledger of a day's records: one, or one for each span of increments."""

    view: TopicView

    @abstractmethod
    def key_for(self, day: dt.date, kind: KeyKind = "day", part: int | None = None) -> LedgerKey:
        """Return the key of one of this stream's records."""

    @abstractmethod
    def key_prefix(self, day: dt.date | None = None) -> bytes:
        """Return the encoded prefix of the stream's keys, or of one day's keys."""

    @abstractmethod
    def read_on(
        self, is_wanted: KeyFilter, on_undecided: OnUndecided = "wait", is_own: KeyFilter | None = None
    ) -> TopicView:
        """Read to the topic's end."""

    @abstractmethod
    def _known_entry(self, raw: bytes) -> DayEntry | None: ...

    @abstractmethod
    def _is_of_target(self, key: LedgerKey) -> bool: ...

    @abstractmethod
    def _is_of_kind(self, key: LedgerKey, kind: str) -> bool: ...

    def row(self, day: dt.date) -> LedgerRow | None:
        return day_row([entry.row for entry in self.day_entries(day)])

    def day_entries(self, day: dt.date) -> list[DayEntry]:
        """Return the newest published state of a day or, for increments, of each of its spans.

        Waits about a second for an open transaction of the same day.
        """
        self._read_day(day)
        return self._known_day_entries(day)

    def _read_day(self, day: dt.date) -> None:
        key = self.key_for(day)
        self.read_on(lambda ledger_key: ledger_key[:5] == key[:5], is_own=lambda ledger_key: ledger_key[:4] == key[:4])

    def _known_day_entries(self, day: dt.date) -> list[DayEntry]:
        entries = map(self._known_entry, self.view.keys("day", self.key_prefix(day)))
        return [entry for entry in entries if entry is not None]

    def publish_key(self, publish: Publish) -> LedgerKey:
        """Return the key of a publish's ``day`` record, by the ledger as read so far."""
        day, number = publish.day.date, publish.manifest.span_number
        first_value = self.view.counting_value(self.key_for(day).encode())
        is_first = number is None or first_value is None or span_number(first_value) == number
        return self.key_for(day, "day", None if is_first else number)

    def publish_entry(self, publish: Publish) -> DayEntry | None:
        """Return the newest published state of a publish's day or span. Waits as :meth:`day_entries`."""
        self._read_day(publish.day.date)
        return self._known_entry(self.publish_key(publish).encode())

    def between(self, first: dt.date, last: dt.date) -> list[LedgerRow]:
        """Return each day's newest publish. Ignores a publish that an open transaction hides for long."""
        rows = (day_row(rows) for rows in self.span_rows(first, last))
        return [row for row in rows if row is not None]

    def span_rows(self, first: dt.date, last: dt.date) -> Iterator[list[LedgerRow]]:
        """Yield the newest publish of each day or, for increments, of each of its spans. Ignores as :meth:`between`."""
        self.read_on(lambda key: self._is_of_kind(key, "day") and first <= key.day <= last, "leave")
        raws_by_day: dict[dt.date, list[bytes]] = {}
        for raw in self.view.keys("day", self.key_prefix()):
            raws_by_day.setdefault(day_of_key(raw), []).append(raw)
        for day in sorted(day for day in raws_by_day if first <= day <= last):
            entries = map(self._known_entry, raws_by_day[day])
            yield [entry.row for entry in entries if entry is not None]

    def newest_increment(self, day: dt.date, run: str) -> LedgerRow | None:
        self._read_increments()
        for row in (entry.row for entry in self._known_day_entries(day)):
            if row.span is None:
                return row
            if (row.span.run or row.run) == run:
                return row.model_copy(update={"span": row.span.model_copy(update={"run": run})})
        return next((entry.row for raw in self._last_increment() if (entry := self._known_entry(raw))), None)

    def followed_increment(self, publish: Publish) -> LedgerRow | None:
        """Return the publish that a publish of an increment must follow: of its span, or of the newest span."""
        self._read_increments()
        own = [raw for raw, number in self._span_numbers() if number == publish.manifest.span_number]
        return next((entry.row for raw in (*own, *self._last_increment()) if (entry := self._known_entry(raw))), None)

    def _read_increments(self) -> None:
        # Increments share a transactional id, so this reader's publish ends any open transaction of one.
        self.read_on(lambda key: self._is_of_kind(key, "day"), "wait", self._is_of_target)

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return the ledger row that one intent has published for a day, or None."""
        rows = (entry.row_for_intent(token) for entry in self.day_entries(day))
        return next((row for row in rows if row is not None), None)

    def _last_increment(self) -> list[bytes]:
        return [raw for raw, _ in nlargest(1, self._span_numbers(), key=lambda pair: pair[1])]

    def _span_numbers(self) -> Iterator[tuple[bytes, int]]:
        return span_numbers(self.view, self.key_prefix())
