"""Sends one HTTP request and returns the raw response."""

from __future__ import annotations

import datetime as dt
import email.utils
import json
import re
import string
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_plus, urlencode, urlsplit

from airflow_provider_connect import __version__
from airflow_provider_connect.clients.http.auth import Auth
from airflow_provider_connect.clients.http.http_connection import HttpConnection, HttpTimeouts
from airflow_provider_connect.clients.http.message import READ_BYTES, UNFRAMED_TEXT, ResponseHead
from airflow_provider_connect.clients.http.pool import ConnectionPool
from airflow_provider_connect.clients.http.route import HttpRoute
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.secrets import Secrets

ERROR_TEXT_BYTES = 8 << 10
"""Most bytes to read of an error's body."""
_ERROR_READ_BYTES = 1 << 10
_ERROR_SECONDS = 10.0
_CUT_ECHO_CHARACTERS = 2 << 10
_QUOTE_CHARACTERS = 300
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")


class Body(NamedTuple):
    """Body of a POST."""

    content_type: str
    data: bytes


def json_body(value: Any) -> Body:
    """Encode a value as JSON."""
    return Body("application/json", json.dumps(value).encode())


def form_body(fields: Mapping[str, str]) -> Body:
    """Encode form fields for a URL-encoded body."""
    return Body("application/x-www-form-urlencoded", urlencode(fields).encode())


class ErrorText(NamedTuple):
    """Beginning of an error's body.

    :param is_cut: True if the text may end inside a secret.
    """

    text: str
    is_cut: bool


class HttpResponse:
    """Response with an unread body. Its ``with`` block closes the connection or returns it to the pool."""

    def __init__(self, link: HttpConnection, head: ResponseHead, pool: ConnectionPool | None) -> None:
        self._link = link
        self._head = head
        self._pool = pool
        self._is_whole = False
        self.host = link.host
        self.status = head.status

    def __enter__(self) -> HttpResponse:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._pool is not None and self._is_whole and self._head.is_framed:
            self._pool.give_back(self._link)
        else:
            self._link.close()

    @property
    def wire_bytes(self) -> int:
        """Bytes of the body received so far."""
        return self._link.received_bytes

    def header(self, name: str) -> str:
        """Return a header's value, or "". A comma joins repeated headers."""
        return ", ".join(self._head.values_of(name))

    def header_values(self, name: str) -> list[str]:
        """Return every value of a header, in order."""
        return self._head.values_of(name)

    @property
    def headers(self) -> dict[str, str]:
        """All headers, by lower-case name."""
        return {name: self.header(name) for name, _ in self._head.fields}

    def require_framing(self) -> None:
        """Raise RetriableError for a body without length or chunks: a cut would go unnoticed."""
        if not self._head.is_framed:
            raise RetriableError(f"{self.host} {UNFRAMED_TEXT}")

    def chunks(self) -> Iterator[bytes]:
        """Yield the body as received, not decompressed. Errors as :meth:`.HttpConnection.read_body`."""
        return self._body(READ_BYTES)

    def interrupt(self) -> None:
        """Make another thread's read of the body fail now."""
        self._link.interrupt()

    def text(self) -> ErrorText:
        """Return the beginning of an error's body, even of an incomplete one."""
        self._link.shorten_deadline(_ERROR_SECONDS)
        data, is_cut = b"", not self._head.is_framed
        try:
            for chunk in self._body(_ERROR_READ_BYTES):
                data += chunk
                if len(data) >= ERROR_TEXT_BYTES:
                    is_cut = True  # even if nothing follows
                    break
        except RetriableError:  # the status counts, even if its explanation is cut
            is_cut = True
        if self.header("Content-Encoding").strip().lower() == "gzip":
            data, is_whole = _gunzip_prefix(data)
            is_cut = is_cut or not is_whole
        text = data[:ERROR_TEXT_BYTES].decode("utf-8", "replace")
        return ErrorText(text, is_cut=is_cut or len(data) > ERROR_TEXT_BYTES)

    def _body(self, read_bytes: int) -> Iterator[bytes]:
        yield from self._link.read_body(read_bytes)
        self._is_whole = True


