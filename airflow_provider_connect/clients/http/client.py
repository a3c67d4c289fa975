"""HTTP: one request, whose answer is read raw, and errors that say what to do and hold no secret.

Nothing is tried again here. Redirects are not followed: whoever follows one asks again, and answers for where. Proxies
and authorities of the environment are used only where the connection says so, ``.netrc`` is never used.
A body must say where it ends, by its length or by chunks: one that ends with the connection could be cut unseen, and
is refused.
"""

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
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts, HttpConnection
from airflow_provider_connect.clients.http.message import READ_BYTES, UNFRAMED_TEXT, ResponseHead
from airflow_provider_connect.clients.http.pool import ConnectionPool
from airflow_provider_connect.clients.http.route import HttpRoute
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.secrets import Secrets

ERROR_TEXT_BYTES = 8 << 10
"""The most that is kept of an error's body: messages fit in, and an endless one ends."""
_ERROR_READ_BYTES = 1 << 10
_ERROR_SECONDS = 10.0
_CUT_ECHO_CHARACTERS = 2 << 10
_QUOTE_CHARACTERS = 300
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")


class Body(NamedTuple):
    """What a POST sends."""

    content_type: str
    data: bytes


def json_body(value: Any) -> Body:
    """Return a value as JSON."""
    return Body("application/json", json.dumps(value).encode())


def form_body(fields: Mapping[str, str]) -> Body:
    """Return the fields of a form, as in a URL."""
    return Body("application/x-www-form-urlencoded", urlencode(fields).encode())


class ErrorText(NamedTuple):
    """What an error's body says.

    :param is_cut: whether its end was not seen: then it may end inside a secret.
    """

    text: str
    is_cut: bool


class HttpResponse:
    """An answer whose head has arrived. A context manager; leaving it closes the connection, or keeps it."""

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
        """How many bytes of the body have come."""
        return self._link.received_bytes

    def header(self, name: str) -> str:
        """Return a header's value; '' if there is none."""
        return ", ".join(self._head.values_of(name))

    def header_values(self, name: str) -> list[str]:
        """Return every value of a header, in order."""
        return self._head.values_of(name)

    @property
    def headers(self) -> dict[str, str]:
        """Every header, with its name in small letters."""
        return {name: self.header(name) for name, _ in self._head.fields}

    def require_framing(self) -> None:
        """Make sure that a cut body will be seen.

        :raises RetriableError: if the body has neither a length nor chunks.
        """
        if not self._head.is_framed:
            raise RetriableError(f"{self.host} {UNFRAMED_TEXT}")

    def chunks(self) -> Iterator[bytes]:
        """Yield the body as it comes over the wire, still encoded.

        :raises RetriableError: it ends early, stalls, or takes longer than the deadline.
        """
        return self._body(READ_BYTES)

    def interrupt(self) -> None:
        """End at once, with an error, a read of the body that waits in another thread."""
        self._link.interrupt()

    def text(self) -> ErrorText:
        """Return the beginning of an error's body, decoded as far as possible."""
        self._link.shorten_deadline(_ERROR_SECONDS)
        data, is_cut = b"", not self._head.is_framed
        try:
            for chunk in self._body(_ERROR_READ_BYTES):
                data += chunk
                if len(data) >= ERROR_TEXT_BYTES:
                    is_cut = True  # whether or not there is more
                    break
        except RetriableError:  # the status is what counts, even if its explanation breaks off
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
    """Send a GET, or a POST if there is a body; return the answer as soon as its head is there, whatever its status.

    :param url: may have a query, as the link to a next page has.
    :param params: added to the query.
    :param method: another one than these two.
    :param headers: sent beside those of ``auth``, which win.
    :param takes_redirects: whether a redirect is an answer as any other, not an error.
    :param sent: called when the request is on its way: from then on the server may count it.
    :param pool: of connections that are kept. Only for a request that may be sent twice: if the server has closed the
        kept one, it is sent again over a new one.
    :param opened: called with what can be interrupted, before the request is sent.
    :raises RetriableError: the server cannot be reached or does not answer.
    :raises ConfigError: its certificate is not trusted, its address may not be spoken to, it redirects, or a header
        cannot be sent.
    """
    parts = urlsplit(strip_auth_params(url, auth))
    query = "&".join(part for part in (parts.query, urlencode(params), urlencode(auth.params)) if part)
    target = quote(f"{parts.path or '/'}{'?' if query else ''}{query}", safe=string.punctuation)
    method = method or ("GET" if body is None else "POST")
    all_headers = _headers(auth, headers or {}, body)
    if body is None and method not in ("GET", "HEAD", "DELETE"):  # many servers wait for one, or refuse (411)
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
    """Return an address without what credentials add to its query: some servers link to pages with the key in it."""
    auth_names = {name for name, _ in auth.params}
    parts = urlsplit(url)
    if not auth_names or not parts.query:
        return url
    other_params = (part for part in parts.query.split("&") if unquote_plus(part.partition("=")[0]) not in auth_names)
    return parts._replace(query="&".join(other_params)).geturl()


