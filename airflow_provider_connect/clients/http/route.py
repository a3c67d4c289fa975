"""How to reach an API: proxy, trusted authorities and allowed addresses."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from airflow_provider_connect.clients.http.auth import proxy_auth
from airflow_provider_connect.clients.http.network import AddressPolicy

_PORTS = {"http": 80, "https": 443}

Origin = tuple[str, str, int]
"""Scheme, host and port of a server."""
PoolKey = tuple[object, ...]
"""Equal for connections to the same server over the same route."""


def origin_of(url: str) -> Origin:
    """Return scheme, host and port of a URL. Raises ValueError unless it is http or https without user."""
    parts: SplitResult = urlsplit(url)
    port = parts.port or _PORTS.get(parts.scheme)
    if parts.scheme not in _PORTS or not parts.hostname or port is None or "@" in parts.netloc:
        raise ValueError("not an address of a web server")
    return parts.scheme, parts.hostname, port


@dataclass(frozen=True)
class HttpRoute:
    """How a connection's requests reach their hosts.

    :param address_policy: None allows any address.
    :param proxy: its URL, ``environment`` or None.
    :param ca_bundle: further authorities: a path, or PEM text.
    """

    address_policy: AddressPolicy | None = None
    proxy: SecretStr | None = None
    ca_bundle: str | None = field(default=None, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that no message may quote."""
        return proxy_auth(self.proxy).secrets

    def pool_key(self, url: str) -> PoolKey:
        """Return the pool key for a URL's host."""
        parts = urlsplit(url)
        return parts.scheme, parts.netloc, self.proxy, self.ca_bundle, id(self.address_policy)
