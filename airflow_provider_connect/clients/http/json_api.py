"""A JSON API on the host of an Airflow connection: one request, one document, and errors that say what to do.

Nothing is tried again here. An answer counts only if it is whole: framed, and parsed to its end.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, NamedTuple

from pydantic import SecretStr

from airflow_provider_connect.clients.http.auth import basic_auth, bearer_auth
from airflow_provider_connect.clients.http.client import Answer, Body, excerpt, json_body, request, retry_after_seconds
from airflow_provider_connect.clients.http.host import base_url, host_problem
from airflow_provider_connect.clients.http.link import Limits
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from airflow_provider_connect.secrets import Secrets

_LIMITS = Limits(connect_timeout_seconds=10, read_timeout_seconds=60, deadline_seconds=300)
_MAX_BYTES = 64 << 20
_FOR_NOW = (408, 425, 429)


class Reply(NamedTuple):
    """What the API answered.

    :param size: of the document, in bytes.
    """

    status: int
    document: Any
    size: int


Credentials = Literal["basic", "bearer"]
"""What is sent: login and password as HTTP Basic, or the password as a bearer token."""


def connection_problems(connection: Connection, credentials: Credentials) -> list[str]:
    """Say what is wrong with the connection's login, password and host; [] when nothing is."""
    where, found = f"connection {connection.conn_id!r}", []
    if credentials == "basic" and connection.login is not None and ":" in connection.login.get_secret_value():
        found.append(f"{where}: login holds a colon, which HTTP Basic cannot carry")
    if not connection.password or not connection.password.get_secret_value():
        found.append(f"{where}: password is empty; it holds what the API asks for")
    if (problem := host_problem(connection.host or "", connection.port)) is not None:
        found.append(f"{where}: {problem}")
    return found


class JsonApi:
    """Asks the API. For several threads at once; keeps nothing open.

    :raises ConfigError: naming everything that is wrong with the connection.
    """

    def __init__(self, connection: Connection, credentials: Credentials) -> None:
        if found := connection_problems(connection, credentials):
            raise ConfigError("; ".join(found))
        login, password = connection.login or SecretStr(""), connection.password or SecretStr("")
        self._url = base_url(connection.host or "", connection.port)
        self._auth = basic_auth(login, password) if credentials == "basic" else bearer_auth(password)
        self._secrets = Secrets(self._auth.secrets)

    def ask(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        body: Any = None,
        allowed: Collection[int] = (),
        sent: Callable[[], None] | None = None,
    ) -> Reply:
        """Send a GET, or a POST if there is a body; return the document that the API answers.

        :param body: a value that becomes JSON, or bytes that are JSON already.
        :param allowed: statuses beside 2xx that are an answer, too; theirs has no document.
        :param sent: called when the request is on its way: from then on the server may count it.
        :raises RetriableError: it is away, in trouble or wants to be left alone, or its answer is not a whole document.
        :raises ConfigError: it refuses the request or the credentials.
        """
        posted = (
            Body("application/json", body) if isinstance(body, bytes) else None if body is None else json_body(body)
        )
        plain = {"Accept": "application/json", "Accept-Encoding": "identity"}  # what is cut does not parse
        with request(
            self._url + path, params or {}, self._auth, _LIMITS, body=posted, headers=plain, sent=sent
        ) as answer:
            if 200 <= answer.status < 300:
                return self._read(answer)
            if answer.status in allowed:
                return Reply(answer.status, None, 0)
            raise self._refusal(answer)

    def _read(self, answer: Answer) -> Reply:
        if answer.status == 204:  # which has no body
            return Reply(answer.status, None, 0)
        answer.require_framing()
        data = bytearray()
        for chunk in answer.chunks():
            data += chunk
            if len(data) > _MAX_BYTES:
                raise ConfigError(
                    f"{answer.host} sent a document of more than {_MAX_BYTES} bytes: ask for smaller pages"
                )
        try:
            return Reply(answer.status, json.loads(data), len(data))
        except (ValueError, RecursionError):  # its text would be part of the message
            raise RetriableError(
                f"{answer.host} sent no whole JSON document ({len(data)} bytes); a proxy or a login page may answer"
            ) from None

    def _refusal(self, answer: Answer) -> ConnectError:
        said, after = answer.text(), retry_after_seconds(answer.header("Retry-After"), dt.datetime.now(dt.UTC))
        words = excerpt(said.text, self._secrets, is_cut=said.is_cut)
        quoted = f"; it said: {words!r}" if words else ""
        if answer.status >= 500 or answer.status in _FOR_NOW:
            message = f"{answer.host} answered {answer.status}: it cannot serve this now{quoted}"
            return RetriableError(message, retry_after_seconds=after)
        what = "check the connection's credentials and rights" if answer.status in (401, 403) else "check the options"
        return ConfigError(f"{answer.host} answered {answer.status}: {what}{quoted}")
