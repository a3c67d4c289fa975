"""Asks: one call, one whole answer that counts, and errors that say what to do.

A call that may be repeated is asked again alone after a failure that may pass: a page that fails costs a page, not the
day. Redirects are followed for GET, a few of them, to hosts that the connection names. Credentials go to its own host
and to nobody else, whatever an answer says.
"""

from __future__ import annotations

import datetime as dt
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from urllib.parse import urljoin, urlsplit

from airflow_provider_connect.clients.http.access import Access
from airflow_provider_connect.clients.http.auth import NO_AUTH, Auth
from airflow_provider_connect.clients.http.client import Answer, excerpt, without_key
from airflow_provider_connect.clients.http.fields import RESERVED
from airflow_provider_connect.clients.http.link import Limits
from airflow_provider_connect.clients.http.open_answers import OpenAnswers
from airflow_provider_connect.clients.http.pool import Pool
from airflow_provider_connect.clients.http.route import Origin, origin_of
from airflow_provider_connect.closing import Closable
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, QuotaError, RetriableError
from airflow_provider_connect.patience import CLOCK, FROM_HALF, Clock, Patience, doubling
from airflow_provider_connect.polling.asking.call import Call, Reply
from airflow_provider_connect.polling.asking.judging import Heard, Judgement, Seen, judge, wait_seconds
from airflow_provider_connect.polling.asking.limits import RateLimits
from airflow_provider_connect.polling.asking.pacing import pace_of
from airflow_provider_connect.polling.asking.rules import ErrorRule
from airflow_provider_connect.polling.inflate import decoded
from airflow_provider_connect.polling.quota.limits import Quota
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.secrets import Secrets

MAX_BYTES = 256 << 20
"""The most that one answer may hold by default: it is in memory whole."""
TIMES = Limits(connect_timeout_seconds=10, read_timeout_seconds=120, deadline_seconds=600)

_PAUSES = doubling(1.0, 60.0)
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_JSON = {"Accept": "application/json"}
_WHOLE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//")


def now() -> dt.datetime:
    """Return the present instant; tests replace this clock."""
    return dt.datetime.now(dt.UTC)


class _LeaveAloneError(RetriableError):
    """The API wants no more requests for a while."""


class _Waits:
    """The system's clock, whose pauses end when the poll does."""

    def __init__(self, answers: OpenAnswers) -> None:
        self.sleep = answers.sleep

    def now(self) -> float:
        return CLOCK.now()


