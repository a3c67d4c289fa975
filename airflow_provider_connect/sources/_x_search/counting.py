"""X's own counts, and the cut of a large day into parts by them.

Counts are an upper bound: they hold posts that were deleted or are withheld, which a search leaves out
(https://docs.x.com/x-api/posts/counts/introduction, 2026-11).
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Mapping

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.polling.paging import pages
from airflow_provider_connect.sources._x_search.asking import Asking
from airflow_provider_connect.sources._x_search.options import Endpoint
from airflow_provider_connect.sources._x_search.page import buckets
from airflow_provider_connect.sources._x_search.searching import Piece, written
from airflow_provider_connect.window import Day

MOST_PARTS = 24
"""Counts are by hour."""


def hours_of(there: Asking, piece: Piece, query: str) -> dict[dt.datetime, int]:
    """Return how many posts X counts in each hour, by its beginning.

    :raises RetriableError: the counts end before they have reached the beginning of the piece, as twarc has seen
        (https://github.com/DocNow/twarc, client2.py, 2026-11).
    :raises ConnectError: as :meth:`.CountsRows.count`.
    """
    params = piece.params | {"query": query, "granularity": "hour"}

    def fetch(token: str | None) -> tuple[list[tuple[str, int]], str | None]:
        more = {} if token is None else {"next_token": token}
        return there.document(params | more, buckets)

    found: dict[dt.datetime, int] = {}
    for counted, _ in pages(fetch, _next_token):
        for start, count in counted:
            try:
                found[dt.datetime.fromisoformat(start).astimezone(dt.UTC)] = count
            except ValueError:
                raise there.not_an_answer(0) from None
    if found and min(found) > piece.start:
        raise RetriableError(f"X's counts of posts begin at {written(min(found))}, not at {written(piece.start)}")
    return found


def pieces(day: Day, endpoint: Endpoint, hours: Mapping[dt.datetime, int], split_rows: int | None) -> list[Piece]:
    """Cut a day into parts of about as many posts, at full hours; together they are the whole day.

    :param hours: how many posts there are in each hour.
    :param split_rows: how many make a day large; None for a day that is not cut.
    """
    total = sum(hours.values())
    parts = 1 if split_rows is None else min(MOST_PARTS, max(1, math.ceil(total / split_rows)))
    cuts: list[dt.datetime] = []
    before = 0
    for hour, count in sorted(hours.items()):
        is_due = len(cuts) + 1 < parts and before * parts >= (len(cuts) + 1) * total
        if is_due and day.start < hour < day.end:
            cuts.append(hour)
        before += count
    edges = [day.start, *cuts, day.end]
    return [Piece(endpoint, start, end) for start, end in itertools.pairwise(edges)]


def _next_token(counted: tuple[list[tuple[str, int]], str | None]) -> str | None:
    return counted[1]
