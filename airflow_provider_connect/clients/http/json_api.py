"""A JSON API behind a connection: one call, one whole answer, and errors that say what to do.

A call that may be repeated is asked again alone after a failure that may pass: a page that fails costs a page, not the
day. Redirects are followed for GET, a few of them, to hosts that the connection names. Credentials go to its own host
and to nobody else, whatever an answer says. Requests and bytes are told as they are sent and received: who counts them
for a day, or to a quota, stands around this.
"""

from __future__ import annotations

import datetime as dt
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urljoin, urlsplit

from airflow_provider_connect.clients.http.access import HttpAccess
from airflow_provider_connect.clients.http.asking.call import Call, Reply
from airflow_provider_connect.clients.http.asking.judging import Judgement, judge, wait_seconds
from airflow_provider_connect.clients.http.asking.pacing import request_pace
from airflow_provider_connect.clients.http.asking.rules import ErrorRule, RateLimits
from airflow_provider_connect.clients.http.auth import NO_AUTH, Auth
from airflow_provider_connect.clients.http.client import HttpResponse, excerpt, request, strip_auth_params
from airflow_provider_connect.clients.http.connection_fields import RESERVED_HEADERS
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.clients.http.inflate import decoded_body
from airflow_provider_connect.clients.http.pool import OpenResponses, ConnectionPool
from airflow_provider_connect.clients.http.route import Origin, origin_of
from airflow_provider_connect.closing import Closable
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from airflow_provider_connect.patience import CLOCK, FROM_HALF, Clock, Patience, doubling_pauses
from airflow_provider_connect.secrets import Secrets

MAX_BYTES = 256 << 20
"""The most that one answer may hold by default: it is in memory whole."""
API_TIMEOUTS = HttpTimeouts(read_timeout_seconds=120, deadline_seconds=600)

_PAUSES = doubling_pauses(1.0, 60.0)
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_JSON = {"Accept": "application/json"}
_WHOLE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//")


def now() -> dt.datetime:
    """Return the present instant; tests replace this clock."""
    return dt.datetime.now(dt.UTC)


class LeaveAloneError(RetriableError):
    """The API wants no more requests for a while."""


class _PollClock:
    """The system's clock, whose pauses end when the poll does."""

    def __init__(self, answers: OpenResponses) -> None:
        self.sleep = answers.sleep

    def now(self) -> float:
        return CLOCK.now()


@dataclass(frozen=True)
class _Request:
    """A call on its way to an address, which a redirect changes, and who counts it."""

    call: Call
    url: str
    patience: Patience
    sent: Callable[[], None] | None
    received: Callable[[int, int], None] | None
    params: Sequence[tuple[str, str]]