def request(
    route: HttpRoute,
    url: str,
    auth: Auth,
    limits: HttpTimeouts,
    *,
    params: Sequence[tuple[str, str]] = (),
    method: str | None = None,
    body: Body | None = None,
    headers: Mapping[str, str] | None = None,
    takes_redirects: bool = False,
    on_sent: Callable[[], None] | None = None,
    pool: ConnectionPool | None = None,
    on_opened: Callable[[HttpConnection], object] | None = None,
) -> HttpResponse:
    """Send a GET, or a POST with a body. Returns once the headers have arrived.

    :param params: added to the URL's query.
    :param method: replaces GET or POST.
    :param headers: ``auth`` takes precedence.
    :param takes_redirects: return a redirect instead of raising ConfigError.
    :param on_sent: called once the request is sent.
    :param pool: idle connections, only for requests that may be sent twice. If the server has closed one, the
        request is repeated over a new one.
    :param on_opened: called before the request.
    :raises RetriableError: the server is unreachable or does not answer.
    :raises ConfigError: an untrusted certificate, a forbidden address, a redirect, or an invalid header.
    """
    parts = urlsplit(strip_auth_params(url, auth))
    query = "&".join(part for part in (parts.query, urlencode(params), urlencode(auth.params)) if part)
    target = quote(f"{parts.path or '/'}{'?' if query else ''}{query}", safe=string.punctuation)
    method = method or ("GET" if body is None else "POST")
    all_headers = _headers(auth, headers or {}, body)
    if body is None and method not in ("GET", "HEAD", "DELETE"):  # many servers require it (411)
        all_headers["Content-Length"] = "0"
    idle_connection = None if pool is None else pool.take(route.pool_key(url))
    while True:
        if idle_connection is not None:
            idle_connection.reuse(limits)
        connection = idle_connection or HttpConnection(url, limits, route)
        try:
            if on_opened is not None:
                on_opened(connection)
            connection.send(method, target, all_headers, b"" if body is None else body.data)
            if on_sent is not None:
                on_sent()
            head = connection.read_head()
            if 300 <= head.status < 400 and not takes_redirects:
                raise _redirect(connection.host, head, Secrets([*auth.secrets, *route.secrets]))
        except BaseException as error:
            connection.close()
            if isinstance(error, RetriableError) and connection.was_closed_by_server:
                idle_connection = None
                continue
            raise
        return HttpResponse(connection, head, pool)


def strip_auth_params(url: str, auth: Auth) -> str:
    """Remove credentials from a URL's query."""
    auth_names = {name for name, _ in auth.params}
    parts = urlsplit(url)
    if not auth_names or not parts.query:
        return url
    other_params = (part for part in parts.query.split("&") if unquote_plus(part.partition("=")[0]) not in auth_names)
    return parts._replace(query="&".join(other_params)).geturl()


def merge_headers(*groups: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of all groups. Later groups replace headers of the same name, in any case."""
    merged: dict[str, str] = {}
    for group in groups:
        names = {name.lower() for name in group}
        merged = {name: value for name, value in merged.items() if name.lower() not in names} | dict(group)
    return merged


def _headers(auth: Auth, more_headers: Mapping[str, str], body: Body | None) -> dict[str, str]:
    headers = {
        "User-Agent": f"airflow-provider-connect/{__version__}",
        "Accept": "*/*",
        "Accept-Encoding": "gzip",
    }
    body_headers = {} if body is None else {"Content-Type": body.content_type, "Content-Length": str(len(body.data))}
    merged_headers = merge_headers(headers, more_headers, auth.headers, body_headers)
    headers = {name: value.strip(" ") for name, value in merged_headers.items()}
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ConfigError(
                f"the header {name[:50]!a} cannot be sent. Names are letters, digits and hyphens, values are ASCII on "
                "one line. Correct it, or its credential"
            )
    return headers


def _redirect(host: str, head: ResponseHead, secrets: Secrets) -> ConfigError:
    try:
        # Secrets are struck out before the split, because each part could contain a part of one.
        location = secrets.redact(", ".join(head.values_of("Location")))
        target = urlsplit(location).netloc.rpartition("@")[2]
    except ValueError:
        target = ""
    return ConfigError(
        f"{host} redirects (status {head.status}) to {excerpt(target, secrets) or 'another path'}. Redirects are not "
        "followed, because they could leak credentials. Set the right host in the connection"
    )


def _gunzip_prefix(data: bytes) -> tuple[bytes, bool]:
    decoder = zlib.decompressobj(wbits=31)
    try:
        return decoder.decompress(data, ERROR_TEXT_BYTES + 1), decoder.eof
    except zlib.error:
        return b"", False


def excerpt(text: str, secrets: Secrets, *, is_cut: bool = False) -> str:
    """Return a server's text for a message: short, on one line, without secrets.

    :param is_cut: True if the text may end inside a secret.
    """
    text = text[:ERROR_TEXT_BYTES]  # an error inside a page may be as long as a record
    is_long = len(text) >= 2 * _CUT_ECHO_CHARACTERS
    redacted_text = secrets.redact(text, is_cut=is_cut and not is_long)
    if is_long:  # the end may contain half an echo
        redacted_text = redacted_text[:-_CUT_ECHO_CHARACTERS]
    one_line = re.sub(r"\s+", " ", re.sub(r"[^\x20-\x7e]", " ", redacted_text)).strip()
    return one_line if len(one_line) <= _QUOTE_CHARACTERS else one_line[: _QUOTE_CHARACTERS - 1] + "…"


def retry_after_seconds(value: str, current_time: dt.datetime, cap_seconds: float = 3600.0) -> float | None:
    """Parse a ``Retry-After`` header: seconds, or an HTTP date, compared with ``current_time``.

    :return: 0 (a past date) to ``cap_seconds``, or None if malformed.
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
    return min(max((date - current_time).total_seconds(), 0.0), cap_seconds)
