"""Where both of BigQuery's services are: Google's own hosts, private endpoints, or another universe domain.

``rest_endpoint`` (``https://host[:port]``) and ``grpc_endpoint`` (``host[:port]``) in the connection's extra take the
place of ``bigquery.<universe_domain>`` and ``bigquerystorage.<universe_domain>``. Without TLS, which is ``http://`` in
front of either, nothing of an account may be sent: only loopback addresses, and only with ``is_anonymous``.

Vendor facts: https://cloud.google.com/vpc/docs/configure-private-service-connect-apis (2026-11).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from airflow_provider_connect.connection import Connection

DEFAULT_UNIVERSE = "googleapis.com"
_PREFIX = "extra__google_cloud_platform__"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HOST = r"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+)(?::\d{1,5})?"
_REST = re.compile(rf"(?P<scheme>https?)://{_HOST}/?")
_GRPC = re.compile(rf"(?:(?P<scheme>https?)://)?{_HOST}/?")
_UNIVERSE = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+")


def field(connection: Connection, name: str) -> Any:
    """Return a field of the connection's extra by its short or its older long name; None when it is empty."""
    value = connection.extra.get(name, connection.extra.get(_PREFIX + name))
    return None if value == "" else value


def is_anonymous(connection: Connection) -> bool:
    """Say whether the connection signs nothing."""
    return str(field(connection, "is_anonymous") or "").lower() in ("true", "1")


@dataclass(frozen=True)
class Endpoints:
    """Where to speak.

    :param rest: URL of the REST API.
    :param grpc: host and port of the Storage Write API.
    :param grpc_tls: whether it is spoken to in TLS.
    :param universe: the domain that credentials must be of.
    """

    rest: str
    grpc: str
    grpc_tls: bool
    universe: str

    @classmethod
    def of(cls, connection: Connection, own_universe: str) -> Endpoints:
        """Return what the connection says; it has passed :func:`endpoint_problems`.

        :param own_universe: the credentials' own, for a connection that names none.
        """
        universe = str(field(connection, "universe_domain") or own_universe)
        rest = str(field(connection, "rest_endpoint") or f"https://bigquery.{universe}").rstrip("/")
        asked = str(field(connection, "grpc_endpoint") or f"bigquerystorage.{universe}").rstrip("/")
        scheme, _, host = asked.rpartition("://")
        has_port = bool(re.search(r":\d+$", host))
        return cls(rest, host if has_port else f"{host}:443", scheme != "http", universe)


def endpoint_problems(connection: Connection) -> list[str]:
    """Say what is wrong with the fields that say where BigQuery is."""
    problems = []
    for name, pattern, example in (
        ("rest_endpoint", _REST, "https://host"),
        ("grpc_endpoint", _GRPC, "host:443"),
    ):
        value = field(connection, name)
        if value is None:
            continue
        match = pattern.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            problems.append(f"{name} must be like {example}, without a path")
        elif match["scheme"] == "http":
            problems += _clear_text_problems(connection, name, value)
    universe = field(connection, "universe_domain")
    if universe is not None and not (isinstance(universe, str) and _UNIVERSE.fullmatch(universe)):
        problems.append(f"universe_domain must be a domain such as {DEFAULT_UNIVERSE}")
    return problems


def _clear_text_problems(connection: Connection, name: str, value: str) -> list[str]:
    if urlsplit(value).hostname not in _LOOPBACK:
        return [f"{name} without TLS must be a loopback address: write https://"]
    if not is_anonymous(connection):
        return [f"{name} without TLS sends no credentials: say is_anonymous=true, or write https://"]
    return []
