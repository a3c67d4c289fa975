"""Spans: what one increment of a stream has read, between two positions of its cursor.

A source whose ``kind`` is ``increment`` has no days of its own. It reads all that came behind the last position, up to
the one at which it looked; the day is the run's. The increments of a stream form a chain, in which each begins where
the one before it ended. The sink's ledger keeps the chain, a span in each day's row, and the compare-and-set that
commits a new increment is on the newest of the *stream* (:meth:`.Ledger.newest`): two runs at once cannot both follow
the same one, so nothing is read twice, and nothing lies between two of them. A day that is loaded again reads its own
span again, and leaves the chain as it is.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import NamedTuple, Protocol

from pydantic import Field

from airflow_provider_connect.wire import Wire

MAX_POSITION_CHARACTERS = 1_000
"""The most that a position may take: it is kept in every ledger, for ever."""


class Span(Wire):
    """``(after, to]``: the rows behind one position of the cursor, up to and with another.

    :param number: 1 for the stream's first increment, one more for each that follows.
    :param after: the position that it begins behind, in the source's own words; None at the beginning of the stream.
    :param to: the last position that belongs to it. A source without a row has one, too: what comes is behind it.
    """

    number: int = Field(ge=1)
    after: str | None = Field(default=None, max_length=MAX_POSITION_CHARACTERS)
    to: str = Field(max_length=MAX_POSITION_CHARACTERS)


class _Published(Protocol):
    """What a ledger's row says of an increment."""

    @property
    def day(self) -> dt.date: ...

    @property
    def span(self) -> Span | None: ...


class Restart(NamedTuple):
    """Position at which a stream goes on after an answered alarm.

    A target that is loaded anew counts from 1 again, while its notes may still be there: a number alone is not enough.

    :param number: number of the newest span when the alarm was raised.
    :param to: the end of that span.
    :param after: the last position that is not read; None to read from the beginning of the stream.
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
    """Return the span of a day's next increment: the day's own again, else what follows the stream's newest. Pure.

    :param newest: the publish that it must follow.
    :param ends: tells where it ends, by where it begins behind and, of a day that is loaded again, where it ended.
    :raises ValueError: that publish was no increment.
    """
    if newest is None:
        return Span(number=1, to=find_end(None, None))
    if (last := newest.span) is None:
        raise ValueError("nobody knows where the next increment begins")
    if newest.day == day:
        return last.model_copy(update={"to": find_end(last.after, last.to)})
    is_answered = restart is not None and (restart.number, restart.to) == (last.number, last.to)
    after = restart.after if restart is not None and is_answered else last.to
    return Span(number=last.number + 1, after=after, to=find_end(after, None))
