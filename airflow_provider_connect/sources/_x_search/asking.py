"""Asks X: one request, one whole document, and refusals that say what to do.

An app's window holds for all its requests, so whoever asks waits here until the next one begins, and keeps the pace.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from airflow_provider_connect.clients.http.client import Answer, request
from airflow_provider_connect.clients.http.link import Limits
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from airflow_provider_connect.patience import CLOCK, Clock
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._x_search.access import Access
from airflow_provider_connect.sources._x_search.options import XSearchOptions
from airflow_provider_connect.sources._x_search.refusals import Window, refusal, window
from airflow_provider_connect.window import Day

_T = TypeVar("_T")

_MAX_BYTES = 64 << 20
"""The most that one answer may hold: it is in memory whole. A page of 500 posts has a few megabytes."""

_PAUSES = (1.0, 5.0, 20.0)
"""Before a later page is asked for again."""


def now() -> dt.datetime:
    """Return the present instant; tests replace this clock."""
    return dt.datetime.now(dt.UTC)


class Reply(NamedTuple):
    """An answer that is no refusal."""

    data: bytes
    window: Window


class Asking:
    """The way to X of one poll, or one count.

    :param pause_seconds: the least time from one request to the next.
    """

    def __init__(
        self,
        options: XSearchOptions,
        access: Access,
        day: Day | None,
        tally: Tally,
        *,
        pause_seconds: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        self.options = options
        self.day = day
        self.tally = tally
        self._access = access
        self._pause_seconds = pause_seconds
        self._clock = clock or CLOCK
        self._not_before = 0.0
        self._answers = 0

    def document(
        self,
        path: str,
        params: Mapping[str, str],
        read: Callable[[bytes, Asking], _T],
        *,
        is_later_page: bool = False,
    ) -> _T:
        """Return what ``read`` makes of the document that answers a request.

        What fails after the first answer is asked for again alone, a few times: the pages before it are still good. A
        window that is used up is waited for: else a day of more pages than a window has would never end.

        :param is_later_page: whether the request names a next_token.
        :raises RetriableError: X is away, in trouble or busy, or what it sent is not a whole document.
        :raises ConfigError: it refuses the request, the token, or more posts.
        """
        tries = 0
        while True:
            self._wait()
            try:
                reply = self._ask(path, params, is_later_page=is_later_page)
                if reply.window.is_used_up:
                    self._not_before = self._clock.now() + (reply.window.reset_seconds or 0.0)
                found = read(reply.data, self)
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
        return self._refusal(status, body, Window(), "")

    def not_an_answer(self, size_bytes: int) -> RetriableError:
        """Return the error for what is no document of the shape that was asked for."""
        return RetriableError(
            f"{self._host} sent no whole answer ({size_bytes} bytes): a proxy or a login page may answer in its place"
        )

    @property
    def _host(self) -> str:
        return self._access.url.partition("://")[2]

    def _wait(self) -> None:
        rest = self._not_before - self._clock.now()
        if rest > 0:
            self._clock.sleep(rest)
        self._not_before = self._clock.now() + self._pause_seconds

    def _ask(self, path: str, params: Mapping[str, str], *, is_later_page: bool) -> Reply:
        with self._requested(path, params) as answer:
            told = window(answer.header, now())
            if answer.status != 200:
                said = answer.text()
                error = self._refusal(
                    answer.status,
                    said.text,
                    told,
                    answer.header("Retry-After"),
                    is_cut=said.is_cut,
                    is_later_page=is_later_page,
                )
                if answer.status == 400 and isinstance(error, RetriableError):
                    raise TokenError(str(error))
                raise error
            data = bytearray()
            for piece in self._decoded(answer):
                data += piece
                if len(data) > _MAX_BYTES:
                    raise ConfigError(f"{answer.host} sent a document of more than {_MAX_BYTES:,} bytes")
        self.tally.raw_bytes += len(data)
        return Reply(bytes(data), told)

    def _requested(self, path: str, params: Mapping[str, str]) -> Answer:
        options, access = self.options, self._access
        return request(
            access.url + path,
            params,
            access.auth,
            Limits(
                connect_timeout_seconds=options.connect_timeout_seconds,
                read_timeout_seconds=options.read_timeout_seconds,
                deadline_seconds=options.request_deadline_seconds,
            ),
            headers={"Accept": "application/json"},
            proxy=access.proxy,
            ca_bundle=access.ca_bundle,
            sent=self.tally.request,
        )

    def _refusal(
        self,
        status: int,
        body: str,
        told: Window,
        retry_after: str,
        *,
        is_cut: bool = False,
        is_later_page: bool = False,
    ) -> ConnectError:
        return refusal(
            status,
            body,
            host=self._host,
            day=self.day,
            secrets=self._access.secrets,
            window=told,
            retry_after=retry_after,
            now=now(),
            is_cut=is_cut,
            is_later_page=is_later_page,
        )

    def _decoded(self, answer: Answer) -> Iterator[bytes]:
        from airflow_provider_connect.polling.inflate import gunzip  # noqa: PLC0415  # too heavy for a DAG file

        if answer.header("Content-Type").partition(";")[0].strip().lower() == "text/html":
            raise RetriableError(
                f"{answer.host} sent a web page with status 200 in place of an answer; it may come from a proxy or a "
                "login"
            )
        answer.require_framing()
        encoding = answer.header("Content-Encoding").strip().lower()
        if encoding not in ("", "identity", "gzip"):
            raise RetriableError(f"{answer.host} sent an unknown Content-Encoding; only gzip was asked for")
        wire = self._counted(answer)
        return gunzip(wire) if encoding == "gzip" else wire

    def _counted(self, answer: Answer) -> Iterator[bytes]:
        for chunk in answer.chunks():
            self.tally.wire_bytes += len(chunk)
            yield chunk


class TokenError(RetriableError):
    """X takes its own next_token no more: asking again with it is no use."""
