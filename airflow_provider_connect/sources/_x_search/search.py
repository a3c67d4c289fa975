"""Reads the results of one query to their end: page after page, the newest post first."""

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
"""The archive sends pages without posts that name a next one. So many in a row are no day's results any more."""

_MOST_DIGITS = 30
_MOST_PAGES_AGAIN = 5
"""Some lists of X repeat a page for ever, each time with another next_token (measured 2026-09 by
https://github.com/0xFlimbo/attention-index, docs/PROVIDERS.md). A page may come again once by chance."""

_KINDS = ("user", "media", "poll", "place")
_ALWAYS = ("id", "text", "created_at", "edit_history_post_ids")


@dataclass(frozen=True)
class SearchRange:
    """What a partition asks for.

    :param start: included.
    :param end: not included.
    """

    endpoint: Endpoint
    start: dt.datetime
    end: dt.datetime

    @property
    def time_params(self) -> dict[str, str]:
        """The piece as parameters of a request."""
        return {"start_time": format_instant(self.start), "end_time": format_instant(self.end)}


class Hit(NamedTuple):
    """A post that a query has found.

    :param number: its id; a later post has a higher one.
    :param query: the number of the query.
    :param page: which brought it, with what belongs to it.
    """

    post_number: int
    query_index: int
    created_at: dt.datetime
    post: JsonPart
    page: ResultPage


def format_instant(instant: dt.datetime) -> str:
    """Return an instant as X wants it: in whole seconds."""
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def shared_parameters(options: XSearchOptions, endpoint: Endpoint) -> dict[str, str]:
    """Return the parameters that are the same for all queries and pages."""
    params = {
        "max_results": str(options.max_page_size(endpoint)),
        "sort_order": "recency",
        **dialect.request_parameters(options.dialect, [*_ALWAYS, *options.post_fields], options.expansions),
        **{f"{kind}.fields": ",".join(getattr(options, f"{kind}_fields")) for kind in _KINDS},
    }
    return {name: value for name, value in params.items() if value}


class Search:
    """Reads the results of queries of one partition."""

    def __init__(self, options: XSearchOptions, client: XClient, search_range: SearchRange, tally: Tally) -> None:
        self._options = options
        self._there = client
        self._piece = search_range
        self._tally = tally
        self._tolerance = Tolerance(options.errors_tolerance, options.max_rejects)
        self._has_posts = options.stream == "posts"
        self._read = self._bad = 0

    def find_hits(self, query_index: int) -> Iterator[Hit]:
        """Yield the posts of the piece that a query finds, those of a page by descending id.

        :param query: its number.
        :raises ConnectError: as :meth:`.Poller.poll`.
        """
        params = shared_parameters(self._options, self._piece.endpoint) | self._piece.time_params
        params["query"] = self._options.queries[query_index]

        without = again = 0
        before: list[object] = []
        for page in self._there.fetch_pages(params, read_page, _next_token):
            ids = [post.value.get("id") for post in page.posts]
            without = 0 if ids else without + 1
            again = again + 1 if ids and ids == before else 0
            if without > _MOST_PAGES_WITHOUT_A_POST:
                raise RetriableError(f"X sent {without} pages in a row without a post, and each named a next one")
            if again > _MOST_PAGES_AGAIN:
                raise RetriableError(
                    f"X sent the same posts {again + 1} times in a row, and each page named a next one"
                )
            before = ids
            yield from self._of(page, query_index)

    def _of(self, page: ResultPage, query: int) -> list[Hit]:
        self._count_errors(page)
        hits = [hit for post in page.posts if (hit := self._hit(post, page, query)) is not None]
        hits.sort(key=lambda hit: -hit.post_number)
        return hits

    def _hit(self, post: JsonPart, page: ResultPage, query: int) -> Hit | None:
        """Return a post as a hit; None if it is none of the piece, or cannot be a row."""
        self._read += 1
        number, created_at = post.value.get("id"), parse_instant(post.value.get("created_at"))
        if not isinstance(number, str) or not number.isdecimal() or len(number) > _MOST_DIGITS:
            self._reject(post, "it has no id that is a number")
            return None
        if created_at is None:
            self._reject(post, "it has no created_at that is a time")
            return None
        if self._has_posts:
            self._tally.rows += 1
        if not self._piece.start <= created_at < self._piece.end:
            self._tally.counts["outside_asked"] += 1
            return None
        return Hit(int(number), query, created_at, post, page)

    def _reject(self, post: JsonPart, reason: str) -> None:
        self._tally.reject(Reject(self._read, reason, post.text.encode()))
        self._bad += 1
        self._tolerance.require(self._bad, f"post {self._read} cannot be a row: {reason}")

    def _count_errors(self, page: ResultPage) -> None:
        """Count what could not be sent along; what is in no row's ``errors`` is kept as a reject."""
        if not page.errors:
            return
        named = {each for post in page.posts for each in collect_ids(post.value)} if self._has_posts else set()
        in_rows = {number for each, numbers in page.errors_by_id.items() if each in named for number in numbers}
        for number, error in enumerate(page.errors):
            self._tally.counts[f"partial_errors.{problem_kind(error.value)}"] += 1
            if number not in in_rows:
                self._tally.reject(Reject(self._read, "X could not send something along", error.text.encode()))


def collect_ids(post: dict[str, object]) -> set[str]:
    """Return all ids and keys that a post names, its own included."""
    found: set[str] = set()
    waiting: list[object] = [post]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, str):
            found.add(each)
    return found


def _next_token(page: ResultPage) -> str | None:
    return page.next_token


def parse_instant(value: object) -> dt.datetime | None:
    """Return a time as X writes it; None if it is none."""
    if not isinstance(value, str):
        return None
    try:
        read_at = dt.datetime.fromisoformat(value)
        return read_at.astimezone(dt.UTC) if read_at.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def to_json(value: object) -> str:
    """Return a small document as JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
