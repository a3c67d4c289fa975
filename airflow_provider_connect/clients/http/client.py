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
import zlib
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from pydantic import SecretStr

from airflow_provider_connect import __version__
from airflow_provider_connect.clients.http.link import Limits, Link, proxy_credentials
from airflow_provider_connect.clients.http.message import Head, read_body, read_head
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.secrets import Secrets

ERROR_TEXT_BYTES = 8 << 10
"""The most that is read of an answer that is an error; what it can say fits, and an endless one is left."""
_ERROR_READ_BYTES = 1 << 10
_ERROR_SECONDS = 10.0
_CUT_ECHO_CHARACTERS = 2 << 10
_QUOTE_CHARACTERS = 300


class BasicAuth:
    """HTTP Basic with credentials in UTF-8."""

    def __init__(self, user: SecretStr, password: SecretStr) -> None:
        self._user = user.get_secret_value()
        self._password = password.get_secret_value()

    def __repr__(self) -> str:
        return "BasicAuth(***)"

    @property
    def header(self) -> str:
        """The value of the request's ``Authorization``."""
        return f"Basic {self._token}"

    @property
    def secrets(self) -> list[str]:
        """What an answer must not be quoted with: both halves, and the header's value."""
        # Without the padding, and as URLs write it: an echo may have either.
        token = self._token.rstrip("=")
        return [self._user, self._password, token, token.replace("+", "-").replace("/", "_")]

    @property
    def _token(self) -> str:
        return base64.b64encode(f"{self._user}:{self._password}".encode()).decode("ascii")


class ErrorText(NamedTuple):
    """What an answer that is an error says.

    :param is_cut: whether its end was not seen: it may then end inside a secret.
    """

    text: str
    is_cut: bool


class Answer:
    """An answer whose head has arrived. A context manager; leaving it closes the connection."""

    def __init__(self, link: Link, head: Head) -> None:
        self._link = link
        self._head = head
        self.host = link.host
        self.status = head.status

    def __enter__(self) -> Answer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._link.close()

    @property
    def wire_bytes(self) -> int:
        """How much of the body has come."""
        return self._link.received

    def header(self, name: str) -> str:
        """Return a header's value, '' when it is missing."""
        return ", ".join(self._head.all(name))

    def require_framing(self) -> None:
        """Make sure that a cut body will be seen.

        :raises RetriableError: if the body has neither a length nor chunks.
        """
        if self._head.framing is None:
            raise RetriableError(
                f"{self.host} sent a body with neither Content-Length nor chunks that say its length beyond doubt, so "
                "its end cannot be told from a cut; if a proxy stands between, it breaks the answer"
            )

    def chunks(self) -> Iterator[bytes]:
        """Yield the body as it came over the wire, still encoded.

        :raises RetriableError: if it ends early, stalls, or outlasts the deadline.
        """
        return self._body(None)

    def interrupt(self) -> None:
        """Make a read of the body that waits in another thread end at once, with an error."""
        self._link.cut()

    def text(self) -> ErrorText:
        """Return the beginning of the body, decoded as far as it can be: for error answers."""
        self._link.shorten(_ERROR_SECONDS)
        data, is_cut = b"", self._head.framing is None
        try:
            for piece in self._body(_ERROR_READ_BYTES):
                data += piece
                if len(data) >= ERROR_TEXT_BYTES:
                    is_cut = True  # as far as anybody looked
                    break
        except RetriableError:  # what the status says counts, not that its words broke off
            is_cut = True
        if self.header("Content-Encoding").strip().lower() == "gzip":
            data, is_whole = _gunzip_prefix(data)
            is_cut = is_cut or not is_whole
        shown = data[:ERROR_TEXT_BYTES].decode("utf-8", "replace")
        return ErrorText(shown, is_cut=is_cut or len(data) > ERROR_TEXT_BYTES)

    def _body(self, read_bytes: int | None) -> Iterator[bytes]:
        sizes = {} if read_bytes is None else {"read_bytes": read_bytes}
        pieces = read_body(self._link.stream, self._head.framing, **sizes)
        while True:
            self._link.check()
            with self._link.explained():
                piece = next(pieces, b"")
            if not piece:
                self._link.check()  # a body whose last bytes came too late is late
                return
            self._link.received += len(piece)
            yield piece


def get(
    url: str,
    params: Mapping[str, str],
    auth: BasicAuth,
    limits: Limits,
    *,
    proxy: SecretStr | None = None,
    ca_bundle: str | None = None,
    sent: Callable[[], None] | None = None,
) -> Answer:
    """Send a GET and return the answer as soon as its head is there, whatever its status.

    :param proxy: URL of the only proxy that is used.
    :param ca_bundle: authorities to trust beside the public ones: a path, or PEM text.
    :param sent: called when the request is on its way: from then on the server may count it.
    :raises RetriableError: if the server cannot be reached or does not answer.
    :raises ConfigError: if its certificate is not trusted, or it redirects: neither is followed.
    """
    link = Link(url, limits, proxy=proxy, ca_bundle=ca_bundle)
    try:
        query = f"?{urlencode(params)}" if params else ""
        link.send(f"{urlsplit(url).path or '/'}{query}", _headers(auth))
        if sent is not None:
            sent()
        with link.explained():
            head = read_head(link.stream)
        link.check()
        if 300 <= head.status < 400:
            raise _redirect(link.host, head, Secrets([*auth.secrets, *proxy_secrets(proxy)]))
    except BaseException:
        link.close()
        raise
    return Answer(link, head)


def _headers(auth: BasicAuth) -> dict[str, str]:
    return {
        "User-Agent": f"airflow-provider-connect/{__version__}",
        "Accept": "*/*",
        "Accept-Encoding": "gzip",
        "Authorization": auth.header,
    }


def _redirect(host: str, head: Head, secrets: Secrets) -> ConfigError:
    try:
        # Struck out before it is taken apart: its pieces may hold a piece of a secret each.
        location = secrets.struck_from(", ".join(head.all("Location")))
        target = urlsplit(location).netloc.rpartition("@")[2]
    except ValueError:
        target = ""
    return ConfigError(
        f"{host} redirects (status {head.status}) to {excerpt(target, secrets) or 'another path'}; redirects are "
        "not followed, as they could carry credentials elsewhere: name the right host in the connection"
    )


def proxy_secrets(proxy: SecretStr | None) -> list[str]:
    """Return what a proxy's URL holds that must not be shown."""
    return list(proxy_credentials(urlsplit(proxy.get_secret_value()))) if proxy is not None else []


def _gunzip_prefix(data: bytes) -> tuple[bytes, bool]:
    """Return what can be decoded, and whether that is all."""
    decoder = zlib.decompressobj(wbits=31)
    try:
        return decoder.decompress(data, ERROR_TEXT_BYTES + 1), decoder.eof
    except zlib.error:
        return b"", False


def excerpt(text: str, secrets: Secrets, *, is_cut: bool = False) -> str:
    """Return a server's words for a message: without secrets and control characters, on one short line.

    :param is_cut: whether more was to come, so that the text may end inside an echo of a secret.
    """
    text = text[:ERROR_TEXT_BYTES]  # an error in the midst of an answer may be as long as a record
    is_long = len(text) >= 2 * _CUT_ECHO_CHARACTERS
    shown = secrets.struck_from(text, is_cut=is_cut and not is_long)
    if is_long:  # there is enough without the end, which may hold half an echo
        shown = shown[:-_CUT_ECHO_CHARACTERS]
    clean = re.sub(r"\s+", " ", re.sub(r"[^\x20-\x7e]", " ", shown)).strip()
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
