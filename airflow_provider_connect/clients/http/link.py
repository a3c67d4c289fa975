"""One connection to a server, perhaps through a proxy, that ends at its deadline whatever either side is doing.

A socket's timeout starts anew with every byte. So a server that sends one every few seconds could hold its client for
ever: in the TLS handshake, in the status line, between chunks, in trailers. Here a timer shuts the socket at the
deadline, and whoever waits on it gets an error. The name service is asked in a thread of its own.
"""

from __future__ import annotations

import os
import queue
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from typing import Any
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict, SecretStr

from airflow_provider_connect.clients.http.addresses import Reach
from airflow_provider_connect.clients.http.auth import proxy_auth
from airflow_provider_connect.clients.http.certificates import client_context
from airflow_provider_connect.clients.http.message import BrokenAnswerError, Head, read_head
from airflow_provider_connect.errors import ConfigError, ConnectError, DeadlineError, RetriableError

_BUFFER_BYTES = 16 << 10  # for the head; a body is read past it, and of an error no more than this comes unasked
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,255}")
_ENDED = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError, BrokenAnswerError)


class SilenceError(RetriableError):
    """A server sent no byte of the body for ``read_timeout_seconds`` after a request had been sent to it."""


Place = tuple[object, ...]
"""Where a connection leads to, and in which way: two of the same place are the same to whoever uses them."""


