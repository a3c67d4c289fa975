"""Slots: the places of a day's publishes in a Delta ledger. A day has one slot, or one for each span of increments.

The application ids of a day's first slot begin with the day, as those of a day that is no increment. The ids of its
later slots begin with ``<day>/increment/<number>``. So tables of earlier versions, with one span a day, need no change.

``…/file/<attempt>`` is the generation that an attempt published into a slot. A slot's files are those of its attempts.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.manifest import DATA_FILE_PATTERN
from airflow_provider_connect.stage.spans import Span

FILE_SUFFIX = "/file/"
_SPAN = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)(?P<slot>/increment/\d+)?/span/(?P<number>\d+)/(?P<ends>.*)", re.DOTALL)

LiveFile = tuple[dt.date, str, int | None]
"""Day, path and number of rows of a live file of the table."""


class Slot(NamedTuple):
    """One publish of a day that has generations of its own.

    :param suffix: follows the day in the application ids. "" for the day's first slot.
    :param span: the span that its increment read, or None.
    """

    day: dt.date
    suffix: str = ""
    span: Span | None = None

    @property
    def number(self) -> int:
        """Number of the span. 0 without a span."""
        return 0 if self.span is None else self.span.number


def span_suffix(number: int) -> str:
    """Return the suffix of a day's later slot, whose span has this number."""
    return f"/increment/{number}"


def slots_with_spans(app_transactions: Mapping[str, int], prefix: str) -> dict[dt.date, list[Slot]]:
    """Return the slots of each day that increments loaded, in the order of their numbers."""
    newest_spans: dict[tuple[dt.date, str], tuple[int, Span]] = {}
    for app, generation in app_transactions.items():
        # Most ids have none, and a ledger of many runs has very many ids.
        match = _SPAN.fullmatch(app.removeprefix(prefix)) if "/span/" in app else None
        if match is not None:
            key, (start, end) = (dt.date.fromisoformat(match["day"]), match["slot"] or ""), json.loads(match["ends"])
            span = Span(number=int(match["number"]), after=start, to=end)
            if key not in newest_spans or newest_spans[key][0] < generation:
                newest_spans[key] = generation, span
    slots: dict[dt.date, list[Slot]] = {}
    for (day, suffix), (_, span) in sorted(newest_spans.items(), key=lambda item: item[1][1].number):
        slots.setdefault(day, []).append(Slot(day, suffix, span))
    return slots


class DayFiles(NamedTuple):
    """The live files of a day, and what the ledger knows of its slots.

    :param published_rows: rows of each slot by its suffix, as the ledger has them.
    :param attempts: the slot's suffix of each attempt that the ledger records with a slot.
    """

    files: Sequence[LiveFile]
    published_rows: Mapping[str, int]
    attempts: Mapping[str, str]

    def of_slot(self, slot: Slot, path: str) -> list[LiveFile]:
        """Return the live files with a slot's rows.

        Another writer may have put several slots' files together. If the others' files are complete, the rest belongs
        to this slot.

        :param path: the table, for the message.
        :raises ConfigError: files hold the rows of several slots, or rows that this stream never published.
        """
        if len(self.published_rows) < 2:
            return [*self.files]
        owners = [suffix_of_file(file, self.attempts) for file in self.files]
        by_suffix = {
            suffix: [file for file, owner in zip(self.files, owners, strict=True) if owner == suffix]
            for suffix in self.published_rows
        }
        if self._is_complete(slot.suffix, by_suffix[slot.suffix]):
            return by_suffix[slot.suffix]
        rest = [file for file, owner in zip(self.files, owners, strict=True) if owner in (slot.suffix, None)]
        others = [suffix for suffix in self.published_rows if suffix != slot.suffix]
        if all(self._is_complete(suffix, by_suffix[suffix]) for suffix in others) and self._is_complete(
            slot.suffix, rest
        ):
            return rest
        raise ConfigError(
            f"table {path}: another writer has compacted or changed the files of {slot.day}, so the rows of increment "
            f"{slot.number} cannot be told from those of the day's other increments. Nothing was changed. Leave the "
            "day as it is, or load the stream into a new table"
        )

    def _is_complete(self, suffix: str, files: Sequence[LiveFile]) -> bool:
        rows = [rows for _, _, rows in files]
        return None not in rows and sum(filter(None, rows)) == self.published_rows[suffix]


def suffix_of_file(file: LiveFile, attempts: Mapping[str, str]) -> str | None:
    """Return the suffix of the slot that published a file, or None for another writer's file.

    :param attempts: the slot's suffix of each attempt. Other attempts belong to the day's first slot.
    """
    match = DATA_FILE_PATTERN.fullmatch(file[1])
    return None if match is None else attempts.get(match["attempt"], "")
