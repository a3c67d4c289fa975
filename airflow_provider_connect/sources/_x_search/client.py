"""Client of X, which waits when the limit of a 15-minute window is used up."""

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
from airflow_provider_connect.errors import ConnectError, RetriableError, SetupError
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
"""Largest accepted answer, held in memory."""

_PAUSES = (1.0, 5.0, 20.0)
"""Seconds before each retry of a later page."""

_WINDOWS = RateLimits(remaining="x-rate-limit-remaining", reset=WINDOW_RESET)


def current_time() -> dt.datetime:
    """Return the current time. Tests replace this clock."""
    return dt.datetime.now(dt.UTC)


class XClient:
    """Client of one endpoint, for one poll or count.

    :param quota: limits of the endpoint. None never waits.
    :param share: number of concurrent clients.
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
        access = read_access(connection)
        self.day = day
        self._tally = tally
        self._clock = CLOCK
        self._url = access.url
        self._secrets = Secrets([*access.credentials.auth().secrets, *access.route.secrets])
        self._answers = 0
        limits = RateLimits() if quota is None else _WINDOWS.model_copy(update={"per_second": quota.per_second})
        api = JsonApi(
            replace(access, url=access.url + path),
            limits=limits,
            share=share,
            max_bytes=_MAX_BYTES,
            timeouts=options.timeouts,
            patience_seconds=MAX_WAIT_SECONDS,
            clock=self._clock,
        )
        self._api = CountedApi(api, quota)

    def fetch_document(self, params: Mapping[str, str], parse: Callable[[bytes, XClient], _T]) -> _T:
        """Send a request and return the parsed document. Waits for the next window if this one is used up.

        After the first answer, a failed request is repeated up to three times.
        """
        call = Call("", params=params, is_repeatable=False)
        refusal_of_call = partial(self._refusal, is_later_page="next_token" in params)
        failures = 0
        while True:
            try:
                document = parse(self._api.ask(call, self._tally, error_of=refusal_of_call).body, self)
            except RetriableError as error:
                failures += 1
                if not self._answers or failures > len(_PAUSES) or isinstance(error, TokenError):
                    raise
                self._clock.sleep(max(_PAUSES[failures - 1], error.retry_after_seconds or 0.0))
            else:
                self._answers += 1
                return document

    def fetch_pages(
        self,
        params: Mapping[str, str],
        parse: Callable[[bytes, XClient], _T],
        next_token_of: Callable[[_T], str | None],
    ) -> Iterator[_T]:
        """Yield the parsed pages of a request. Errors as :meth:`fetch_document`."""

        def fetch(token: str | None) -> _T:
            return self.fetch_document({**params, **({} if token is None else {"next_token": token})}, parse)

        return pages(fetch, next_token_of)

    def error_in_answer(self, status: int, body: bytes) -> ConnectError:
        """Return the error for a problem in an answer with status 200."""
        reply = Reply(status, {}, body, self._url, secrets=self._secrets)
        return refusal_error(reply, self.day, current_time())

    def incomplete_answer_error(self, size_bytes: int) -> SetupError:
        """Return the error for a truncated or misshapen answer."""
        host = urlsplit(self._url).netloc
        return SetupError(
            f"{host} sent an incomplete answer ({size_bytes} bytes). A proxy or a login page may have answered instead"
        )

    def _refusal(self, reply: Reply, *, is_later_page: bool) -> ConnectError | None:
        return (
            None if reply.status == 200 else refusal_error(reply, self.day, current_time(), is_later_page=is_later_page)
        )


def describe_usage(connection: Connection) -> str:
    """Return the used share of the app's monthly posts, as a sentence.

    Sends one request, which reads no post. X allows 50 in 15 minutes.

    :raises ConnectError: no access.
    """
    options = XSearchOptions(
        conn_id=connection.conn_id, queries=["x"], request_deadline_seconds=30, read_timeout_seconds=15
    )
    client = XClient(options, connection, "/2/usage/tweets", None, Tally(), quota=None)
    figures = client.fetch_document({}, _figures)
    used, cap = (figures.get(name) for name in ("project_usage", "project_cap"))
    if used is None or cap is None:
        return "X accepts the token. The month's usage is unknown"
    return f"X accepts the token. {_format_figure(used)} of {_format_figure(cap)} posts of this month are used up"


def _figures(data: bytes, _: XClient) -> dict[str, Any]:
    try:
        data_object = json.loads(data)["data"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return {}
    return data_object if isinstance(data_object, dict) else {}


def _format_figure(figure: Any) -> str:
    text = str(figure)
    return f"{int(text):,}" if text.isdecimal() else "?"
