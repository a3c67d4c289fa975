"""Spans: an increment reads the rows between two positions of the stream's cursor.

A source of kind ``increment`` reads the rows after the last position, up to the position at the time of the poll. Its
rows get the run's day. The increments of a stream form a chain: each begins where its predecessor ended.

The sink's ledger keeps one span in each day's row. A commit checks that its increment follows the *stream's* newest one
(:meth:`.Ledger.newest`), so no row is read twice or skipped. A reload of a day reads its own span again and does not
change the chain.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import NamedTuple, Protocol

from pydantic import Field

from airflow_provider_connect.wire import Wire

MAX_POSITION_CHARACTERS = 1_000


class Span(Wire):
    """``(after, to]``: the rows after one position of the cursor, up to and including another.

    :param number: number in the stream's chain, from 1.
    :param after: the position before the first row, as the source writes it. None at the beginning of the stream.
    :param to: the last position, also of an increment without rows.
    """

    number: int = Field(ge=1)
    after: str | None = Field(default=None, max_length=MAX_POSITION_CHARACTERS)
    to: str = Field(max_length=MAX_POSITION_CHARACTERS)


class _SpanPublish(Protocol):
    @property
    def day(self) -> dt.date: ...

    @property
    def span(self) -> Span | None: ...


class Restart(NamedTuple):
    """Position from which a stream continues after an answered alarm about lost rows.

    A target that is loaded from the beginning numbers its spans from 1 again and may still have its old notes. So
    number and end together identify a span.

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
    find_end: Callable[[str | None, str | None], str],
    restart: Restart | None = None,
) -> Span:
    """Return the span for a day's next increment: the day's own span again, or the successor of the newest.

    :param newest: the publish that the increment must follow.
    :param find_end: takes a span's ``after`` and, for a reloaded day, its earlier end. Returns its end.
    :raises ValueError: the newest publish was no increment.
    """
    if newest is None:
        return Span(number=1, to=find_end(None, None))
    if (newest_span := newest.span) is None:
        raise ValueError("the newest publish has no span, so the next increment has no beginning")
    if newest.day == day:
        return newest_span.model_copy(update={"to": find_end(newest_span.after, newest_span.to)})
    is_answered = restart is not None and (restart.number, restart.to) == (newest_span.number, newest_span.to)
    after = restart.after if restart is not None and is_answered else newest_span.to
    return Span(number=newest_span.number + 1, after=after, to=find_end(after, None))
