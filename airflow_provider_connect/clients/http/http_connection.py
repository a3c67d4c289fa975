"""One connection to a server, directly or through a proxy, with a deadline."""

from __future__ import annotations

import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import SplitResult, urlsplit

import httpcore
from pydantic import BaseModel, ConfigDict

from airflow_provider_connect.clients.http.auth import proxy_auth
from airflow_provider_connect.clients.http.certificates import tls_context
from airflow_provider_connect.clients.http.message import BrokenAnswerError, Exchange, ResponseHead
from airflow_provider_connect.clients.http.network import Network
from airflow_provider_connect.clients.http.proxies import environment_bundles, proxy_for, uses_environment
from airflow_provider_connect.clients.http.route import HttpRoute
from airflow_provider_connect.errors import ConfigError, ConnectError, DeadlineError, RetriableError, SetupError

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,255}")
_NETWORK_ERRORS = (httpcore.NetworkError, httpcore.TimeoutException)  # each caused by a system error
_CLOSED_ERRORS = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError, BrokenAnswerError)


class SilenceError(RetriableError):
    """After a request, the server sent no byte of the body for ``read_timeout_seconds``."""


class HttpTimeouts(BaseModel):
    """Time limits of a request. ``deadline_seconds`` covers the whole answer, even while bytes arrive."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    read_timeout_seconds: float
    deadline_seconds: float
    connect_timeout_seconds: float = 10.0


class HttpConnection:
    """A connection to the host of a URL, opened by :meth:`send`. The creator closes it.

    :ivar pool_key: equal for connections to the same host over the same route.
    :ivar was_closed_by_server: True if the server had closed a reused connection before it answered.
    """

    def __init__(self, url: str, limits: HttpTimeouts, route: HttpRoute) -> None:
        self._parts = urlsplit(url)
        self._limits = limits
        used_proxy = proxy_for(url, route.proxy)
        self._proxy = urlsplit(used_proxy.get_secret_value()) if used_proxy is not None else None
        self._proxy_name = "the environment's proxy" if uses_environment(route.proxy) else "the connection's proxy"
        self._proxy_headers = proxy_auth(used_proxy).headers
        self._ca_bundles = route.ca_bundle, environment_bundles(route.proxy)
        self._address_policy = route.address_policy if used_proxy is None else None
        self.pool_key = route.pool_key(url)
        self.was_closed_by_server = False
        self._is_reused = self._is_interrupted = self._is_sent = False
        self._stream: httpcore.NetworkStream | None = None
        self._exchange: Exchange | None = None
        self.received_bytes = 0  # bytes of the answer's body, for messages
        self._lock = threading.Lock()
        self._handle: socket.socket | None = None  # duplicate handle of the socket: TLS detaches the first
        self._is_past_deadline = False
        self._phase = "connect"
        self._deadline = time.monotonic() + limits.deadline_seconds
        self._timer = self._start_timer(self._deadline)

    def close(self) -> None:
        """Close the connection."""
        self._stop_timer()
        with self._lock:
            for closable in (self._stream, self._handle):
                if closable is not None:
                    closable.close()
            self._exchange = self._stream = self._handle = None

    @property
    def host(self) -> str:
        """Name and port of the server, for messages."""
        return self._parts.netloc

    def send(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        """Send a request, connecting first.

        :raises RetriableError: the server is unreachable.
        :raises ConfigError: an invalid host name, or an untrusted certificate.
        """
        with self._translated_errors():
            self.seconds_left()
            host, port = _address(self._parts)
            host_header = _bracket_ipv6(host) if port == _PORTS[self._parts.scheme] else f"{_bracket_ipv6(host)}:{port}"
            if self._exchange is None:
                self._exchange = self._connect(host, port)
            headers = {"Host": host_header, **headers}
            if self._proxy is not None and self._parts.scheme == "http":
                target = f"http://{host_header}{target}"
                headers |= self._proxy_headers
            self._phase = "read"
            self._exchange.timeout_seconds = self._limits.read_timeout_seconds
            self._exchange.send(method, target, headers, body)
            self._is_sent = True

    def read_head(self) -> ResponseHead:
        """Read status and headers of the response.

        :raises SilenceError: nothing arrives in time.
        :raises RetriableError: incomplete headers.
        """
        assert self._exchange is not None
        with self._translated_errors():
            head = self._exchange.read_head()
        self.seconds_left()
        return head

    def read_body(self, read_bytes: int) -> Iterator[bytes]:
        """Yield the body in chunks as they arrive.

        :raises RetriableError: the body ends early, stalls, or exceeds the deadline.
        """
        assert self._exchange is not None
        self.seconds_left()
        with self._translated_errors():
            for chunk in self._exchange.read_body(read_bytes):
                self.received_bytes += len(chunk)
                yield chunk
                if self._is_past_deadline:
                    break
        self.seconds_left()  # a body is late if its last bytes are

    def make_idle(self) -> bool:
        """Stop the deadline after a complete response. Returns True if the connection can be reused."""
        self._stop_timer()
        is_tls_in_tls = self._proxy is not None and self._proxy.scheme == self._parts.scheme == "https"
        if self._exchange is None or self._is_past_deadline or self._is_interrupted or is_tls_in_tls:
            return False
        return self._exchange.start_next_cycle()

    def is_reusable(self) -> bool:
        """Return True if an idle connection is open, without unexpected data."""
        if self._stream is None or self._stream.get_extra_info("is_readable"):
            return False
        connected_socket = self._stream.get_extra_info("socket")
        return not (isinstance(connected_socket, ssl.SSLSocket) and connected_socket.pending())  # decrypted but unread

    def reuse(self, limits: HttpTimeouts) -> None:
        """Prepare an idle connection for a request with a new deadline."""
        self._limits = limits
        self.received_bytes = 0
        self._is_reused = True
        self._is_sent = False
        self._deadline = time.monotonic() + limits.deadline_seconds
        self._timer = self._start_timer(self._deadline)

    def shorten_deadline(self, seconds: float) -> None:
        """Move the deadline to at most ``seconds`` from now."""
        self._stop_timer()
        self._deadline = min(self._deadline, time.monotonic() + seconds)
        self._timer = self._start_timer(self._deadline)

    def interrupt(self) -> None:
        """End the connection now, or once it opens. Another thread's read then fails."""
        with self._lock:
            self._is_interrupted = True
            if self._handle is not None:
                try:
                    self._handle.shutdown(socket.SHUT_RDWR)
                except OSError:  # it has ended already
                    return

    def seconds_left(self) -> float:
        """Return the time until the deadline.

        :raises DeadlineError: the deadline has passed.
        :raises RetriableError: the connection was interrupted.
        """
        remaining_seconds = self._deadline - time.monotonic()
        if self._is_past_deadline or remaining_seconds <= 0:
            raise DeadlineError(
                f"{self.host} did not finish its answer within "
                f"request_deadline_seconds={self._limits.deadline_seconds:g}. {self.received_bytes} bytes were "
                "received"
            )
        if self._is_interrupted and self._exchange is None:
            raise RetriableError(f"{self.host}: the request was given up before it was sent")
        return remaining_seconds

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Convert the block's errors, without texts, which may quote secrets."""
        try:
            yield
        except (OSError, ValueError, BrokenAnswerError, *_NETWORK_ERRORS) as error:
            try:
                self.seconds_left()
            except RetriableError as deadline_error:
                raise deadline_error from None
            cause = error.__cause__ if isinstance(error, _NETWORK_ERRORS) else error
            is_silent = self._exchange is None or not self._exchange.has_received
            self.was_closed_by_server = (
                self._is_reused and is_silent and not self._is_interrupted and isinstance(cause, _CLOSED_ERRORS)
            )
            raise self._error_for(cause) from None

    def _error_for(self, error: BaseException | None) -> ConnectError:
        received_text = f" after {self.received_bytes} bytes of the answer" if self.received_bytes else ""
        subject = self.host if self._phase != "proxy" else f"{self.host} cannot be reached: {self._proxy_name}"
        if isinstance(error, ssl.SSLCertVerificationError):
            return ConfigError(f"{subject} {_UNTRUSTED_TEXT}")
        if isinstance(error, ValueError) and self._phase != "read":
            return ConfigError(f"{subject} is not a valid host")
        problem = _problem_of(error, self._phase, self._limits)
        if isinstance(error, TimeoutError) and self._is_sent and not self.received_bytes:
            return SilenceError(f"{self.host} {problem} before the first byte of the answer")
        if self._phase == "proxy":
            return RetriableError(f"{self.host} cannot be reached through {self._proxy_name}, which {problem}")
        if isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN:
            return SetupError(f"{self.host} {problem}. Check the host of the connection")
        return RetriableError(f"{self.host} {problem}{received_text}")

    def _start_timer(self, end: float) -> threading.Timer:
        timer = threading.Timer(min(max(end - time.monotonic(), 0), threading.TIMEOUT_MAX), self._end_at_deadline)
        timer.daemon = True
        timer.name = "http-deadline"
        timer.start()
        return timer

    def _stop_timer(self) -> None:
        self._timer.cancel()
        self._timer.join()

    def _end_at_deadline(self) -> None:
        self._is_past_deadline = True
        self.interrupt()

    def _connect(self, host: str, port: int) -> Exchange:
        network, timeout = (
            Network(self.seconds_left, self._keep_handle, self._address_policy),
            self._limits.connect_timeout_seconds,
        )
        hops = [(self._parts.scheme, host, port)]
        if self._proxy is not None:
            self._phase = "proxy"
            hops.insert(0, (self._proxy.scheme, *_address(self._proxy)))
        context = tls_context(*self._ca_bundles) if "https" in [scheme for scheme, _, _ in hops] else None
        stream = self._stream = network.connect_tcp(*hops[0][1:], timeout)
        for number, (scheme, name, _) in enumerate(hops):
            if number and scheme == "https":
                self._tunnel(Exchange(stream, timeout), f"{_bracket_ipv6(host)}:{port}")
                self._phase = "connect"
            if context is not None and scheme == "https":
                stream = self._stream = stream.start_tls(context, name, timeout)
        self._phase = "connect"
        return Exchange(stream, self._limits.read_timeout_seconds)

    def _keep_handle(self, connected_socket: socket.socket) -> None:
        with self._lock:
            self._handle = connected_socket.dup()
        self.seconds_left()

    def _tunnel(self, exchange: Exchange, target: str) -> None:
        exchange.send("CONNECT", target, {"Host": target, **self._proxy_headers}, b"")
        status = exchange.read_head().status
        if status in (401, 403, 407):
            raise ConfigError(
                f"{self.host} cannot be reached: {self._proxy_name} refuses with status {status}. Check user and "
                "password in its URL, and its permissions"
            )
        if not 200 <= status < 300:
            raise BrokenAnswerError(f"answered {status}")


