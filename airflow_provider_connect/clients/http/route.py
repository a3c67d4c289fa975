"""How an API is reached: through which proxy, trusting whom, and at which addresses."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from airflow_provider_connect.clients.http.auth import proxy_auth
from airflow_provider_connect.clients.http.network import AddressPolicy

_PORTS = {"http": 80, "https": 443}

Origin = tuple[str, str, int]
"""Scheme, host and port: who is spoken to, however the address is written."""
PoolKey = tuple[object, ...]
"""Where a connection leads to, and in which way: two of the same place are the same to whoever uses them."""


def origin_of(url: str) -> Origin:
    """Return whom an address means.

    :raises ValueError: it is none that a request can go to, or it names a user.
    """
    parts: SplitResult = urlsplit(url)
    port = parts.port or _PORTS.get(parts.scheme)
    if parts.scheme not in _PORTS or not parts.hostname or port is None or "@" in parts.netloc:
        raise ValueError("no address of a web server")
    return parts.scheme, parts.hostname, port


@dataclass(frozen=True)
class HttpRoute:
    """The way to all hosts that a connection names.

    :param reach: which addresses may be spoken to; None for any.
    :param proxy: URL of the only proxy that is used, or ``environment``.
    :param ca_bundle: authorities to trust beside the public ones: a path, or PEM text.
    """

    address_policy: AddressPolicy | None = None
    proxy: SecretStr | None = None
    ca_bundle: str | None = field(default=None, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that no message may quote."""
        return proxy_auth(self.proxy).secrets

    def pool_key(self, url: str) -> PoolKey:
        """Return where a connection for a URL leads to, and in which way."""
        parts = urlsplit(url)
        return parts.scheme, parts.netloc, self.proxy, self.ca_bundle, id(self.address_policy)