class Limits(BaseModel):
    """How long each part of a request may take, in seconds.

    :param deadline_seconds: for the request and its whole answer, however steadily bytes trickle in.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    read_timeout_seconds: float
    deadline_seconds: float
    connect_timeout_seconds: float = 10.0


class Link:
    """A connection to the host of a URL. :meth:`send` opens it, if it is not open; whoever makes a link closes it.

    :ivar place: where it leads to.
    :ivar was_closed: whether a connection that was kept had been closed by the server before it answered at all.

    :param ca_bundle: authorities to trust beside the public ones.
    :param proxy: URL of the proxy to go through.
    :param reach: which addresses it may connect to. Behind a proxy that is the proxy's to say.
    """

    def __init__(
        self,
        url: str,
        limits: Limits,
        *,
        proxy: SecretStr | None,
        ca_bundle: str | None,
        reach: Reach | None = None,
    ) -> None:
        self._parts = urlsplit(url)
        self._limits = limits
        self._proxy = urlsplit(proxy.get_secret_value()) if proxy is not None else None
        self._proxy_headers = proxy_auth(proxy).headers
        self._ca_bundle = ca_bundle
        self._reach = reach if proxy is None else None
        self.place = place(url, proxy=proxy, ca_bundle=ca_bundle, reach=reach)
        self.was_closed = False
        self._is_kept = self._is_cut = False
        self._is_silent = True
        self._is_sent = False
        self._socket: Any = None  # TLS and proxies wrap it
        self._stream: BufferedReader | None = None
        self.received = 0  # bytes of the answer's body, for messages
        self._lock = threading.Lock()
        self._handle: socket.socket | None = None  # a second one on the connection: TLS takes the first away
        self._is_over = False
        self._doing = "connect"
        self._ends = time.monotonic() + limits.deadline_seconds
        self._timer = self._timer_until(self._ends)

    def close(self) -> None:
        """Close the connection; what was not read is thrown away."""
        self._stop_timer()
        with self._lock:
            for end in (self._stream, self._socket, self._handle):
                if end is not None:
                    end.close()
            self._stream = self._socket = self._handle = None

    @property
    def host(self) -> str:
        """The server as messages name it."""
        return self._parts.netloc

    def send(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        """Connect and send a request.

        :raises RetriableError: the server cannot be reached.
        :raises ConfigError: its name is not valid, or its certificate is not trusted.
        """
        with self.explained():
            self.check()
            host, port = _address(self._parts)
            own = _bracketed(host) if port == _PORTS[self._parts.scheme] else f"{_bracketed(host)}:{port}"
            if self._socket is None:
                self._connect(host, port)
            headers = {"Host": own, **headers}
            if self._proxy is not None and self._parts.scheme == "http":
                target = f"http://{own}{target}"
                headers |= self._proxy_headers
            self._doing = "read"
            self._socket.settimeout(self._limits.read_timeout_seconds)
            self._socket.sendall(_request(method, target, headers) + body)
            self._is_sent = True
            if self._stream is None:
                self._stream = self._socket.makefile("rb", buffering=_BUFFER_BYTES)

    def head(self) -> Head:
        """Return the head of the answer.

        :raises SilenceError: none comes in time.
        :raises RetriableError: the connection ends before it is whole.
        """
        with self.explained():
            if not self.stream.peek(1):
                raise BrokenAnswerError("closed the connection without an answer")
            self._is_silent = False
            head = read_head(self.stream)
        self.check()
        return head

    def rest(self) -> bool:
        """Let an answer's deadline go, after its end; return whether the connection may be kept."""
        self._stop_timer()
        return type(self._socket) in (socket.socket, ssl.SSLSocket) and not self._is_over and not self._is_cut

    def is_quiet(self) -> bool:
        """Tell whether a kept connection is open yet, and nothing has come that nobody has asked for."""
        try:
            self._socket.settimeout(0)
            return not self.stream.peek(1) and self.stream.raw.read(1) is None
        except (ssl.SSLWantReadError, BlockingIOError):
            return True
        except OSError:
            return False

    def reopen(self, limits: Limits) -> None:
        """Begin with another request."""
        self._limits = limits
        self.received = 0
        self._is_kept = self._is_silent = True
        self._is_sent = False
        self._ends = time.monotonic() + limits.deadline_seconds
        self._timer = self._timer_until(self._ends)

    @property
    def stream(self) -> BufferedReader:
        """What the server sends."""
        assert self._stream is not None
        return self._stream

    def shorten(self, seconds: float) -> None:
        """Let the connection end ``seconds`` from now at the latest."""
        self._stop_timer()
        self._ends = min(self._ends, time.monotonic() + seconds)
        self._timer = self._timer_until(self._ends)

    def interrupt(self) -> None:
        """End the connection now, or as soon as it is there; a read that waits in another thread gets an error."""
        with self._lock:
            self._is_cut = True
            if self._handle is not None:
                try:
                    self._handle.shutdown(socket.SHUT_RDWR)
                except OSError:  # it has ended already
                    return

    def check(self) -> None:
        """Look at the deadline; it counts even while nobody reads.

        :raises DeadlineError: it has passed.
        :raises RetriableError: it was interrupted before it was open.
        """
        if self._is_over or time.monotonic() > self._ends:
            raise self._late()
        if self._is_cut and self._stream is None:
            raise RetriableError(f"{self.host} was not asked: the request was given up")

    def _late(self) -> DeadlineError:
        return DeadlineError(
            f"{self.host} had not finished its answer after request_deadline_seconds="
            f"{self._limits.deadline_seconds:g}; {self.received} bytes had come"
        )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn the errors of a block, which may quote anything, into ours."""
        try:
            yield
        except (OSError, ValueError, BrokenAnswerError) as error:
            try:
                self.check()
            except RetriableError as late:
                raise late from None
            self.was_closed = self._is_kept and self._is_silent and not self._is_cut and isinstance(error, _ENDED)
            raise self._trouble(error) from None

    def _trouble(self, error: OSError | ValueError | BrokenAnswerError) -> ConnectError:
        """Return our error for one of the system's, of TLS or of the message."""
        seen = f" after {self.received} bytes of the answer" if self.received else ""
        whose = self.host if self._doing != "proxy" else f"{self.host} cannot be asked: the connection's proxy"
        if isinstance(error, ssl.SSLCertVerificationError):
            return ConfigError(f"{whose} {_UNTRUSTED}")
        if isinstance(error, ValueError) and self._doing != "read":
            return ConfigError(f"{whose} is no valid host")
        what = _meaning(error, self._doing, self._limits)
        if isinstance(error, TimeoutError) and self._is_sent and not self.received:
            return SilenceError(f"{self.host} {what} before the first byte of the answer")
        if self._doing == "proxy":
            return RetriableError(f"{self.host} cannot be reached through the connection's proxy, which {what}")
        return RetriableError(f"{self.host} {what}{seen}")

    def _timer_until(self, end: float) -> threading.Timer:
        timer = threading.Timer(min(max(end - time.monotonic(), 0), threading.TIMEOUT_MAX), self._end)
        timer.daemon = True
        timer.name = "http-deadline"
        timer.start()
        return timer

    def _stop_timer(self) -> None:
        self._timer.cancel()
        self._timer.join()

    def _end(self) -> None:
        self._is_over = True
        self.interrupt()

    def _connect(self, host: str, port: int) -> None:
        schemes = [url.scheme for url in (self._parts, self._proxy) if url is not None]
        context = client_context(self._ca_bundle) if "https" in schemes else None
        if self._proxy is None:
            self._dial(host, port)
        else:
            self._doing = "proxy"
            proxy_host, proxy_port = _address(self._proxy)
            self._dial(proxy_host, proxy_port)
            if context is not None and self._proxy.scheme == "https":
                self._socket = context.wrap_socket(self._socket, server_hostname=proxy_host)
            if self._parts.scheme == "https":
                self._tunnel(f"{_bracketed(host)}:{port}")
        self._doing = "connect"
        if context is not None and self._parts.scheme == "https":
            self._socket = _over_tls(self._socket, context, host)

    def _dial(self, host: str, port: int) -> None:
        refused: OSError | None = None
        found = self._resolved(host, port)
        if self._reach is not None:  # what is checked here is what is connected to: nobody asks for the name again
            found = self._reach.permitted(host, found)
        for family, kind, protocol, _, address in found:
            self.check()
            self._socket = socket.socket(family, kind, protocol)
            left = self._ends - time.monotonic()
            self._socket.settimeout(max(min(self._limits.connect_timeout_seconds, left), 0.001))
            try:
                self._socket.connect(address)
            except OSError as error:
                self._socket.close()
                refused = error
                continue
            self._socket.settimeout(self._limits.connect_timeout_seconds)
            with self._lock:
                self._handle = self._socket.dup()
            self.check()
            return
        raise refused or OSError("no address")

    def _resolved(self, host: str, port: int) -> list[Any]:
        """Ask the name service, in a thread: a question without an answer cannot be ended in any other way.

        :raises RetriableError: there is no answer before the deadline.
        """
        answers: queue.SimpleQueue[list[Any] | OSError | ValueError] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put(list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
            except (OSError, ValueError) as error:
                answers.put(error)

        threading.Thread(target=ask, name="http-resolve", daemon=True).start()
        try:
            answer = answers.get(timeout=min(max(self._ends - time.monotonic(), 0), threading.TIMEOUT_MAX))
        except queue.Empty:
            raise self._late() from None
        if isinstance(answer, (OSError, ValueError)):
            raise answer
        return answer

    def _tunnel(self, target: str) -> None:
        self._socket.sendall(_request("CONNECT", target, {"Host": target, **self._proxy_headers}))
        # Unbuffered: what follows the proxy's answer is part of the TLS handshake.
        with self._socket.makefile("rb", buffering=0) as raw:
            status = read_head(BufferedReader(raw, 1)).status
        if status in (401, 403, 407):
            raise ConfigError(
                f"{self.host} cannot be reached: the connection's proxy refuses with status {status}; look at user and "
                "password in its URL, and at what it allows"
            )
        if not 200 <= status < 300:
            raise BrokenAnswerError(f"answered {status}")


def place(url: str, *, proxy: SecretStr | None, ca_bundle: str | None, reach: Reach | None) -> Place:
    """Return where a connection for a URL leads to, and in which way."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc, proxy, ca_bundle, id(reach)


_UNTRUSTED = (
    "has a TLS certificate this machine does not trust (expired, other host, or an unknown authority); if a proxy "
    "inspects TLS here, or the authority is your own, name its certificate as ca_bundle in the connection"
)


def _meaning(error: OSError | ValueError | BrokenAnswerError, doing: str, limits: Limits) -> str:
    """Say in our own words what an error means."""
    if isinstance(error, BrokenAnswerError):
        return str(error)
    limit = (
        f"sent nothing for read_timeout_seconds={limits.read_timeout_seconds:g}"
        if doing == "read"
        else f"did not accept a connection within connect_timeout_seconds={limits.connect_timeout_seconds:g}"
    )
    known: tuple[tuple[type[OSError], str], ...] = (
        (socket.gaierror, "is not known to this machine's name service"),
        (TimeoutError, limit),
        (ssl.SSLError, "broke off TLS inside the answer" if doing == "read" else "broke the TLS handshake"),
        (ConnectionRefusedError, "does not accept connections"),
        (ConnectionError, "reset the connection"),
    )
    for kind, text in known:
        if isinstance(error, kind):
            return text
    number = error.errno if isinstance(error, OSError) else None
    return f"cannot be reached ({os.strerror(number) if number else type(error).__name__})"


def _address(parts: SplitResult) -> tuple[str, int]:
    """Return host and port of a URL, the host in ASCII.

    :raises ValueError: it has none that one can connect to.
    """
    name = (parts.hostname or "").encode("idna" if not (parts.hostname or "").isascii() else "ascii").decode("ascii")
    if not _HOST.fullmatch(name):
        raise ValueError
    return name, parts.port or _PORTS[parts.scheme]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _over_tls(below: socket.socket, context: ssl.SSLContext, host: str) -> Any:
    if isinstance(below, ssl.SSLSocket):  # to a proxy: Python's own sockets cannot carry TLS in TLS
        from urllib3.util.ssltransport import SSLTransport  # noqa: PLC0415  # rarely needed

        return SSLTransport(below, context, server_hostname=host)
    return context.wrap_socket(below, server_hostname=host)


def _request(method: str, target: str, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("ascii")
