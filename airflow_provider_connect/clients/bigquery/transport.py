"""REST sessions and a gRPC channel to BigQuery that take nothing from the environment.

``requests`` would send Google the password of a ``.netrc`` file in place of our token, and both ``requests`` and gRPC
would use the environment's proxies. Here only the connection says what is used.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import HTTPAdapter

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.endpoint import Endpoints


class _InTime(HTTPAdapter):
    """Gives no request more time than the thread's call has; the library alone would wait at least 120 s for rows."""

    def __init__(self, limit: threading.local) -> None:
        super().__init__(pool_maxsize=32)
        self._limit = limit

    def send(self, request: Any, *args: Any, **kwargs: Any) -> requests.Response:
        limit = getattr(self._limit, "seconds", None)
        if limit is not None:
            kwargs["timeout"] = min(kwargs.get("timeout") or limit, limit)
        return super().send(request, *args, **kwargs)


def rest_session(credentials: Any, limit: threading.local, proxy: str | None) -> Any:
    """Return a session that signs its requests.

    :param limit: its ``seconds``, where set, bound each request that the thread makes.
    :param proxy: URL of the only proxy that is used.
    """
    from google.auth.transport.requests import AuthorizedSession

    made: Any = AuthorizedSession
    return _isolated(made(credentials, auth_request=sign_in(limit, proxy)), limit, proxy)


def sign_in(limit: threading.local, proxy: str | None) -> Any:
    """Return what fetches the credentials' tokens."""
    from google.auth.transport.requests import Request

    # With its default session, the sign-in would try four times after each timeout.
    made: Any = Request
    return made(_isolated(requests.Session(), limit, proxy))


def _isolated(session: requests.Session, limit: threading.local, proxy: str | None) -> requests.Session:
    session.trust_env = False
    session.proxies = {"http": proxy, "https": proxy} if proxy else {}
    for scheme in ("https://", "http://"):
        session.mount(scheme, _InTime(limit))
    return session


def grpc_channel(credentials: Any, limit: threading.local, endpoints: Endpoints, proxy: str | None) -> Any:
    """Return a channel to the Storage Write API, which connects when it is used."""
    import grpc
    from google.auth.transport.grpc import AuthMetadataPlugin

    options: list[tuple[str, Any]] = [
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
        # gRPC's own two minutes between attempts to connect would outlast every budget here.
        ("grpc.max_reconnect_backoff_ms", 5000),
        ("grpc.http_proxy", proxy) if proxy else ("grpc.enable_http_proxy", 0),
    ]
    if not endpoints.grpc_tls:
        return grpc.insecure_channel(endpoints.grpc, options=options)
    # The library's own channel would fetch its tokens through a session that follows the environment.
    plugin: Any = AuthMetadataPlugin
    host = f"bigquerystorage.{endpoints.universe}"
    signed = grpc.metadata_call_credentials(plugin(credentials, sign_in(limit, proxy), default_host=host))
    secured = grpc.composite_channel_credentials(grpc.ssl_channel_credentials(), signed)
    return grpc.secure_channel(endpoints.grpc, secured, options=options)
