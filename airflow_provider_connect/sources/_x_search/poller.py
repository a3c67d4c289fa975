"""Polls posts: a day, or a part of it, with all queries, and succeeds only if the end of each was seen.

Counts are an upper bound: they hold posts that were deleted or are withheld, which a search leaves out
(https://docs.x.com/x-api/posts/counts/introduction, 2026-11).
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from airflow_provider_connect.capabilities.poller import CountsRows
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.polling.days import require_over
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, PollContext, Poller
from airflow_provider_connect.sources._x_search import client
from airflow_provider_connect.sources._x_search.access import quota_of
from airflow_provider_connect.sources._x_search.client import XClient
from airflow_provider_connect.sources._x_search.columns import schema
from airflow_provider_connect.sources._x_search.options import MAX_QUERY_LENGTHS, Endpoint, XSearchOptions
from airflow_provider_connect.sources._x_search.result_page import read_counts
from airflow_provider_connect.sources._x_search.rows import post_batches, related_batches
from airflow_provider_connect.sources._x_search.search import Search, SearchRange, format_instant
from airflow_provider_connect.stage.counts import VendorCount
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

MAX_PARTS = 24
"""Counts are by hour."""


def count_posts_by_hour(client: XClient, search_range: SearchRange, query: str) -> dict[dt.datetime, int]:
    """Return how many posts X counts in each hour, by its beginning.

    :raises RetriableError: the counts end before they have reached the beginning of the piece, as twarc has seen
        (https://github.com/DocNow/twarc, client2.py, 2026-11).
    :raises ConnectError: as :meth:`.CountsRows.count`.
    """
    params = search_range.time_params | {"query": query, "granularity": "hour"}
    found: dict[dt.datetime, int] = {}
    for counted, _ in client.fetch_pages(params, read_counts, itemgetter(1)):
        for start, count in counted:
            try:
                found[dt.datetime.fromisoformat(start).astimezone(dt.UTC)] = count
            except ValueError:
                raise client.incomplete_answer_error(0) from None
    if found and min(found) > search_range.start:
        raise RetriableError(
            f"X's counts of posts begin at {format_instant(min(found))}, not at {format_instant(search_range.start)}"
        )
    return found


def split_day(
    day: Day, endpoint: Endpoint, posts_by_hour: Mapping[dt.datetime, int], split_rows: int | None
) -> list[SearchRange]:
    """Cut a day into parts of about as many posts, at full hours; together they are the whole day.

    :param hours: how many posts there are in each hour.
    :param split_rows: how many make a day large; None for a day that is not cut.
    """
    total = sum(posts_by_hour.values())
    parts = 1 if split_rows is None else min(MAX_PARTS, max(1, math.ceil(total / split_rows)))
    cuts: list[dt.datetime] = []
    before = 0
    for hour, count in sorted(posts_by_hour.items()):
        is_due = len(cuts) + 1 < parts and before * parts >= (len(cuts) + 1) * total
        if is_due and day.start < hour < day.end:
            cuts.append(hour)
        before += count
    edges = [day.start, *cuts, day.end]
    return [SearchRange(endpoint, start, end) for start, end in itertools.pairwise(edges)]


_ZONE = "UTC"
_WEEK = dt.timedelta(days=7)
_WHILE_IT_IS_READ = dt.timedelta(hours=3)
"""A day must stay within the week until its last page is read."""

_NOT_YET = dt.timedelta(seconds=10)
_FIRST_DAY = dt.date(2006, 3, 21)


class XSearchPoller(Poller, CountsRows):
    """Polls the posts of days."""

    def __init__(self, options: XSearchOptions, connection: Connection, context: PollContext) -> None:
        self._options = options
        self._context = context
        self._connection = connection
        self._hours: dict[Day, Mapping[dt.datetime, int]] = {}

    def schema(self) -> pa.Schema:
        """Return the schema of the rows: see the DDL in :mod:`airflow_provider_connect.sources.x_search`."""
        return schema(self._options.stream)

    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        """Return one partition for each day, or several for a large one.

        :raises ConfigError: a day is in the future, too old for the endpoint, or another zone's.
        :raises RetriableError: a day ends within the hour, or ended within ten seconds.
        """
        wanted = [(day, piece) for day in days for piece in self._pieces(day)]
        parts = {day: sum(day == each for each, _ in wanted) for day in days}
        return [
            InputPartition(
                days=(day,),
                index=index,
                params={
                    "endpoint": piece.endpoint,
                    "start": piece.start.isoformat(),
                    "end": piece.end.isoformat(),
                    "parts": parts[day],
                },
            )
            for index, (day, piece) in enumerate(wanted)
        ]

    def count(self, day: Day, tally: Tally) -> VendorCount:
        """Return how many posts X counts on a day, which is more than it sends: deleted ones are among them.

        :raises ConfigError: the token or the app's access do not allow it.
        :raises RetriableError: X is away, in trouble or busy.
        """
        piece = SearchRange(self._endpoint(day), day.start, day.end)
        path, quota = f"/2/tweets/counts/{piece.endpoint}", quota_of(self._connection, "counts")
        there = client.XClient(self._options, self._connection, path, day, tally, quota=quota)
        hours = self._hours[day] = count_posts_by_hour(there, piece, self._options.joined_query)
        return VendorCount(sum(hours.values()), is_most=True)

    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield the posts of a day, or of a part of it.

        :raises RetriableError: X is away, in trouble or busy, or an answer is not whole.
        :raises ConfigError: token, access or options are wrong, or the usage cap is reached.
        :raises DataError: a post has no id or time, and that is not tolerated.
        """
        (day,) = part.days
        options, endpoint = self._options, part.params["endpoint"]
        start, end = (dt.datetime.fromisoformat(part.params[name]) for name in ("start", "end"))
        if endpoint == "recent" and options.endpoint == "auto" and day.start < client.current_time() - _WEEK:
            raise RetriableError(f"day {day} has fallen out of recent search's week; the next try reads the archive")
        self._require_within_reach(day, endpoint)
        there = client.XClient(
            options,
            self._connection,
            f"/2/tweets/search/{endpoint}",
            day,
            tally,
            quota=quota_of(self._connection, endpoint),
            # its other parts and days ask, too
            share=self._context.polls_at_once or part.params["parts"] * options.parallel_days,
        )
        searching = Search(options, there, SearchRange(endpoint, start, end), tally.for_day(day))
        results = [searching.find_hits(number) for number in range(len(options.queries))]
        if options.stream == "posts":
            found = post_batches(results, options.queries, tally.for_day(day))
        else:
            found = related_batches(results, options.stream, tally.for_day(day))
        for batch in found:
            yield day, batch

    def _pieces(self, day: Day) -> list[SearchRange]:
        endpoint, options = self._endpoint(day), self._options
        if options.split_rows is not None and day not in self._hours:  # who plans without a job has counted nothing
            self.count(day, Tally())
        return split_day(day, endpoint, self._hours.get(day, {}), options.split_rows)

    def _endpoint(self, day: Day) -> Endpoint:
        """Return where a day is read.

        :raises ConfigError: it cannot be read.
        :raises RetriableError: it cannot be read yet.
        """
        options, present = self._options, client.current_time()
        require_over(day, _ZONE, present - _NOT_YET)
        if options.endpoint != "auto":
            self._require_within_reach(day, options.endpoint)
            return options.endpoint
        is_short = all(len(query) <= MAX_QUERY_LENGTHS[options.access_level]["recent"] for query in options.queries)
        is_recent = day.start >= present - _WEEK + _WHILE_IT_IS_READ
        endpoint: Endpoint = "recent" if is_recent and is_short else "all"
        self._require_within_reach(day, endpoint)
        return endpoint

    def _require_within_reach(self, day: Day, endpoint: Endpoint) -> None:
        """Make sure that an endpoint has a day.

        :raises ConfigError: it is too old.
        """
        if day.date < _FIRST_DAY:
            raise ConfigError(f"day {day} is before the first post: X's archive begins on {_FIRST_DAY}")
        if endpoint == "recent" and day.start < client.current_time() - _WEEK:
            raise ConfigError(
                f"day {day} began more than seven days ago, and recent search does not reach back further: set "
                "endpoint='all', or 'auto', if the app has access to the full archive"
            )
