"""Reads all result pages of a query, newest posts first."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._x_search import dialect
from airflow_provider_connect.sources._x_search.client import XClient
from airflow_provider_connect.sources._x_search.options import Endpoint, XSearchOptions
from airflow_provider_connect.sources._x_search.refusals import problem_kind
from airflow_provider_connect.sources._x_search.result_page import JsonPart, ResultPage, read_page
from airflow_provider_connect.stage.rejects import Reject, Tolerance

_MOST_PAGES_WITHOUT_A_POST = 1000

_MOST_DIGITS = 30
_MOST_PAGES_AGAIN = 5
"""Most repetitions of a page: some lists repeat one forever (measured 2026-09 by
https://github.com/0xFlimbo/attention-index, docs/PROVIDERS.md).
"""

_KINDS = ("user", "media", "poll", "place")
_ALWAYS = ("id", "text", "created_at", "edit_history_post_ids")


@dataclass(frozen=True)
class SearchRange:
    """Endpoint and time range of a partition. ``end`` is exclusive."""

    endpoint: Endpoint
    start: dt.datetime
    end: dt.datetime

    @property
    def time_params(self) -> dict[str, str]:
        """Time range as request parameters."""
        return {"start_time": format_instant(self.start), "end_time": format_instant(self.end)}


class Hit(NamedTuple):
    """Post that a query found.

    :param post_number: id, ascending with time.
    """

    post_number: int
    query_index: int
    created_at: dt.datetime
    post: JsonPart
    page: ResultPage


def format_instant(instant: dt.datetime) -> str:
    """Format a UTC time for X, in whole seconds."""
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def shared_parameters(options: XSearchOptions, endpoint: Endpoint) -> dict[str, str]:
    """Return the request parameters that all queries and pages share."""
    params = {
        "max_results": str(options.max_page_size(endpoint)),
        "sort_order": "recency",
        **dialect.request_parameters(options.dialect, [*_ALWAYS, *options.post_fields], options.expansions),
        **{f"{kind}.fields": ",".join(getattr(options, f"{kind}_fields")) for kind in _KINDS},
    }
    return {name: value for name, value in params.items() if value}


class Search:
    """Reads the results of queries in one time range."""

    def __init__(self, options: XSearchOptions, client: XClient, search_range: SearchRange, tally: Tally) -> None:
        self._options = options
        self._client = client
        self._search_range = search_range
        self._tally = tally
        self._tolerance = Tolerance(options.errors_tolerance, options.max_rejects)
        self._has_posts = options.stream == "posts"
        self._posts_read = self._rejected = 0

    def find_hits(self, query_index: int) -> Iterator[Hit]:
        """Yield the posts that a query finds in the time range. Ids descend within a page."""
        params = shared_parameters(self._options, self._search_range.endpoint) | self._search_range.time_params
        params["query"] = self._options.queries[query_index]

        empty_pages = repeats = 0
        previous_ids: list[object] = []
        for page in self._client.fetch_pages(params, read_page, _next_token):
            ids = [post.value.get("id") for post in page.posts]
            empty_pages = 0 if ids else empty_pages + 1
            repeats = repeats + 1 if ids and ids == previous_ids else 0
            if empty_pages > _MOST_PAGES_WITHOUT_A_POST:
                raise RetriableError(f"X sent {empty_pages} pages in a row without a post, each with a next page")
            if repeats > _MOST_PAGES_AGAIN:
                raise RetriableError(f"X sent the same posts {repeats + 1} times in a row, each with a next page")
            previous_ids = ids
            yield from self._page_hits(page, query_index)

    def _page_hits(self, page: ResultPage, query_index: int) -> list[Hit]:
        self._count_errors(page)
        hits = [hit for post in page.posts if (hit := self._hit(post, page, query_index)) is not None]
        hits.sort(key=lambda hit: -hit.post_number)
        return hits

    def _hit(self, post: JsonPart, page: ResultPage, query_index: int) -> Hit | None:
        self._posts_read += 1
        number, created_at = post.value.get("id"), parse_instant(post.value.get("created_at"))
        if not isinstance(number, str) or not number.isdecimal() or len(number) > _MOST_DIGITS:
            self._reject(post, "its id is not a number")
            return None
        if created_at is None:
            self._reject(post, "its created_at is not a time")
            return None
        if self._has_posts:
            self._tally.rows += 1
        if not self._search_range.start <= created_at < self._search_range.end:
            self._tally.counts["outside_asked"] += 1
            return None
        return Hit(int(number), query_index, created_at, post, page)

    def _reject(self, post: JsonPart, reason: str) -> None:
        self._tally.reject(Reject(self._posts_read, reason, post.text.encode()))
        self._rejected += 1
        self._tolerance.require(self._rejected, f"post {self._posts_read} cannot be a row: {reason}")

    def _count_errors(self, page: ResultPage) -> None:
        if not page.errors:
            return
        named_ids = (
            {named_id for post in page.posts for named_id in collect_ids(post.value)} if self._has_posts else set()
        )
        in_rows = {
            number for named_id, numbers in page.errors_by_id.items() if named_id in named_ids for number in numbers
        }
        for number, error in enumerate(page.errors):
            self._tally.counts[f"partial_errors.{problem_kind(error.value)}"] += 1
            if number not in in_rows:
                self._tally.reject(Reject(self._posts_read, "X could not send an object", error.text.encode()))


def collect_ids(post: dict[str, object]) -> set[str]:
    """Return every string in a post, also nested: its ids and keys are among them."""
    ids: set[str] = set()
    pending: list[object] = [post]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, str):
            ids.add(value)
    return ids


def _next_token(page: ResultPage) -> str | None:
    return page.next_token


def parse_instant(value: object) -> dt.datetime | None:
    """Convert a time with an offset to UTC, else return None."""
    if not isinstance(value, str):
        return None
    try:
        instant = dt.datetime.fromisoformat(value)
        return instant.astimezone(dt.UTC) if instant.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
