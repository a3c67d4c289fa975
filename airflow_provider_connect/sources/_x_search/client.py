"""Asks X: one request, one whole document, and refusals that say what to do.

An app's window holds for all its requests, so whoever asks waits here until the next one begins, and keeps the pace.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from airflow_provider_connect.clients.http.asking.call import Call, Reply
from airflow_provider_connect.clients.http.asking.rules import RateLimits
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConnectError, RetriableError
from airflow_provider_connect.patience import CLOCK
from airflow_provider_connect.polling.counted import CountedApi
from airflow_provider_connect.polling.paging import pages
from airflow_provider_connect.polling.quota.limits import Quota
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.secrets import Secrets
from airflow_provider_connect.sources._x_search.access import read_access
from airflow_provider_connect.sources._x_search.options import XSearchOptions
from airflow_provider_connect.sources._x_search.refusals import (
    MAX_WAIT_SECONDS,
    WINDOW_RESET,
    TokenError,
    refusal_error,
)
from airflow_provider_connect.window import Day

_T = TypeVar("_T")

_MAX_BYTES = 64 << 20
"""The most that one answer may hold: it is in memory whole. A page of 500 posts has a few megabytes."""

_PAUSES = (1.0, 5.0, 20.0)
"""Before a later page is asked for again."""

_WINDOWS = RateLimits(remaining="x-rate-limit-remaining", reset=WINDOW_RESET)


def current_time() -> dt.datetime:
    """Return the present instant; tests replace this clock."""
    return dt.datetime.now(dt.UTC)


class XClient:
    """The way to one of X's endpoints, of one poll or one count.

    :param path: the endpoint's; each has windows of its own.
    :param quota: its limits; None for a question that is asked once, and waits for nothing.
    :param share: how many ask it at the same time.
    """

    def __init__(
        self,
        options: XSearchOptions,
        connection: Connection,
        path: str,
        day: Day | None,
        tally: Tally,
        *,
        quota: Quota | None,
        share: int = 1,
    ) -> None:
        there = read_access(connection)
        self.day = day
        self._tally = tally
        self._clock = CLOCK
        self._url = there.url
        self._secrets = Secrets([*there.credentials.auth().secrets, *there.route.secrets])
        self._answers = 0
        limits = RateLimits() if quota is None else _WINDOWS.model_copy(update={"per_second": quota.per_second})
        api = JsonApi(
            replace(there, url=there.url + path),
            limits=limits,
            share=share,
            max_bytes=_MAX_BYTES,
            timeouts=options.timeouts,
            patience_seconds=MAX_WAIT_SECONDS,
            clock=self._clock,
        )
        self._api = CountedApi(api, quota)

    def fetch_document(self, params: Mapping[str, str], parse: Callable[[bytes, XClient], _T]) -> _T:
        """Return what ``read`` makes of the document that answers a request.

        What fails after the first answer is asked for again alone, a few times: the pages before it are still good. A
        window that is used up is waited for: else a day of more pages than a window has would never end.

        :raises RetriableError: X is away, in trouble or busy, or what it sent is not a whole document.
        :raises ConfigError: it refuses the request, the token, or more posts.
        """
        call = Call("", params=params, is_repeatable=False)
        refusal = partial(self._refusal, is_later_page="next_token" in params)
        tries = 0
        while True:
            try:
                found = parse(self._api.ask(call, self._tally, error_of=refusal).body, self)
            except RetriableError as error:
                tries += 1
                if not self._answers or tries > len(_PAUSES) or isinstance(error, TokenError):
                    raise
                self._clock.sleep(max(_PAUSES[tries - 1], error.retry_after_seconds or 0.0))
            else:
                self._answers += 1
                return found

    def fetch_pages(
        self,
        params: Mapping[str, str],
        parse: Callable[[bytes, XClient], _T],
        next_token_of: Callable[[_T], str | None],
    ) -> Iterator[_T]:
        """Yield what ``read`` makes of page after page, with the errors of :meth:`fetch_document`."""

        def fetch(token: str | None) -> _T:
            return self.fetch_document({**params, **({} if token is None else {"next_token": token})}, parse)

        return pages(fetch, next_token_of)

    def error_in_answer(self, status: int, body: bytes) -> ConnectError:
        """Return the error for a problem that came with status 200."""
        reply = Reply(status, {}, body, self._url, secrets=self._secrets)
        return refusal_error(reply, self.day, current_time())

    def incomplete_answer_error(self, size_bytes: int) -> RetriableError:
        """Return the error for what is no document of the shape that was asked for."""
        host = urlsplit(self._url).netloc
        return RetriableError(
            f"{host} sent no whole answer ({size_bytes} bytes): a proxy or a login page may answer in its place"
        )

    def _refusal(self, reply: Reply, *, is_later_page: bool) -> ConnectError | None:
        return (
            None if reply.status == 200 else refusal_error(reply, self.day, current_time(), is_later_page=is_later_page)
        )


def describe_usage(connection: Connection) -> str:
    """Return, in words, what the app has used of its month: the question that reads no post.

    It has limits of its own: 50 requests in 15 minutes.

    :raises ConnectError: X cannot be reached, or refuses the token.
    """
    options = XSearchOptions(
        conn_id=connection.conn_id, queries=["x"], request_deadline_seconds=30, read_timeout_seconds=15
    )
    there = XClient(options, connection, "/2/usage/tweets", None, Tally(), quota=None)
    found = there.fetch_document({}, _figures)
    used, cap = (found.get(name) for name in ("project_usage", "project_cap"))
    if used is None or cap is None:
        return "X knows the token; it does not say how much of the month's posts is used up"
    return f"X knows the token; {_shown(used)} of {_shown(cap)} posts of this month are used up"


def _figures(data: bytes, _: XClient) -> dict[str, Any]:
    try:
        found = json.loads(data)["data"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _shown(figure: Any) -> str:
    text = str(figure)
    return f"{int(text):,}" if text.isdecimal() else "?"