def _headers(auth: Auth, more_headers: Mapping[str, str], body: Body | None) -> dict[str, str]:
    headers = {
        "User-Agent": f"airflow-provider-connect/{__version__}",
        "Accept": "*/*",
        "Accept-Encoding": "gzip",
    }
    body_headers = {} if body is None else {"Content-Type": body.content_type, "Content-Length": str(len(body.data))}
    for group in (more_headers, auth.headers, body_headers):
        names = {name.lower() for name in group}
        headers = {name: value for name, value in headers.items() if name.lower() not in names} | dict(group)
    headers = {name: value.strip(" ") for name, value in headers.items()}
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ConfigError(
                f"the header {name[:50]!a} cannot be sent: names are letters, digits and hyphens, values are ASCII on "
                "one line; correct it, or the credential that it holds"
            )
    return headers


def _redirect(host: str, head: ResponseHead, secrets: Secrets) -> ConfigError:
    try:
        # Secrets are struck out before it is taken apart: each part could hold a part of one.
        location = secrets.redact(", ".join(head.values_of("Location")))
        target = urlsplit(location).netloc.rpartition("@")[2]
    except ValueError:
        target = ""
    return ConfigError(
        f"{host} redirects (status {head.status}) to {excerpt(target, secrets) or 'another path'}; redirects are "
        "not followed, as they could carry credentials elsewhere: name the right host in the connection"
    )


def _gunzip_prefix(data: bytes) -> tuple[bytes, bool]:
    """Return the beginning that can be decoded, and whether that is all."""
    decoder = zlib.decompressobj(wbits=31)
    try:
        return decoder.decompress(data, ERROR_TEXT_BYTES + 1), decoder.eof
    except zlib.error:
        return b"", False


def excerpt(text: str, secrets: Secrets, *, is_cut: bool = False) -> str:
    """Return a server's words for a message: one short line without secrets.

    :param is_cut: whether more was to come: then the text may end inside an echo of a secret.
    """
    text = text[:ERROR_TEXT_BYTES]  # an error in the middle of an answer may be as long as a record
    is_long = len(text) >= 2 * _CUT_ECHO_CHARACTERS
    struck = secrets.redact(text, is_cut=is_cut and not is_long)
    if is_long:  # its end may hold half an echo, and is not needed
        struck = struck[:-_CUT_ECHO_CHARACTERS]
    clean = re.sub(r"\s+", " ", re.sub(r"[^\x20-\x7e]", " ", struck)).strip()
    return clean if len(clean) <= _QUOTE_CHARACTERS else clean[: _QUOTE_CHARACTERS - 1] + "…"


def retry_after_seconds(value: str, now: dt.datetime, cap_seconds: float = 3600.0) -> float | None:
    """Read a ``Retry-After`` header: seconds, or an HTTP date.

    :param now: the moment from which a date is counted.
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
