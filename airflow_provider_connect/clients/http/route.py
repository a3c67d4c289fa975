"""How an API is reached: through which proxy, trusting whom, and at which addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from airflow_provider_connect.clients.http.addresses import Reach
from airflow_provider_connect.clients.http.auth import Auth, proxy_auth
from airflow_provider_connect.clients.http.client import Answer, Body, request
from airflow_provider_connect.clients.http.link import Limits, Link
from airflow_provider_connect.clients.http.pool import Pool

_PORTS = {"http": 80, "https": 443}

Origin = tuple[str, str, int]
"""Scheme, host and port: who is spoken to, however the address is written."""


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
class Route:
    """The way to all hosts that a connection names.

    :param proxy: URL of the only proxy that is used, or ``environment``.
    :param ca_bundle: authorities to trust beside the public ones: a path, or PEM text.
    """

    reach: Reach
    proxy: SecretStr | None = None
    ca_bundle: str | None = field(default=None, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that no message may quote."""
        return proxy_auth(self.proxy).secrets

    def request(
        self,
        url: str,
        auth: Auth,
        limits: Limits,
        *,
        params: Sequence[tuple[str, str]] = (),
        method: str | None = None,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
        takes_redirects: bool = False,
        sent: Callable[[], None] | None = None,
        pool: Pool | None = None,
        opened: Callable[[Link], object] | None = None,
    ) -> Answer:
        """Send a request this way: see :func:`.client.request`."""
        return request(
            url,
            params,
            auth,
            limits,
            method=method,
            body=body,
            headers=headers,
            proxy=self.proxy,
            ca_bundle=self.ca_bundle,
            reach=self.reach,
            takes_redirects=takes_redirects,
            sent=sent,
            pool=pool,
            opened=opened,
        )