class JsonApi(Closable):
    """One way to an API, of a poll or a publisher. Several threads may ask at once.

    :param to: the API: a connection of type ``http``, or what another kind of connection says.
    :param errors: what its answers mean; the first rule that fits counts, then the defaults.
    :param limits: how often it may be asked.
    :param share: by how many processes of the same job a limit for each second, or at once, is shared.
    :param max_bytes: the most that one answer may hold, inflated.
    :param times: how long each part of a request may take.
    :param patience_seconds: how long a call that may be repeated is asked again, waits included, before its error is
        raised; 0: it is asked once.
    :param follows_redirects: whether a redirect of a GET is followed; else it is refused.
    :param clock: what pauses are measured with; by default the system's, whose pauses end when this is closed.
    :raises ConfigError: naming everything that is wrong with the connection.
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
        self._times = timeouts
        self._patience_seconds = patience_seconds
        self._follows_redirects = follows_redirects
        self._lock = threading.Lock()
        self._answers = OpenResponses()
        self._pool = ConnectionPool()
        self.clock: Clock = clock or _PollClock(self._answers)
        self._secrets = Secrets([*self._access.secret_header_values, *self._access.route.secrets])

    def ask(
        self,
        call: Call,
        *,
        on_sent: Callable[[], None] | None = None,
        on_received: Callable[[int, int], None] | None = None,
        error_of: Callable[[Reply], ConnectError | None] = lambda _: None,
    ) -> Reply:
        """Send a call and read its answer to the end. No two threads call ``sent`` or ``received`` at once.

        :param sent: called whenever a request is on its way: from then on the server may count it.
        :param received: called after each answer with a status 2xx: how many bytes came over the wire, and how many
            they are decoded; 0 if it was not whole.
        :param refusal: returns the error that an answer is, where rules cannot say it; None leaves the answer to them.
        :raises RetriableError: there is no whole answer, or none for now; :class:`LeaveAloneError` if the API wants no
            more requests.
        :raises ConfigError: the API refuses the call or the credentials, or leads to a host that the connection does
            not name.
        """
        if reserved_names := sorted(name for name in call.headers if name.lower() in RESERVED_HEADERS):
            raise ConfigError(f"the header {reserved_names[0]!r} is set by the client itself: leave it out of the declaration")
        patience = Patience(self._patience_seconds, _PAUSES, jitter=FROM_HALF, clock=self.clock)
        params = tuple(call.params.items() if isinstance(call.params, Mapping) else call.params)
        request = _Request(call, self._address(self._access.url, call.url), patience, on_sent, on_received, params)
        while True:
            try:
                reply = self._request_with_auth(request)
                if (error := error_of(reply)) is not None:
                    raise error
                return self._check_verdict(call, reply)
            except RetriableError as error:
                self._answers.require_open()
                if not call.may_repeat or not patience.wait_and_retry(error.retry_after_seconds):
                    raise _retry_summary(error, patience) from None

    def close(self) -> None:
        """End what other threads still read or wait for, with an error."""
        self._answers.give_up()
        self._pool.close()

    # Where to

    def _address(self, base: str, url: str) -> str:
        """Return an address that may be asked.

        :param url: as it is called for or linked to: whole, or a path below the connection's base.
        :raises ConfigError: it is a host that the connection does not name.
        """
        if not _WHOLE.match(url):
            return f"{self._access.url}/{url.lstrip('/')}" if url else self._access.url
        try:
            address = urljoin(base, url)
            origin = origin_of(address)
        except ValueError:
            raise ConfigError(
                f"{_host(base)} leads to something that is no address of a web server: report it to the service"
            ) from None
        own_origin = self._access.origin
        if (origin, own_origin) == (("http", own_origin[1], 80), ("https", own_origin[1], 443)):
            # Services behind a proxy that ends TLS often do not know that they are reached by https.
            return urlsplit(address)._replace(scheme="https", netloc=urlsplit(self._access.url).netloc).geturl()
        if origin != own_origin and origin not in self._access.allowed_origins:
            raise ConfigError(
                f"{_host(base)} leads to {self._origin_text(origin)}, which is not asked, as {self._connection_label} does not name "
                "it: if it belongs to the service, name it there, as extra field allowed_hosts or as the host itself"
            )
        return address

    @property
    def _connection_label(self) -> str:
        return f"connection {self._access.name!r}"

    def _origin_text(self, origin: Origin) -> str:
        scheme, host, port = origin
        return excerpt(f"{scheme}://{host}:{port}", self._secrets)

    # One question

    def _request_with_auth(self, request: _Request) -> Reply:
        """Return the answer to a call; a refusal of credentials that can be fetched anew is not one yet."""
        credentials = self._access.credentials
        auth = credentials.auth()
        reply = self._follow_redirects(request, auth)
        if reply.status == 401 and origin_of(reply.url) == self._access.origin:
            renewed_auth = credentials.renew(auth)
            if renewed_auth is not None:
                return self._follow_redirects(request, renewed_auth)
        return reply

    def _follow_redirects(self, request: _Request, auth: Auth) -> Reply:
        for _ in range(_MOST_REDIRECTS + 1):
            self._wait_for_turn(request.patience)
            with self._pace.concurrency_slot(self.clock, self._answers.require_open):
                reply = self._send(request, auth)
            self._pause_if_requested(reply)
            if not 300 <= reply.status < 400:
                return reply
            target = self._redirect_target(request, reply)
            if request.params and not urlsplit(target).query:
                raise ConfigError(
                    f"{_host(request.url)} redirects to an address without a query, which would ask for everything: "
                    "correct the declared path, perhaps by a slash at its end, or the connection's host"
                )
            request = replace(request, url=target, params=())
        raise ConfigError(
            f"{_host(request.url)} redirects more than {_MOST_REDIRECTS} times: correct the declared path or the "
            "connection's host"
        )

    def _redirect_target(self, request: _Request, reply: Reply) -> str:
        """Return where a redirect leads to.

        :raises ConfigError: it leads nowhere, or what was sent must not be sent again elsewhere.
        """
        location, method = reply.header("Location"), request.call.verb
        if reply.status not in _REDIRECTS or not location or method not in ("GET", "HEAD"):
            raise ConfigError(
                f"{_host(request.url)} redirects a {method} (status {reply.status}), which is followed for GET only: "
                "correct the declared path or the connection's host"
            )
        try:
            return self._address(request.url, urljoin(request.url, location))
        except ValueError:
            raise ConfigError(f"{_host(request.url)} redirects to something that is no address") from None

    def _send(self, pending: _Request, auth: Auth) -> Reply:
        url = strip_auth_params(pending.url, auth)  # what is told of the answer's address must not hold it either
        is_own = origin_of(url) == self._access.origin
        # A header of the declaration's own may be a credential, too: another host gets none of them.
        headers = _JSON | (dict(pending.call.headers) | dict(self._access.headers) if is_own else {})
        secrets = self._secrets = Secrets([*auth.secrets, *self._access.secret_header_values, *self._access.route.secrets])
        with ExitStack() as stack:
            answer = request(
                self._access.route,
                url,
                auth if is_own else NO_AUTH,
                self._times,
                params=pending.params,
                method=pending.call.verb,
                body=pending.call.body,
                headers=headers,
                takes_redirects=self._follows_redirects,
                on_sent=partial(self._report, pending.sent),
                pool=self._pool if pending.call.may_repeat else None,
                on_opened=lambda link: stack.enter_context(self._answers.interruptible(link)),
            )
            stack.enter_context(answer)
            if 200 <= answer.status < 300:
                body, is_cut = self._read(answer, pending), False
            elif answer.status < 400:  # a redirect may have no body at all, and not say so
                body, is_cut = b"", False
            else:
                error_text = answer.text()
                body, is_cut = error_text.text.encode(), error_text.is_cut
            return Reply(answer.status, answer.headers, body, url, is_cut, secrets)

    def _report(self, hook: Callable[..., None] | None, *counts: int) -> None:
        if hook is not None:
            with self._lock:
                hook(*counts)

    def _read(self, answer: HttpResponse, request: _Request) -> bytes:
        if answer.status in (204, 205):  # which have no body
            return b""
        data, is_whole = bytearray(), False
        try:
            for chunk in decoded_body(answer):
                data += chunk
                if len(data) > self._max_bytes:
                    raise ConfigError(
                        f"{answer.host} sent an answer of more than {self._max_bytes:,} bytes: ask for smaller pages"
                    )
            is_whole = True
        finally:
            self._report(request.received, answer.wire_bytes, len(data) if is_whole else 0)
        return bytes(data)

    # When

    def _wait_for_turn(self, patience: Patience) -> None:
        """Wait until the limits allow a request.

        :raises RetriableError: that takes longer than there is patience.
        """
        self._answers.require_open()
        while (wait := self._pace.wait_seconds(self.clock.now())) > 0:
            if wait > max(patience.left_seconds, 0):
                # Only what the API said itself is told to other tasks: how thin this job spreads its part is no news.
                kind = LeaveAloneError if self._pace.pause_seconds_left(self.clock.now()) > 0 else RetriableError
                host = _host(self._access.url)
                raise kind(f"{host} has no requests left for {self._connection_label} now", retry_after_seconds=wait)
            self.clock.sleep(wait)
            self._answers.require_open()

    def _pause_if_requested(self, reply: Reply) -> None:
        """Send nothing for a while if an answer says that it was the last one for now."""
        reset = self._limits.reset
        if reset is not None and self._is_last(reply) and (wait := wait_seconds(reset, reply, now())):
            self._pace.pause_until(self.clock.now() + wait)

    def _is_last(self, reply: Reply) -> bool:
        remaining = reply.header(self._limits.remaining or "").strip()
        return bool(re.fullmatch(r"-?[0-9]{1,18}", remaining, flags=re.ASCII)) and int(remaining) <= 0

    # What it means

    def _check_verdict(self, call: Call, reply: Reply) -> Reply:
        if reply.status in call.allowed:
            return replace(reply, verdict="ignored", body=b"")
        judgement = judge(reply, self._errors, now())
        if reply.status == 403 and judgement.action == "refuse" and not judgement.is_declared and self._is_last(reply):
            # So GitHub says that its limit is reached: nobody lacks a right.
            judgement = judgement._replace(action="wait", reason="no requests are left")
        if judgement.action in ("retry", "wait", "refuse"):
            raise self._error(call, reply, judgement)
        if judgement.action == "rows":
            _require_rows(reply)
            return reply
        return replace(reply, verdict="empty" if judgement.action == "empty" else "ignored", body=b"")

    def _error(self, call: Call, reply: Reply, judgement: Judgement) -> ConnectError:
        wait = judgement.wait_seconds
        server_text = excerpt(judgement.server_text, reply.secrets, is_cut=reply.is_cut)
        label = f" ({call.about})" if call.about else ""
        reason = f": {judgement.reason}" if judgement.reason else ""
        message = f"{reply.host}{label} answered {reply.status}{reason}"
        message += f"; it said: {server_text!r}" if server_text else ""
        if judgement.action == "refuse":
            return ConfigError(message)
        if wait is None and reply.status in (403, 429) and self._limits.reset is not None:
            wait = wait_seconds(self._limits.reset, reply, now())
        if judgement.action != "wait" and reply.status != 429:
            return RetriableError(message, retry_after_seconds=wait)
        if wait is not None:
            self._pace.pause_until(self.clock.now() + wait)
        return LeaveAloneError(message, retry_after_seconds=wait)


def _host(url: str) -> str:
    return urlsplit(url).netloc


def _retry_summary(error: RetriableError, patience: Patience) -> RetriableError:
    if patience.tries == 1:
        return error  # nothing is to be added, and its type may say more
    kind = LeaveAloneError if isinstance(error, LeaveAloneError) else RetriableError
    message = f"{error} (asked {patience.tries} times in {patience.spent_seconds:.0f} s)"
    return kind(message, retry_after_seconds=error.retry_after_seconds)


def _require_rows(reply: Reply) -> None:
    is_html = reply.header("Content-Type").partition(";")[0].strip().lower() == "text/html"
    if is_html and reply.body.lstrip()[:1] == b"<":  # some label all they send like that
        raise RetriableError(
            f"{reply.host} sent a web page with status {reply.status} in place of an answer; it may come from a proxy "
            "or a login"
        )
    if not reply.body:
        raise RetriableError(
            f"{reply.host} sent an empty body with status {reply.status}, which says neither that there are rows nor "
            "that there are none"
        )
