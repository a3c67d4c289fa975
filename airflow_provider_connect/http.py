"""HTTP for sources: one GET whose body is read raw, and errors that say what to do and hold no secret.

Nothing is retried here: the stage polls the whole partition again. Environment proxies, ``.netrc`` and
redirects do nothing. A body must say where it ends, by its length or by chunks: one that ends with the
connection could be cut unseen, and is refused.
"""

from __future__ import annotations

import base64
import datetime as dt
import email.utils
import re
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

import requests
import urllib3
from pydantic import BaseModel, ConfigDict, SecretStr
from requests.auth import AuthBase

from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError

READ_BYTES = 256 << 10
ERROR_TEXT_BYTES = 16 << 10
_QUOTE_CHARACTERS = 300


class Limits(BaseModel):
    """How long each part of a request may take, in seconds.

    :param deadline_seconds: for the request and its whole body, however steadily bytes trickle in.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    connect_timeout_seconds: float
    read_timeout_seconds: float
    deadline_seconds: float


class BasicAuth(AuthBase):
    """HTTP Basic with credentials in UTF-8; ``requests`` itself knows Latin-1 alone."""

    def __init__(self, user: SecretStr, password: SecretStr) -> None:
        self._user = user
        self._password = password

    @property
    def _token(self) -> str:
        pair = f"{self._user.get_secret_value()}:{self._password.get_secret_value()}"
        return base64.b64encode(pair.encode()).decode("ascii")

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Put the header on a request."""
        request.headers["Authorization"] = f"Basic {self._token}"
        return request

    def scrub(self, text: str) -> str:
        """Return ``text`` without the credentials, in any of the forms a server may echo."""
        plain = [secret.get_secret_value() for secret in (self._user, self._password)]
        forms = {form for value in plain if value for form in (value, quote(value, safe=""), quote_plus(value))}
        for form in sorted(forms | {self._token}, key=len, reverse=True):
            text = text.replace(form, "***")
        return text


class Answer:
    """An answer whose head has arrived. A context manager; leaving it closes the connection."""

    def __init__(
        self, response: requests.Response, session: requests.Session, host: str, limits: Limits, deadline: float
    ) -> None:
        self._response = response
        self._session = session
        self._limits = limits
        self._deadline = deadline
        self.host = host
        self.status = response.status_code
        self.wire_bytes = 0

    def __enter__(self) -> Answer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._response.close()
        self._session.close()

    def header(self, name: str) -> str:
        """Return a header's value, '' when it is missing."""
        return str(self._response.headers.get(name, ""))

    def require_framing(self) -> None:
        """Make sure that a cut body will be seen.

        :raises RetriableError: if the body has neither a length nor chunks.
        """
        chunked = "chunked" in self.header("Transfer-Encoding").lower()
        if not chunked and not self.header("Content-Length").strip().isdigit():
            raise RetriableError(
                f"{self.host} sent a body with neither Content-Length nor chunks, whose end cannot be told from a "
                "cut; if a proxy stands between, it breaks the answer"
            )

    def chunks(self) -> Iterator[bytes]:
        """Yield the body as it came over the wire, still encoded.

        :raises RetriableError: if it ends early, stalls, or outlasts the deadline.
        """
        raw = self._response.raw
        while True:
            self._check_deadline()
            # read1 returns what one receive brought: a plain read would wait for all of READ_BYTES, and the
            # deadline could not be looked at.
            with _transport_errors(self.host, self.wire_bytes):
                chunk = raw.read1(READ_BYTES, decode_content=False)
            if not chunk:
                return
            self.wire_bytes += len(chunk)
            yield chunk

    def interrupt(self) -> None:
        """Make a read of the body that waits in another thread end at once, with an error."""
        with suppress(OSError, RuntimeError, ValueError):  # it has ended already
            self._response.raw.shutdown()

    def text(self) -> str:
        """Return the beginning of the body, decoded as far as it can be: for error answers."""
        parts: list[bytes] = []
        with suppress(RetriableError, StopIteration):
            body = self.chunks()
            while sum(map(len, parts)) < ERROR_TEXT_BYTES:
                parts.append(next(body))
        data = b"".join(parts)
        if self.header("Content-Encoding").strip().lower() == "gzip":
            data = _gunzip_prefix(data)
        return data[:ERROR_TEXT_BYTES].decode("utf-8", "replace")

    def _check_deadline(self) -> None:
        if time.monotonic() > self._deadline:
            raise RetriableError(
                f"{self.host} had not finished its answer after request_deadline_seconds="
                f"{self._limits.deadline_seconds:g}; {self.wire_bytes} bytes had come"
            )


