"""Client of a JSON API: one call returns one whole answer, and errors name the remedy."""

from __future__ import annotations

import datetime as dt
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import quote, urlencode, urljoin, urlsplit

from airflow_provider_connect.clients.http.access import HttpAccess
from airflow_provider_connect.clients.http.asking.call import Call, Reply
from airflow_provider_connect.clients.http.asking.judging import Judgement, demands_login, judge, wait_seconds
from airflow_provider_connect.clients.http.asking.pacing import request_pace
from airflow_provider_connect.clients.http.asking.rules import ErrorRule, RateLimits
from airflow_provider_connect.clients.http.auth import NO_AUTH, Auth
from airflow_provider_connect.clients.http.charsets import utf8_json
from airflow_provider_connect.clients.http.client import (
    HttpResponse,
    excerpt,
    merge_headers,
    request,
    strip_auth_params,
)
from airflow_provider_connect.clients.http.connection_fields import RESERVED_HEADERS
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.clients.http.inflate import decoded_body
from airflow_provider_connect.clients.http.named_credentials import add_to_body
from airflow_provider_connect.clients.http.pool import ConnectionPool, OpenResponses
from airflow_provider_connect.clients.http.route import Origin, origin_of
from airflow_provider_connect.closing import Closable
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError, SetupError
from airflow_provider_connect.patience import CLOCK, FROM_HALF, Clock, Patience, doubling_pauses
from airflow_provider_connect.secrets import Secrets

MAX_BYTES = 256 << 20
"""Default size limit of one answer, held in memory."""
API_TIMEOUTS = HttpTimeouts(read_timeout_seconds=120, deadline_seconds=600)

_PAUSES = doubling_pauses(1.0, 60.0)
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_ACCEPT_JSON = {"Accept": "application/json"}
_STILL_LOGGED_OUT = (
    "a rule of errors takes it for the end of a session, and new credentials do not help. Check the rule, and the "
    "connection's auth: only sessions and OAuth tokens can be fetched again"
)
_ASKED_WITHOUT = (
    "this host of allowed_hosts was asked without the credentials of {}. If it is another name of the service, set "
    "keep_host in the paging, so that its links lead to the host"
)
_FULL_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//")


def current_time() -> dt.datetime:
    """Return the current time. Tests replace this clock."""
    return dt.datetime.now(dt.UTC)


class LeaveAloneError(RetriableError):
    """The API accepts no requests for a while."""


class _PollClock:
    """System clock. Its pauses end when the poll closes."""

    def __init__(self, answers: OpenResponses) -> None:
        self.sleep = answers.sleep

    def now(self) -> float:
        return CLOCK.now()


@dataclass(frozen=True)
class _Request:
    """A call with callbacks and its current URL, which a redirect changes."""

    call: Call
    url: str
    patience: Patience
    on_sent: Callable[[], None] | None
    on_received: Callable[[int, int], None] | None
    params: Sequence[tuple[str, str]]


