"""Addresses of BigQuery's two services, with sessions and channels that ignore the environment.

``rest_endpoint`` (``https://host[:port]``) and ``grpc_endpoint`` (``host[:port]``) replace
``bigquery.<universe_domain>`` and ``bigquerystorage.<universe_domain>``. The prefix ``http://`` turns TLS off, only for
loopback addresses with ``is_anonymous``.

Vendor facts: https://cloud.google.com/vpc/docs/configure-private-service-connect-apis (2026-11).
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

if TYPE_CHECKING:
    from airflow_provider_connect.connection import Connection

DEFAULT_UNIVERSE = "googleapis.com"
_PREFIX = "extra__google_cloud_platform__"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HOST = r"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+)(?::\d{1,5})?"
_REST = re.compile(rf"(?P<scheme>https?)://{_HOST}/?")
_GRPC = re.compile(rf"(?:(?P<scheme>https?)://)?{_HOST}/?")
_UNIVERSE = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+")


def extra_field(connection: Connection, name: str) -> Any:
    """Return a field of the connection's extra, under its short or older long name, or None."""
    value = connection.extra.get(name, connection.extra.get(_PREFIX + name))
    return None if value == "" else value


def is_anonymous(connection: Connection) -> bool:
    """Return True if requests carry no credentials."""
    return str(extra_field(connection, "is_anonymous") or "").strip().lower() in ("true", "1")


@dataclass(frozen=True)
class Endpoints:
    """Addresses of the two services."""

    rest: str
    grpc: str
    grpc_tls: bool
    universe: str

    @classmethod
    def from_connection(cls, connection: Connection, credentials_universe: str) -> Endpoints:
        """Read the addresses from a valid connection (:func:`endpoint_problems`)."""
        universe = str(extra_field(connection, "universe_domain") or credentials_universe)
        rest = str(extra_field(connection, "rest_endpoint") or f"https://bigquery.{universe}").rstrip("/")
        grpc_address = str(extra_field(connection, "grpc_endpoint") or f"bigquerystorage.{universe}").rstrip("/")
        scheme, _, host = grpc_address.rpartition("://")
        has_port = bool(re.search(r":\d+$", host))
        return cls(rest, host if has_port else f"{host}:443", scheme != "http", universe)


def endpoint_problems(connection: Connection) -> list[str]:
    """Validate the connection's endpoints and universe. Returns the problems found."""
    problems = []
    for name, pattern, example in (
        ("rest_endpoint", _REST, "https://host"),
        ("grpc_endpoint", _GRPC, "host:443"),
    ):
        value = extra_field(connection, name)
        if value is None:
            continue
        match = pattern.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            problems.append(f"{name} must be like {example}, without a path")
        elif match["scheme"] == "http":
            problems += _clear_text_problems(connection, name, value)
    universe = extra_field(connection, "universe_domain")
    if universe is not None and not (isinstance(universe, str) and _UNIVERSE.fullmatch(universe)):
        problems.append(f"universe_domain must be a domain such as {DEFAULT_UNIVERSE}")
    return problems


def _clear_text_problems(connection: Connection, name: str, value: str) -> list[str]:
    if urlsplit(value).hostname not in _LOOPBACK:
        return [f"{name} without TLS must be a loopback address. Write https://"]
    if not is_anonymous(connection):
        return [f"{name} without TLS must not carry credentials. Write https://, or set is_anonymous=true"]
    return []


class _DeadlineAdapter(HTTPAdapter):
    """Adapter that limits each request to the remaining time of the thread's call."""

    def __init__(self, limit: threading.local) -> None:
        super().__init__(pool_maxsize=32)
        self._limit = limit

    def send(self, request: Any, *args: Any, **kwargs: Any) -> requests.Response:
        limit = getattr(self._limit, "seconds", None)
        if limit is not None:
            kwargs["timeout"] = min(kwargs.get("timeout") or limit, limit)
        return super().send(request, *args, **kwargs)


def rest_session(credentials: Any, limit: threading.local, proxy_url: str | None) -> Any:
    """Return a session that adds the credentials to its requests.

    :param limit: ``limit.seconds``, if set, bounds each request of the thread.
    """
    from google.auth.transport.requests import AuthorizedSession

    session_class: Any = AuthorizedSession
    return _isolate(session_class(credentials, auth_request=token_request(limit, proxy_url)), limit, proxy_url)


def token_request(limit: threading.local, proxy_url: str | None) -> Any:
    """Return google-auth's ``Request`` that fetches access tokens."""
    from google.auth.transport.requests import Request

    # With its default session, the sign-in would try four times after each timeout.
    request_class: Any = Request
    return request_class(_isolate(requests.Session(), limit, proxy_url))


def _isolate(session: requests.Session, limit: threading.local, proxy: str | None) -> requests.Session:
    session.trust_env = False
    session.proxies = {"http": proxy, "https": proxy} if proxy else {}
    for scheme in ("https://", "http://"):
        session.mount(scheme, _DeadlineAdapter(limit))
    return session


def grpc_channel(credentials: Any, limit: threading.local, endpoints: Endpoints, proxy_url: str | None) -> Any:
    """Return a channel to the Storage Write API, which connects on first use."""
    import grpc
    from google.auth.transport.grpc import AuthMetadataPlugin

    options: list[tuple[str, Any]] = [
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
        # gRPC's own two minutes between attempts to connect would outlast every budget here.
        ("grpc.max_reconnect_backoff_ms", 5000),
        ("grpc.http_proxy", proxy_url) if proxy_url else ("grpc.enable_http_proxy", 0),
    ]
    if not endpoints.grpc_tls:
        return grpc.insecure_channel(endpoints.grpc, options=options)
    # The library's own channel would fetch its tokens through a session that follows the environment.
    plugin: Any = AuthMetadataPlugin
    host = f"bigquerystorage.{endpoints.universe}"
    signed = grpc.metadata_call_credentials(plugin(credentials, token_request(limit, proxy_url), default_host=host))
    secured = grpc.composite_channel_credentials(grpc.ssl_channel_credentials(), signed)
    return grpc.secure_channel(endpoints.grpc, secured, options=options)