class Asker(Closable):
    """One poll's way to an API. Several threads may ask at once.

    :param to: the API: a connection of type ``http``, or what another kind of connection says.
    :param errors: what its answers mean; the first rule that fits counts, then the defaults.
    :param refusal: returns the error that an answer is, where rules cannot say it; None leaves the answer to them.
    :param limits: how often it may be asked.
    :param quota: what tasks reserve its requests of; by default what the limits say.
    :param share: by how many processes of the same job a limit for each second, or at once, is shared.
    :param max_bytes: the most that one answer may hold, inflated.
    :param times: how long each part of a request may take.
    :param patience_seconds: how long a call that may be repeated is asked again, waits included, before its error is
        raised.
    :param clock: what pauses are measured with; by default the system's, whose pauses end when the poll does.
    :raises ConfigError: naming everything that is wrong with the connection.
    """

    def __init__(
        self,
        to: Connection | Access,
        *,
        errors: Sequence[ErrorRule] = (),
        refusal: Callable[[Call, Heard], ConnectError | None] = lambda _, __: None,
        limits: RateLimits | None = None,
        quota: Quota | None = None,
        share: int = 1,
        max_bytes: int = MAX_BYTES,
        times: Limits = TIMES,
        patience_seconds: float = 300.0,
        clock: Clock | None = None,
    ) -> None:
        self._access = to if isinstance(to, Access) else Access.of(to)
        self._errors = errors
        self._refusal = refusal
        self._limits = limits or RateLimits()
        self._quota = quota or self._limits.quota(self._access.name)
        self._pace = pace_of(self._access.name, self._access.url, self._limits, share)
        self._max_bytes = max_bytes
        self._times = times
        self._patience_seconds = patience_seconds
        self._lock = threading.Lock()
        self._answers = OpenAnswers()
        self._pool = Pool()
        self._clock: Clock = clock or _Waits(self._answers)
        self._secrets = Secrets([*self._access.kept, *self._access.route.secrets])

    def ask(self, call: Call, tally: Tally) -> Reply:
        """Send a call and read its answer to the end.

        :param tally: counts bytes; and requests, if there is a quota of them.
        :raises RetriableError: there is no whole answer, or none for now; :class:`.QuotaError` if the limits are
            counted and used up.
        :raises ConfigError: the API refuses the call or the credentials, or leads to a host that the connection does
            not name.
        """
        if found := sorted(name for name in call.headers if name.lower() in RESERVED):
            raise ConfigError(f"the header {found[0]!r} is set by the client itself: leave it out of the declaration")
        url = self._address(self._access.url, call.url)
        patience = Patience(self._patience_seconds, _PAUSES, jitter=FROM_HALF, clock=self._clock)
        while True:
            try:
                return self._judged(call, self._answer(call, url, tally, patience))
            except RetriableError as error:
                self._answers.require()
                if not call.is_repeatable or not patience.again(error.retry_after_seconds):
                    raise self._given_up(error, patience) from None

    def close(self) -> None:
        """End what other threads still read or wait for, with an error."""
        self._answers.end()
        self._pool.close()

    # Where to

    def _address(self, here: str, url: str) -> str:
        """Return an address that may be asked.

        :param url: as it is called for or linked to: whole, or a path below the connection's base.
        :raises ConfigError: it is a host that the connection does not name.
        """
        if not _WHOLE.match(url):
            return f"{self._access.url}/{url.lstrip('/')}" if url else self._access.url
        try:
            whole = urljoin(here, url)
            origin = origin_of(whole)
        except ValueError:
            raise ConfigError(
                f"{self._host(here)} leads to something that is no address of a web server: report it to the service"
            ) from None
        own = self._access.origin
        if (origin, own) == (("http", own[1], 80), ("https", own[1], 443)):
            # Services behind a proxy that ends TLS often do not know that they are reached by https.
            return urlsplit(whole)._replace(scheme="https", netloc=urlsplit(self._access.url).netloc).geturl()
        if origin != own and origin not in self._access.also:
            raise ConfigError(
                f"{self._host(here)} leads to {self._shown(origin)}, which is not asked, as {self._who} does not name "
                "it: if it belongs to the service, name it there, as extra field allowed_hosts or as the host itself"
            )
        return whole

    @property
    def _who(self) -> str:
        return f"connection {self._access.name!r}"

    def _shown(self, origin: Origin) -> str:
        scheme, host, port = origin
        return excerpt(f"{scheme}://{host}:{port}", self._secrets)

    @staticmethod
    def _host(url: str) -> str:
        return urlsplit(url).netloc

    # One question

    def _answer(self, call: Call, url: str, tally: Tally, patience: Patience) -> Heard:
        """Return the answer to a call; a refusal of credentials that can be fetched anew is not one yet."""
        credentials = self._access.credentials
        auth = credentials.auth()
        got = self._followed(call, url, auth, tally, patience)
        if got.seen.status == 401 and origin_of(got.url) == self._access.origin:
            other = credentials.renewed(auth)
            if other is not None:
                return self._followed(call, url, other, tally, patience)
        return got

    def _followed(self, call: Call, url: str, auth: Auth, tally: Tally, patience: Patience) -> Heard:
        params = call.params
        for _ in range(_MOST_REDIRECTS + 1):
            self._wait_for_turn(patience)
            with self._pace.lane(self._clock, self._answers.require):
                got = self._sent(call, url, params, auth, tally)
            self._rest_if_told(got.seen)
            if not 300 <= got.seen.status < 400:
                return got
            moved = self._moved(call, url, got)
            if params and not urlsplit(moved).query:
                raise ConfigError(
                    f"{self._host(url)} redirects to an address without a query, which would ask for everything: "
                    "correct the declared path, perhaps by a slash at its end, or the connection's host"
                )
            url, params = moved, ()
        raise ConfigError(
            f"{self._host(url)} redirects more than {_MOST_REDIRECTS} times: correct the declared path or the "
            "connection's host"
        )

    def _moved(self, call: Call, url: str, got: Heard) -> str:
        """Return where a redirect leads to.

        :raises ConfigError: it leads nowhere, or what was sent must not be sent again elsewhere.
        """
        location = got.seen.headers.get("location", "")
        if got.seen.status not in _REDIRECTS or not location or call.method not in ("GET", "HEAD"):
            raise ConfigError(
                f"{self._host(url)} redirects a {call.method} (status {got.seen.status}), which is followed for GET "
                "only: correct the declared path or the connection's host"
            )
        try:
            return self._address(url, urljoin(url, location))
        except ValueError:
            raise ConfigError(f"{self._host(url)} redirects to something that is no address") from None

    def _sent(self, call: Call, url: str, params: Sequence[tuple[str, str]], auth: Auth, tally: Tally) -> Heard:
        url = without_key(url, auth)  # what is told of the answer's address must not hold it either
        is_own = origin_of(url) == self._access.origin
        # A header of the declaration's own may be a credential, too: another host gets none of them.
        headers = _JSON | dict(call.headers if is_own else ())
        secrets = self._secrets = Secrets([*auth.secrets, *self._access.kept, *self._access.route.secrets])
        with ExitStack() as stack:
            answer = self._access.route.request(
                url,
                auth if is_own else NO_AUTH,
                self._times,
                params=params,
                method=call.method,
                body=call.body,
                headers=headers | dict(self._access.headers if is_own else ()),
                takes_redirects=True,
                sent=self._counter(call, tally),
                pool=self._pool if call.is_repeatable else None,
                opened=lambda link: stack.enter_context(self._answers.reading(link)),
            )
            stack.enter_context(answer)
            if 200 <= answer.status < 300:
                body, is_cut = self._read(answer, tally), False
            elif answer.status < 400:  # a redirect may have no body at all, and not say so
                body, is_cut = b"", False
            else:
                said = answer.text()
                body, is_cut = said.text.encode(), said.is_cut
            return Heard(url, Seen(answer.status, answer.headers, body), is_cut, secrets)

    def _counter(self, call: Call, tally: Tally) -> Callable[[], None]:
        def count() -> None:
            if self._quota is not None:
                with self._lock:
                    tally.request()
            if call.sent is not None:
                call.sent()

        return count

    def _read(self, answer: Answer, tally: Tally) -> bytes:
        if answer.status in (204, 205):  # which have no body
            return b""
        data = bytearray()
        try:
            for piece in decoded(answer):
                data += piece
                if len(data) > self._max_bytes:
                    raise ConfigError(
                        f"{answer.host} sent an answer of more than {self._max_bytes:,} bytes: ask for smaller pages"
                    )
        finally:
            with self._lock:
                tally.wire_bytes += answer.wire_bytes
        with self._lock:
            tally.raw_bytes += len(data)
        return bytes(data)

    # When

    def _wait_for_turn(self, patience: Patience) -> None:
        """Wait until the limits allow a request.

        :raises RetriableError: that takes longer than there is patience.
        """
        self._answers.require()
        while (wait := self._pace.wait_seconds(self._clock.now())) > 0:
            if wait > max(patience.left_seconds, 0):
                # Only what the API said itself is told to other tasks: how thin this job spreads its part is no news.
                kind = _LeaveAloneError if self._pace.rests_seconds(self._clock.now()) > 0 else RetriableError
                host = self._host(self._access.url)
                raise kind(f"{host} has no requests left for {self._who} now", retry_after_seconds=wait)
            self._clock.sleep(wait)
            self._answers.require()

    def _rest_if_told(self, seen: Seen) -> None:
        """Send nothing for a while if an answer says that it was the last one for now."""
        limits = self._limits
        if limits.reset is not None and self._is_last(seen) and (wait := wait_seconds(limits.reset, seen, now())):
            self._pace.rest(self._clock.now() + wait)

    def _is_last(self, seen: Seen) -> bool:
        left = seen.headers.get((self._limits.remaining or "").lower(), "").strip()
        return bool(re.fullmatch(r"-?[0-9]{1,18}", left, flags=re.ASCII)) and int(left) <= 0

    def _given_up(self, error: RetriableError, patience: Patience) -> RetriableError:
        tried = f" (asked {patience.tries} times in {patience.spent_seconds:.0f} s)" if patience.tries > 1 else ""
        message, wait = f"{error}{tried}", error.retry_after_seconds
        quota = self._quota
        if patience.tries == 1 and not isinstance(error, _LeaveAloneError):
            return error  # nothing is to be added, and its type may say more
        if quota is None or wait is None or not isinstance(error, _LeaveAloneError):
            return RetriableError(message, retry_after_seconds=wait)
        # How many it has counted it does not say; that it wants to be left alone holds for all tasks.
        return QuotaError(message, said=(0, quota.requests, wait), retry_after_seconds=wait)

    # What it means

    def _judged(self, call: Call, got: Heard) -> Reply:
        seen = got.seen
        if (error := self._refusal(call, got)) is not None:
            raise error
        judgement = judge(seen, self._errors, now())
        if seen.status == 403 and judgement.then == "refuse" and not judgement.is_declared and self._is_last(seen):
            # So GitHub says that its limit is reached: nobody lacks a right.
            judgement = judgement._replace(then="wait", why="no requests are left")
        if judgement.then in ("retry", "wait", "refuse"):
            raise self._error(call, got, judgement)
        if judgement.then == "rows":
            self._require_rows(got)
            return Reply(got.url, seen.status, "rows", seen.headers, seen.body)
        return Reply(got.url, seen.status, "empty" if judgement.then == "empty" else "ignored", seen.headers)

    def _require_rows(self, got: Heard) -> None:
        host = self._host(got.url)
        is_html = got.seen.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/html"
        if is_html and got.seen.body.lstrip()[:1] == b"<":  # some label all they send like that
            raise RetriableError(
                f"{host} sent a web page with status {got.seen.status} in place of an answer; it may come from a proxy "
                "or a login"
            )
        if not got.seen.body:
            raise RetriableError(
                f"{host} sent an empty body with status {got.seen.status}, which says neither that there are rows nor "
                "that there are none"
            )

    def _error(self, call: Call, got: Heard, judgement: Judgement) -> ConnectError:
        seen, wait = got.seen, judgement.wait_seconds
        words = excerpt(judgement.said, got.secrets, is_cut=got.is_cut)
        about = f" ({call.about})" if call.about else ""
        why = f": {judgement.why}" if judgement.why else ""
        message = f"{self._host(got.url)}{about} answered {seen.status}{why}"
        message += f"; it said: {words!r}" if words else ""
        if judgement.then == "refuse":
            return ConfigError(message)
        if wait is None and seen.status in (403, 429) and self._limits.reset is not None:
            wait = wait_seconds(self._limits.reset, seen, now())
        if judgement.then != "wait" and seen.status != 429:
            return RetriableError(message, retry_after_seconds=wait)
        if wait is not None:
            self._pace.rest(self._clock.now() + wait)
        return _LeaveAloneError(message, retry_after_seconds=wait)
