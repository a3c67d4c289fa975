"""Spans: the part of a stream that one increment reads, between two positions of its cursor.

A source of kind ``increment`` reads the rows after the last position, up to the position at the time of the poll, and
the rows get the run's day. The increments of a stream form a chain: each begins where its predecessor ended.

The sink's ledger keeps the chain, one span in each day's row. A commit of a new increment compares with the newest one
of the *stream* (:meth:`.Ledger.newest`). So two runs cannot both follow the same increment, and no row is read twice or
skipped. A day that is loaded again reads its own span again and leaves the chain as it is.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import NamedTuple, Protocol

from pydantic import Field

from airflow_provider_connect.wire import Wire

MAX_POSITION_CHARACTERS = 1_000
"""The longest position. Every ledger keeps it forever."""


class Span(Wire):
    """``(after, to]``: the rows after one position of the cursor, up to and including another.

    :param number: position in the chain, from 1.
    :param after: the position before the first row, as the source writes it. None at the beginning of the stream.
    :param to: the last position. An increment without rows has one too, and later rows come after it.
    """

    number: int = Field(ge=1)
    after: str | None = Field(default=None, max_length=MAX_POSITION_CHARACTERS)
    to: str = Field(max_length=MAX_POSITION_CHARACTERS)


class _Published(Protocol):
    @property
    def day(self) -> dt.date: ...

    @property
    def span(self) -> Span | None: ...


class Restart(NamedTuple):
    """Position from which a stream continues after an answered alarm.

    A target that is loaded from the beginning counts from 1 again and may still have its notes, so a number alone does
    not identify a span.

    :param number: number of the newest span when the alarm was raised.
    :param to: the end of that span.
    :param after: the last position that is not read. None to read from the beginning of the stream.
    """

    number: int
    to: str
    after: str | None


def next_span(
    newest: _Published | None,
    day: dt.date,
    find_end: Callable[[str | None, str | None], str],
    restart: Restart | None = None,
) -> Span:
    """Return the span of a day's next increment: its own span again, or the successor of the newest. Pure.

    :param newest: the publish that the increment must follow.
    :param find_end: returns the end of a span, from its ``after`` and, for a day that is loaded again, its earlier end.
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
