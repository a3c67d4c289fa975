"""Requests to OpenSearch by opensearch-py, and its errors as ours."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from airflow_provider_connect.clients.http.access import HttpAccess, connection_problems
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError

TIMEOUT_SECONDS = 60.0
_BUSY = (408, 429, 500, 502, 503, 504)
_AUTH_KINDS = ("none", "basic", "bearer", "api_key")


class Reply(NamedTuple):
    """Status and document of an answer."""

    status: int
    document: Any


def check_connection(connection: Connection) -> list[str]:
    """Validate a connection without network."""
    problems = connection_problems(connection)
    kind = connection.option("auth")
    if kind is not None and kind not in _AUTH_KINDS:
        problems.append(f"connection {connection.conn_id!r}: OpenSearch needs auth {', '.join(_AUTH_KINDS)}")
    if connection.option("proxy"):
        problems.append(f"connection {connection.conn_id!r}: OpenSearch is reached without a proxy: remove it")
    return problems


class OpenSearchClient:
    """One server. No request is repeated here.

    :param connection: of type ``http``.
    """

    def __init__(self, connection: Connection, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        from opensearchpy import OpenSearch  # heavy

        access = HttpAccess.read_connection(connection)
        authorities = access.route.ca_bundle
        tls: dict[str, Any] = {"verify_certs": True, "ca_certs": authorities} if authorities else {}
        logging.getLogger("opensearch").setLevel(logging.ERROR)  # it warns of every 404, which are answers here
        self.name = connection.conn_id
        self._client = OpenSearch(
            hosts=[access.url],
            headers=dict(access.headers) | access.credentials.auth().headers,
            timeout=timeout_seconds,
            max_retries=0,
            retry_on_status=(),
            retry_on_timeout=False,
            **tls,
        )

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        allowed: tuple[int, ...] = (),
    ) -> Reply:
        """Send one request.

        :param allowed: statuses that are answers, not errors.
        :raises ConfigError: the server refuses login, right or request.
        :raises RetriableError: the server is away or busy.
        """
        from opensearchpy import exceptions  # heavy

        try:
            document = self._client.transport.perform_request(method, path, params=dict(params or {}), body=body)
        except exceptions.TransportError as error:
            status = error.status_code if isinstance(error.status_code, int) else 0
            if status in allowed:
                return Reply(status, error.info)
            raise self._error(status, error, f"{method} {path.partition('?')[0]}") from None
        except exceptions.SerializationError:
            raise RetriableError(f"connection {self.name!r}: the answer to {method} {path} is not JSON") from None
        return Reply(200, document)

    def _error(self, status: int, error: Any, subject: str) -> ConnectError:
        where = f"connection {self.name!r}"
        if status == 0:  # the client's error types, never their texts: these may quote the request
            kind = type(error).__name__
            if kind == "SSLError":
                return ConfigError(f"{where}: TLS failed. Set ca_bundle in its extra to the server's authority")
            return RetriableError(f"{where}: OpenSearch does not answer {subject} ({kind})")
        if status == 401:
            return ConfigError(f"{where}: OpenSearch refuses the login (status 401). Correct login and password")
        if status == 403:
            return ConfigError(f"{where}: OpenSearch forbids {subject} (status 403). Give its user the right, or space")
        named = f"{subject} gets status {status} ({error_type(error.info)})"
        if status in _BUSY:
            return RetriableError(f"{where}: OpenSearch is in trouble: {named}")
        return ConfigError(f"{where}: OpenSearch refuses the request: {named}")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def error_type(document: Any) -> str:
    """Return the type of an error, without its reason, which may quote values."""
    error = document.get("error") if isinstance(document, dict) else None
    return str(error.get("type", "unknown")) if isinstance(error, dict) else "unknown"