def get(
    url: str,
    params: Mapping[str, str],
    auth: BasicAuth,
    limits: Limits,
    *,
    proxy: SecretStr | None = None,
) -> Answer:
    """Send a GET and return the answer as soon as its head is there, whatever its status.

    :param proxy: URL of the only proxy that is used.
    :raises RetriableError: if the server cannot be reached or does not answer.
    :raises ConfigError: if its certificate is not trusted, or it redirects: neither is followed.
    """
    host = urlsplit(url).netloc
    session = requests.Session()
    session.trust_env = False
    if proxy is not None:
        session.proxies = {"http": proxy.get_secret_value(), "https": proxy.get_secret_value()}
    deadline = time.monotonic() + limits.deadline_seconds
    try:
        with _transport_errors(host, 0):
            response = session.get(
                url,
                params=dict(params),
                auth=auth,
                headers={"Accept-Encoding": "gzip"},
                timeout=(limits.connect_timeout_seconds, limits.read_timeout_seconds),
                allow_redirects=False,
                stream=True,
            )
    except ConnectError:
        session.close()
        raise
    answer = Answer(response, session, host, limits, deadline)
    if 300 <= answer.status < 400:
        target = urlsplit(answer.header("Location")).hostname
        with answer:
            raise ConfigError(
                f"{host} redirects (status {answer.status}) to {target or 'another path'}; redirects are not followed, "
                "as they could carry credentials elsewhere: name the right host in the connection"
            )
    return answer


class _transport_errors:  # noqa: N801  # reads as the statement it is
    """Turns the errors of requests and urllib3, which quote URLs with their query, into ours."""

    def __init__(self, host: str, wire_bytes: int) -> None:
        self._host = host
        self._seen = f" after {wire_bytes} bytes of the answer" if wire_bytes else ""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or not isinstance(
            error, (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError)
        ):
            return
        raise self._described(_causes(error)) from None

    def _described(self, names: list[str]) -> ConnectError:
        known = next((text for name, text in _TRANSPORT.items() if name in names), f"failed ({names[-1]})")
        message = f"{self._host} {known}{self._seen}"
        if "SSLCertVerificationError" in names:
            return ConfigError(message)
        if "InvalidURL" in names or "LocationParseError" in names or "InvalidProxyURL" in names:
            return ConfigError(message)
        return RetriableError(message)


_TRANSPORT = {
    "SSLCertVerificationError": "has a TLS certificate this machine does not trust (expired, other host, or an "
    "unknown authority)",
    "InvalidProxyURL": "cannot be asked: the connection's proxy is no URL",
    "InvalidURL": "is no valid host",
    "LocationParseError": "is no valid host",
    "NameResolutionError": "is not known to this machine's name service",
    "ProxyError": "cannot be reached through the connection's proxy",
    "SSLError": "broke the TLS handshake",
    "ConnectTimeoutError": "did not accept a connection within connect_timeout_seconds",
    "ReadTimeoutError": "sent nothing for read_timeout_seconds",
    "ReadTimeout": "sent nothing for read_timeout_seconds",
    "TimeoutError": "sent nothing for read_timeout_seconds",
    "IncompleteRead": "closed the connection before the end it had announced",
    "InvalidChunkLength": "closed the connection inside a chunk, or sent chunks that are none",
    "ConnectionResetError": "reset the connection",
    "NewConnectionError": "does not accept connections",
    "RemoteDisconnected": "closed the connection without an answer",
    "ProtocolError": "broke off the answer",
}
"""What a class of error among the causes means; the first that applies is said."""


def _causes(error: BaseException | None) -> list[str]:
    """Return the class names of an error, of what it wraps, and of its causes."""
    names: list[str] = []
    queue: list[Any] = [error]
    while queue and len(names) < 30:
        one = queue.pop(0)
        if isinstance(one, BaseException):
            names.append(type(one).__name__)
            queue += [getattr(one, "reason", None), one.__cause__, one.__context__, *one.args]
    return names


def _gunzip_prefix(data: bytes) -> bytes:
    with suppress(zlib.error):
        return zlib.decompressobj(wbits=31).decompress(data, ERROR_TEXT_BYTES)
    return b""


def excerpt(text: str, auth: BasicAuth) -> str:
    """Return a server's words for a message: without credentials and control characters, on one short line."""
    clean = re.sub(r"\s+", " ", re.sub(r"[^\x20-\x7e]", " ", auth.scrub(text))).strip()
    return clean if len(clean) <= _QUOTE_CHARACTERS else clean[: _QUOTE_CHARACTERS - 1] + "…"


def retry_after_seconds(value: str, now: dt.datetime, cap_seconds: float = 3600.0) -> float | None:
    """Read a ``Retry-After`` header: seconds, or an HTTP date.

    :param now: what a date is counted from.
    :return: between 0 (a date in the past) and ``cap_seconds``; None if the header is missing or malformed.
    """
    value = value.strip()
    if re.fullmatch(r"\d{1,20}(\.\d{1,9})?", value, flags=re.ASCII):
        return min(float(value), cap_seconds)
    try:
        date = email.utils.parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=dt.UTC)
    return min(max((date - now).total_seconds(), 0.0), cap_seconds)