_UNTRUSTED_TEXT = (
    "has a TLS certificate this machine does not trust (expired, other host, or an unknown authority). If a proxy "
    "inspects TLS here, or the authority is your own, set its certificate as ca_bundle in the connection"
)


def _problem_of(error: BaseException | None, phase: str, limits: HttpTimeouts) -> str:
    if isinstance(error, BrokenAnswerError):
        return str(error)
    limit = (
        f"sent nothing for read_timeout_seconds={limits.read_timeout_seconds:g}"
        if phase == "read"
        else f"did not accept a connection within connect_timeout_seconds={limits.connect_timeout_seconds:g}"
    )
    meanings: tuple[tuple[type[OSError], str], ...] = (
        (socket.gaierror, "is unknown to this machine's name service"),
        (TimeoutError, limit),
        (ssl.SSLError, "broke off TLS inside the answer" if phase == "read" else "broke the TLS handshake"),
        (ConnectionRefusedError, "does not accept connections"),
        (ConnectionError, "reset the connection"),
    )
    for kind, text in meanings:
        if isinstance(error, kind):
            return text
    number = error.errno if isinstance(error, OSError) else None
    return f"cannot be reached ({os.strerror(number) if number else type(error).__name__})"


def _address(parts: SplitResult) -> tuple[str, int]:
    name = (parts.hostname or "").encode("idna" if not (parts.hostname or "").isascii() else "ascii").decode("ascii")
    if not _HOST.fullmatch(name):
        raise ValueError
    return name, parts.port or _PORTS[parts.scheme]


def _bracket_ipv6(host: str) -> str:
    return f"[{host}]" if ":" in host else host