class JsonApi(Closable):
    """Client of an API for a poll or a publisher. Thread-safe.

    :param target: a connection of type ``http``, or an access.
    :param errors: rules for answers, in order.
    :param share: number of processes that divide the limits per second and of concurrent requests.
    :param max_bytes: of a decompressed answer.
    :param patience_seconds: time for retries of a repeatable call. 0 for no retries.
    :param follows_redirects: of a GET.
    :param clock: for pauses.
    :raises ConfigError: with every problem of the connection.
    """

    def __init__(
        self,
        target: Connection | HttpAccess,
        *,
        errors: Sequence[ErrorRule] = (),
        limits: RateLimits | None = None,
        share: int = 1,
        max_bytes: int = MAX_BYTES,
        timeouts: HttpTimeouts = API_TIMEOUTS,
        patience_seconds: float = 0.0,
        follows_redirects: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self._access = target if isinstance(target, HttpAccess) else HttpAccess.read_connection(target)
        self._errors = errors
        self._limits = limits or RateLimits()
        self._pace = request_pace(self._access.name, self._access.url, self._limits, share)
        self._max_bytes = max_bytes
        self._timeouts = timeouts
        self._patience_seconds = patience_seconds
        self._follows_redirects = follows_redirects
        self._lock = threading.Lock()
        self._answers = OpenResponses()
        self._has_answered = False
        self._pool = ConnectionPool()
        self.clock: Clock = clock or _PollClock(self._answers)
        self._secrets = self._secrets_of(self._access.named_auth)

    def ask(
        self,
        call: Call,
        *,
        on_sent: Callable[[], None] | None = None,
        on_received: Callable[[int, int], None] | None = None,
        error_of: Callable[[Reply], ConnectError | None] = lambda _: None,
    ) -> Reply:
        """Send a call and return the whole answer.

        ``on_sent`` and ``on_received`` never run in two threads concurrently.

        :param on_sent: called for every request sent.
        :param on_received: called after each status 2xx with the bytes received, and decompressed (0 if incomplete).
        :param error_of: returns an error, or None to apply the rules.
        :raises RetriableError: there is no whole answer. :class:`LeaveAloneError` if the API accepts no more requests.
        :raises ConfigError: the API refuses call or credentials, or leads to a foreign host.
        """
        if reserved_names := sorted(name for name in call.headers if name.lower() in RESERVED_HEADERS):
            raise ConfigError(f"the header {reserved_names[0]!r} is set by the client. Remove it from the declaration")
        patience = Patience(self._patience_seconds, _PAUSES, jitter=FROM_HALF, clock=self.clock)
        params = tuple(call.params.items() if isinstance(call.params, Mapping) else call.params)
        request = _Request(call, self._address(self._access.url, call.url), patience, on_sent, on_received, params)
        previous_error: RetriableError | None = None
        while True:
            try:
                reply = self._request_with_auth(request)
                if (error := error_of(reply)) is not None:
                    raise error
                reply = self._check_verdict(call, reply)
                self._has_answered = True
                return replace(reply, tries=int(patience.tries))
            except RetriableError as error:
                self._answers.require_open()
                if isinstance(error, SetupError) and error.repeats(previous_error) and not self._has_answered:
                    raise  # the caller knows whether the stream has ever worked
                previous_error = error
                if not call.may_repeat or not patience.wait_and_retry(error.retry_after_seconds):
                    raise _retry_summary(error, patience) from None

    def close(self) -> None:
        """Make reads and pauses of other threads fail now."""
        self._answers.give_up()
        self._pool.close()

    # Addresses

    def _address(self, base: str, url: str) -> str:
        if not _FULL_URL.match(url):
            return f"{self._access.url}/{url.lstrip('/')}" if url else self._access.url
        try:
            address = urljoin(base, url)
            origin = origin_of(address)
        except ValueError:
            raise ConfigError(f"{_host(base)} leads to an invalid web address: report it to the service") from None
        own_origin = self._access.origin
        if (origin, own_origin) == (("http", own_origin[1], 80), ("https", own_origin[1], 443)):
            # Services behind a TLS proxy often generate http links to themselves.
            return urlsplit(address)._replace(scheme="https", netloc=urlsplit(self._access.url).netloc).geturl()
        if origin != own_origin and origin not in self._access.allowed_origins:
            raise ConfigError(
                f"{_host(base)} leads to {self._origin_text(origin)}, which {self._connection_label} does not name, "
                "so no request is sent. If the host belongs to the service, add it to the extra field allowed_hosts, "
                "or set it as the host"
            )
        return address

    @property
    def _connection_label(self) -> str:
        return f"connection {self._access.name!r}"

    def _origin_text(self, origin: Origin) -> str:
        scheme, host, port = origin
        return excerpt(f"{scheme}://{host}:{port}", self._secrets)

    # Requests

    def _request_with_auth(self, request: _Request) -> Reply:
        credentials = self._access.credentials
        auth = credentials.auth()
        reply = self._follow_redirects(request, auth)
        if self._is_own(reply.url) and demands_login(reply, self._errors, current_time()):
            renewed_auth = credentials.renew(auth)
            if renewed_auth is not None:
                return self._follow_redirects(request, renewed_auth)
        return reply

    def _is_own(self, url: str) -> bool:
        return origin_of(url) == self._access.origin

    def _follow_redirects(self, request: _Request, auth: Auth) -> Reply:
        for _ in range(_MOST_REDIRECTS + 1):
            self._wait_for_turn(request.patience)
            with self._pace.concurrency_slot(self.clock, self._answers.require_open):
                reply = self._send(request, auth)
            self._pause_if_requested(reply)
            if not 300 <= reply.status < 400 or demands_login(reply, self._errors, current_time()):
                return reply
            target = self._redirect_target(request, reply)
            if request.params and not urlsplit(target).query:
                raise ConfigError(
                    f"{_host(request.url)} redirects to an address without a query, which would load everything. "
                    "Correct the declared path, perhaps by a slash at its end, or the connection's host"
                )
            request = replace(request, url=target, params=())
        raise ConfigError(
            f"{_host(request.url)} redirects more than {_MOST_REDIRECTS} times. Correct the declared path or the "
            "connection's host"
        )

    def _redirect_target(self, request: _Request, reply: Reply) -> str:
        location, method = reply.header("Location"), request.call.verb
        if reply.status not in _REDIRECTS or not location or method not in ("GET", "HEAD"):
            raise ConfigError(
                f"{_host(request.url)} redirects a {method} (status {reply.status}). Only redirects of a GET are "
                "followed. Correct the declared path or the connection's host"
            )
        try:
            return self._address(request.url, urljoin(request.url, location))
        except ValueError:
            raise ConfigError(f"{_host(request.url)} redirects to an invalid address") from None

    def _secrets_of(self, auth: Auth) -> Secrets:
        access = self._access
        return Secrets([*auth.secrets, *access.secret_header_values, *access.route.secrets])

    def _send(self, pending: _Request, auth: Auth) -> Reply:
        auth = auth.joined(self._access.named_auth)
        url = strip_auth_params(pending.url, auth)  # the reply's address must not contain the key either
        is_own = self._is_own(url)
        by_percent = bool(pending.params) and pending.call.spaces == "percent"
        # Declared headers may be credentials too, so another host gets none.
        headers = merge_headers(_ACCEPT_JSON, *((pending.call.headers, dict(self._access.headers)) if is_own else ()))
        secrets = self._secrets = self._secrets_of(auth)
        with ExitStack() as stack:
            answer = request(
                self._access.route,
                _with_percent_spaces(url, pending.params) if by_percent else url,
                auth if is_own else NO_AUTH,
                self._timeouts,
                params=() if by_percent else pending.params,
                method=pending.call.verb,
                body=add_to_body(pending.call.body, auth.body) if is_own else pending.call.body,
                headers=headers,
                takes_redirects=self._follows_redirects,
                on_sent=partial(self._report, pending.on_sent),
                pool=self._pool if pending.call.may_repeat else None,
                on_opened=lambda link: stack.enter_context(self._answers.interruptible(link)),
            )
            stack.enter_context(answer)
            if 200 <= answer.status < 300:
                body, is_cut = self._read(answer, pending), False
            elif answer.status < 400:  # a redirect may lack a body without declaring it
                body, is_cut = b"", False
            else:
                error_text = answer.text()
                body, is_cut = error_text.text.encode(), error_text.is_cut
            return Reply(answer.status, answer.headers, body, url, is_cut, secrets)

    def _report(self, callback: Callable[..., None] | None, *counts: int) -> None:
        if callback is not None:
            with self._lock:
                callback(*counts)

    def _read(self, answer: HttpResponse, request: _Request) -> bytes:
        if answer.status in (204, 205):  # no body by definition
            return b""
        data, is_whole = bytearray(), False
        try:
            for chunk in decoded_body(answer):
                data += chunk
                if len(data) > self._max_bytes:
                    raise ConfigError(
                        f"{answer.host} sent an answer of more than {self._max_bytes:,} bytes: request smaller pages"
                    )
            is_whole = True
        finally:
            self._report(request.on_received, answer.wire_bytes, len(data) if is_whole else 0)
        return utf8_json(bytes(data), answer.header("Content-Type"))

    # Limits

    def _wait_for_turn(self, patience: Patience) -> None:
        self._answers.require_open()
        while (wait := self._pace.wait_seconds(self.clock.now())) > 0:
            if wait > max(patience.left_seconds, 0):
                # Other tasks learn only of the API's own refusals, not of this job's pacing.
                kind = LeaveAloneError if self._pace.pause_seconds_left(self.clock.now()) > 0 else RetriableError
                host = _host(self._access.url)
                raise kind(f"{host} has no requests left for {self._connection_label} now", retry_after_seconds=wait)
            self.clock.sleep(wait)
            self._answers.require_open()

    def _pause_if_requested(self, reply: Reply) -> None:
        reset = self._limits.reset
        if reset is not None and self._is_last(reply) and (wait := wait_seconds(reset, reply, current_time())):
            self._pace.pause_until(self.clock.now() + wait)

    def _is_last(self, reply: Reply) -> bool:
        remaining = reply.header(self._limits.remaining or "").strip()
        return bool(re.fullmatch(r"-?[0-9]{1,18}", remaining, flags=re.ASCII)) and int(remaining) <= 0

    # Verdicts

    def _check_verdict(self, call: Call, reply: Reply) -> Reply:
        if reply.status in call.allowed:
            return replace(reply, verdict="ignored", body=b"")
        judgement = judge(reply, self._errors, current_time())
        if reply.status == 403 and judgement.action == "refuse" and not judgement.is_declared and self._is_last(reply):
            # GitHub reports a reached limit like this. The permissions are fine.
            judgement = judgement._replace(action="wait", reason="no requests are left")
        if judgement.action in ("retry", "wait", "refuse", "login"):
            raise self._error(call, reply, judgement)
        if judgement.action == "rows":
            _require_rows(reply)
            return reply
        return replace(reply, verdict="empty" if judgement.action == "empty" else "ignored", body=b"")

    def _error(self, call: Call, reply: Reply, judgement: Judgement) -> ConnectError:
        wait = judgement.wait_seconds
        server_text = excerpt(judgement.server_text, reply.secrets, is_cut=reply.is_cut)
        label = f" ({call.about})" if call.about else ""
        reason = judgement.reason or (_STILL_LOGGED_OUT if judgement.action == "login" else "")
        if reply.status == 401 and not judgement.is_declared and not self._is_own(reply.url):
            reason = _ASKED_WITHOUT.format(self._connection_label)
        reason = f": {reason}" if reason else ""
        message = f"{reply.host}{label} answered {reply.status}{reason}"
        message += f". Its answer: {server_text!r}" if server_text else ""
        if judgement.action in ("refuse", "login"):
            return ConfigError(message)
        if wait is None and reply.status in (403, 429) and self._limits.reset is not None:
            wait = wait_seconds(self._limits.reset, reply, current_time())
        if judgement.action != "wait" and reply.status != 429:
            return RetriableError(message, retry_after_seconds=wait)
        if wait is not None:
            self._pace.pause_until(self.clock.now() + wait)
        return LeaveAloneError(message, retry_after_seconds=wait)


def _with_percent_spaces(url: str, params: Sequence[tuple[str, str]]) -> str:
    parts = urlsplit(url)
    query = "&".join(part for part in (parts.query, urlencode(params, quote_via=quote)) if part)
    return parts._replace(query=query).geturl()


def _host(url: str) -> str:
    return urlsplit(url).netloc


def _retry_summary(error: RetriableError, patience: Patience) -> RetriableError:
    if patience.tries == 1:
        return error  # nothing to add, and its type may be more specific
    kind = LeaveAloneError if isinstance(error, LeaveAloneError) else RetriableError
    message = f"{error} ({patience.tries} tries in {patience.spent_seconds:.0f} s)"
    return kind(message, retry_after_seconds=error.retry_after_seconds)


def _require_rows(reply: Reply) -> None:
    is_html = reply.header("Content-Type").partition(";")[0].strip().lower() == "text/html"
    if is_html and reply.body.lstrip()[:1] == b"<":  # some services label everything as HTML
        raise SetupError(f"{reply.host} sent a web page with status {reply.status}. Check for a proxy or a login page")
    if not reply.body:
        raise SetupError(
            f"{reply.host} sent an empty body with status {reply.status}, which states neither rows nor their absence"
        )
