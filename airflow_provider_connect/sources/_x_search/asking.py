"""Asks X: one request, one whole document, and refusals that say what to do.

An app's window holds for all its requests, so whoever asks waits here until the next one begins, and keeps the pace.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from airflow_provider_connect.clients.http.link import Limits
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConnectError, RetriableError
from airflow_provider_connect.patience import CLOCK
from airflow_provider_connect.polling.asking.asker import Asker
from airflow_provider_connect.polling.asking.call import Call
from airflow_provider_connect.polling.asking.judging import Heard
from airflow_provider_connect.polling.asking.limits import RateLimits
from airflow_provider_connect.polling.asking.rules import Moment
from airflow_provider_connect.polling.quota.limits import Quota
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.secrets import Secrets
from airflow_provider_connect.sources._x_search.access import access
from airflow_provider_connect.sources._x_search.options import XSearchOptions
from airflow_provider_connect.sources._x_search.refusals import MOST_WAIT_SECONDS, TokenError, Window, refusal, window
from airflow_provider_connect.window import Day

_T = TypeVar("_T")

_MAX_BYTES = 64 << 20
"""The most that one answer may hold: it is in memory whole. A page of 500 posts has a few megabytes."""

_PAUSES = (1.0, 5.0, 20.0)
"""Before a later page is asked for again."""

_WINDOWS = RateLimits(remaining="x-rate-limit-remaining", reset=Moment(header="x-rate-limit-reset", format="epoch_s"))


def now() -> dt.datetime:
    """Return the present instant; tests replace this clock."""
    return dt.datetime.now(dt.UTC)


class Asking:
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
        there = access(connection)
        self.day = day
        self._tally = tally
        self._clock = CLOCK
        self._host = there.url.partition("://")[2]
        self._secrets = Secrets([*there.credentials.auth().secrets, *there.route.secrets])
        self._answers = 0
        limits = RateLimits() if quota is None else _WINDOWS.model_copy(update={"per_second": quota.per_second})
        self._asker = Asker(
            replace(there, url=there.url + path),
            refusal=self._refusal,
            limits=limits,
            quota=quota,
            share=share,
            max_bytes=_MAX_BYTES,
            times=Limits(
                read_timeout_seconds=options.read_timeout_seconds,
                deadline_seconds=options.request_deadline_seconds,
            ),
            patience_seconds=MOST_WAIT_SECONDS,
            clock=self._clock,
        )

    def document(self, params: Mapping[str, str], read: Callable[[bytes, Asking], _T]) -> _T:
        """Return what ``read`` makes of the document that answers a request.

        What fails after the first answer is asked for again alone, a few times: the pages before it are still good. A
        window that is used up is waited for: else a day of more pages than a window has would never end.

        :raises RetriableError: X is away, in trouble or busy, or what it sent is not a whole document.
        :raises ConfigError: it refuses the request, the token, or more posts.
        """
        call = Call("", params=tuple(params.items()), is_repeatable=False)
        tries = 0
        while True:
            try:
                found = read(self._asker.ask(call, self._tally).body, self)
            except RetriableError as error:
                tries += 1
                if not self._answers or tries > len(_PAUSES) or isinstance(error, TokenError):
                    raise
                self._clock.sleep(max(_PAUSES[tries - 1], error.retry_after_seconds or 0.0))
            else:
                self._answers += 1
                return found

    def refused(self, status: int, body: str) -> ConnectError:
        """Return the error for a problem that came with status 200."""
        return refusal(status, body, host=self._host, day=self.day, secrets=self._secrets, window=Window(), now=now())

    def not_an_answer(self, size_bytes: int) -> RetriableError:
        """Return the error for what is no document of the shape that was asked for."""
        return RetriableError(
            f"{self._host} sent no whole answer ({size_bytes} bytes): a proxy or a login page may answer in its place"
        )

    def _refusal(self, call: Call, heard: Heard) -> ConnectError | None:
        seen = heard.seen
        if seen.status == 200:
            return None

        def header(name: str) -> str:
            return seen.headers.get(name.lower(), "")

        return refusal(
            seen.status,
            seen.body.decode("utf-8", "replace"),
            host=self._host,
            day=self.day,
            secrets=heard.secrets,
            window=window(header, now()),
            retry_after=header("Retry-After"),
            now=now(),
            is_cut=heard.is_cut,
            is_later_page="next_token" in dict(call.params),
        )
