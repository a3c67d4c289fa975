"""Polls a day, or a part of it, with all queries up to their last pages.

X's counts include deleted and withheld posts (https://docs.x.com/x-api/posts/counts/introduction, 2026-11).
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
"""Hours of a day. X counts by hour."""


def count_posts_by_hour(api_client: XClient, search_range: SearchRange, query: str) -> dict[dt.datetime, int]:
    """Return X's count of posts by start of the hour.

    :raises RetriableError: the counts start later than the range, as twarc has seen (https://github.com/DocNow/twarc,
        client2.py, 2026-11).
    """
    params = search_range.time_params | {"query": query, "granularity": "hour"}
    posts_by_hour: dict[dt.datetime, int] = {}
    for hour_counts, _ in api_client.fetch_pages(params, read_counts, itemgetter(1)):
        for start, count in hour_counts:
            try:
                posts_by_hour[dt.datetime.fromisoformat(start).astimezone(dt.UTC)] = count
            except ValueError:
                raise api_client.incomplete_answer_error(0) from None
    if posts_by_hour and min(posts_by_hour) > search_range.start:
        raise RetriableError(
            f"X's counts of posts start at {format_instant(min(posts_by_hour))}, not at "
            f"{format_instant(search_range.start)}"
        )
    return posts_by_hour


def split_day(
    day: Day, endpoint: Endpoint, posts_by_hour: Mapping[dt.datetime, int], split_rows: int | None
) -> list[SearchRange]:
    """Split a day at full hours into parts with similar numbers of posts.

    :param split_rows: approximate posts in a part. None never splits.
    """
    total = sum(posts_by_hour.values())
    parts = 1 if split_rows is None else min(MAX_PARTS, max(1, math.ceil(total / split_rows)))
    cuts: list[dt.datetime] = []
    posts_before = 0
    for hour, count in sorted(posts_by_hour.items()):
        is_due = len(cuts) + 1 < parts and posts_before * parts >= (len(cuts) + 1) * total
        if is_due and day.start < hour < day.end:
            cuts.append(hour)
        posts_before += count
    edges = [day.start, *cuts, day.end]
    return [SearchRange(endpoint, start, end) for start, end in itertools.pairwise(edges)]


_ZONE = "UTC"
_WEEK = dt.timedelta(days=7)
_TIME_TO_READ_A_DAY = dt.timedelta(hours=3)
"""Time to read a day before it leaves the week of recent search."""

_NOT_YET = dt.timedelta(seconds=10)
_FIRST_DAY = dt.date(2006, 3, 21)


class XSearchPoller(Poller, CountsRows):
    """Polls the posts of days, or the objects that they refer to."""

    def __init__(self, options: XSearchOptions, connection: Connection, context: PollContext) -> None:
        self._options = options
        self._context = context
        self._connection = connection
        self._hours: dict[Day, Mapping[dt.datetime, int]] = {}

    def schema(self) -> pa.Schema:
        return schema(self._options.stream)

    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        """Return one partition for each day, or several for a large day.

        :raises ConnectError: as :meth:`.Poller.plan`. Retriable for days that ended less than ten seconds ago.
        """
        ranges = [(day, search_range) for day in days for search_range in self._search_ranges(day)]
        parts = {day: sum(day == range_day for range_day, _ in ranges) for day in days}
        return [
            InputPartition(
                days=(day,),
                index=index,
                params={
                    "endpoint": search_range.endpoint,
                    "start": search_range.start.isoformat(),
                    "end": search_range.end.isoformat(),
                    "parts": parts[day],
                },
            )
            for index, (day, search_range) in enumerate(ranges)
        ]

    def count(self, day: Day, tally: Tally) -> VendorCount:
        """Return X's count of posts on a day, including deleted ones.

        :raises ConnectError: no access, or X fails.
        """
        search_range = SearchRange(self._endpoint(day), day.start, day.end)
        path, quota = f"/2/tweets/counts/{search_range.endpoint}", quota_of(self._connection, "counts")
        api_client = client.XClient(self._options, self._connection, path, day, tally, quota=quota)
        hours = self._hours[day] = count_posts_by_hour(api_client, search_range, self._options.joined_query)
        return VendorCount(sum(hours.values()), is_most=True)

    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield the rows of a day, or of a part of it, in batches.

        :raises ConnectError: as :meth:`.Poller.poll`. :class:`.ConfigError` also at the usage cap.
        """
        (day,) = part.days
        options, endpoint = self._options, part.params["endpoint"]
        start, end = (dt.datetime.fromisoformat(part.params[name]) for name in ("start", "end"))
        if endpoint == "recent" and options.endpoint == "auto" and day.start < client.current_time() - _WEEK:
            raise RetriableError(f"day {day} has left the week of recent search. The next try reads the archive")
        self._require_endpoint_serves(day, endpoint)
        api_client = client.XClient(
            options,
            self._connection,
            f"/2/tweets/search/{endpoint}",
            day,
            tally,
            quota=quota_of(self._connection, endpoint),
            # its other parts and days ask, too
            share=self._context.polls_at_once or part.params["parts"] * options.parallel_days,
        )
        search = Search(options, api_client, SearchRange(endpoint, start, end), tally.for_day(day))
        results = [search.find_hits(number) for number in range(len(options.queries))]
        if options.stream == "posts":
            row_batches = post_batches(results, options.queries, tally.for_day(day))
        else:
            row_batches = related_batches(results, options.stream, tally.for_day(day))
        for batch in row_batches:
            yield day, batch

    def _search_ranges(self, day: Day) -> list[SearchRange]:
        endpoint, options = self._endpoint(day), self._options
        if options.split_rows is not None and day not in self._hours:  # who plans without a job has counted nothing
            self.count(day, Tally())
        return split_day(day, endpoint, self._hours.get(day, {}), options.split_rows)

    def _endpoint(self, day: Day) -> Endpoint:
        options, now = self._options, client.current_time()
        require_over(day, _ZONE, now - _NOT_YET)
        if options.endpoint != "auto":
            self._require_endpoint_serves(day, options.endpoint)
            return options.endpoint
        is_short = all(len(query) <= MAX_QUERY_LENGTHS[options.access_level]["recent"] for query in options.queries)
        is_recent = day.start >= now - _WEEK + _TIME_TO_READ_A_DAY
        endpoint: Endpoint = "recent" if is_recent and is_short else "all"
        self._require_endpoint_serves(day, endpoint)
        return endpoint

    def _require_endpoint_serves(self, day: Day, endpoint: Endpoint) -> None:
        if day.date < _FIRST_DAY:
            raise ConfigError(f"day {day} is before the first post. X's archive starts on {_FIRST_DAY}")
        if endpoint == "recent" and day.start < client.current_time() - _WEEK:
            raise ConfigError(
                f"day {day} began more than seven days ago, which recent search does not cover. Set "
                "endpoint='all', or 'auto', if the app has access to the full archive"
            )
