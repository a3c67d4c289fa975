"""One request with the client's own options, without an Airflow connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from airflow_provider_connect.clients.http import client
from airflow_provider_connect.clients.http.auth import Auth
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.clients.http.network import AddressPolicy
from airflow_provider_connect.clients.http.route import HttpRoute


def request(
    url: str,
    params: Mapping[str, str],
    auth: Auth,
    limits: HttpTimeouts,
    *,
    proxy: SecretStr | None = None,
    ca_bundle: str | None = None,
    reach: AddressPolicy | None = None,
    **options: Any,
) -> client.HttpResponse:
    """Send a request: see :func:`.client.request`."""
    return client.request(HttpRoute(reach, proxy, ca_bundle), url, auth, limits, params=[*params.items()], **options)
