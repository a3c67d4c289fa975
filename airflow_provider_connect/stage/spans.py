"""Spans: an increment reads the rows between two positions of the stream's cursor.

The increments of a stream form a chain: each begins where its predecessor ended.

A run that is cleared, or made again under the same run id, reads its own span again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import NamedTuple, Protocol

from pydantic import Field

from airflow_provider_connect.wire import Wire

MAX_POSITION_CHARACTERS = 1_000
"""Of a position in a span. A longer one stands in a note, and the span has its reference."""
MAX_KEPT_CHARACTERS = 100_000
"""Of a position in a note."""


class Span(Wire):
    """``(after, to]``: the rows after one position of the cursor, up to and including another.

    :param number: number in the stream's chain, from 1.
    :param after: the position before the first row, as the source writes it. None at the beginning of the stream.
    :param to: the last position, also of an increment without rows.
    :param run: the run that the span belongs to, as in :attr:`.Intent.run`. In a row of a ledger, None if unknown.
    """

    number: int = Field(ge=1)
    after: str | None = Field(default=None, max_length=MAX_POSITION_CHARACTERS)
    to: str = Field(max_length=MAX_POSITION_CHARACTERS)
    run: str | None = None

    def belongs_to(self, run: str) -> bool:
        """Return True if a run reads this span again."""
        return self.run == run


class _SpanPublish(Protocol):
    @property
    def day(self) -> dt.date: ...

    @property
    def span(self) -> Span | None: ...


class Restart(NamedTuple):
    """Position from which a stream continues after an answered alarm about lost rows.

    Number and end together identify a span.

    :param number: number of the newest span at the alarm.
    :param to: end of that span.
    :param after: rows after this position are read. None to read all rows.
    """

    number: int
    to: str
    after: str | None


def next_span(
    newest: _SpanPublish | None,
    day: dt.date,
    run: str,
    find_end: Callable[[str | None, str | None], str],
    restart: Restart | None = None,
) -> Span:
    """Return the span for a run's increment: the run's own span again, or the successor of the newest.

    :param newest: the publish that the increment must follow.

    :param find_end: returns a span's end, given its ``after`` and, for a span that is read again, its earlier end.
    :raises ValueError: the newest publish was no increment.
    """
    if newest is None:
        return Span(number=1, to=find_end(None, None), run=run)
    if (newest_span := newest.span) is None:
        raise ValueError("the newest publish has no span, so the next increment has no beginning")
    if newest.day == day and newest_span.belongs_to(run):
        return newest_span.model_copy(update={"to": find_end(newest_span.after, newest_span.to)})
    is_answered = restart is not None and (restart.number, restart.to) == (newest_span.number, newest_span.to)
    after = restart.after if restart is not None and is_answered else newest_span.to
    return Span(number=newest_span.number + 1, after=after, to=find_end(after, None), run=run)
