"""Fetches credentials: OAuth 2.0 tokens, and sessions of services with their own login."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import SecretStr

from airflow_provider_connect.clients.http.auth import NO_AUTH, Auth, FetchedAuth, basic_auth, bearer_auth, cookie_auth
from airflow_provider_connect.clients.http.client import (
    Body,
    HttpResponse,
    excerpt,
    form_body,
    json_body,
    request,
    retry_after_seconds,
)
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.clients.http.route import HttpRoute
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError, SetupError
from airflow_provider_connect.secrets import Secrets, is_secret_name

_TIMEOUTS = HttpTimeouts(connect_timeout_seconds=10, read_timeout_seconds=30, deadline_seconds=60)
_MAX_BYTES = 1 << 20
_TEMPORARY_STATUSES = (408, 425, 429)
_LONGEST_SECONDS = 365 * 86400.0

ROTATION_REFUSED = (
    "the service rotates refresh tokens: it sent a new one with the access token. An Airflow task cannot write its "
    "connection, so the next task would use an expired token. Use client credentials or an API key, or turn off "
    "rotation at the service. The refresh token in the connection may have to be renewed"
)


@dataclass(frozen=True)
class Login:
    """User, password and URL of a login."""

    url: str
    route: HttpRoute
    user: SecretStr
    password: SecretStr
    connection_label: str = ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that an answer may echo and no message may quote."""
        return (*basic_auth(self.user, self.password).secrets, *self.route.secrets)


@dataclass(frozen=True)
class OAuth2Login:
    """Access tokens with client credentials, or with a refresh token that does not rotate.

    :param client_auth: HTTP Basic, or form fields.
    """

    login: Login
    scope: str | None = None
    refresh_token: SecretStr | None = None
    client_auth: Literal["basic", "body"] = "basic"
    params: Mapping[str, str] = field(default_factory=dict)

    def fetch(self) -> FetchedAuth:
        """Request an access token.

        :raises RetriableError: the endpoint is unreachable.
        :raises ConfigError: the endpoint refuses the client, or rotates refresh tokens.
        """
        login, refresh = self.login, self.refresh_token
        form = {"grant_type": "client_credentials" if refresh is None else "refresh_token", **self.params}
        if self.scope is not None:
            form["scope"] = self.scope
        if refresh is not None:
            form["refresh_token"] = refresh.get_secret_value()
        auth, secret = NO_AUTH, login.password.get_secret_value()
        if self.client_auth == "basic" and secret:
            auth = basic_auth(login.user, login.password)
        else:  # a public client has no secret and sends only its id
            form |= {"client_id": login.user.get_secret_value()} | ({"client_secret": secret} if secret else {})
        secrets = [
            *login.secrets,
            *_secret_values(self.params),
            refresh.get_secret_value() if refresh is not None else "",
        ]
        document = _login_document(login, auth, form_body(form), secrets)
        return self._read(document)

    def _read(self, document: Any) -> FetchedAuth:
        token = document.get("access_token") if isinstance(document, dict) else None
        if not isinstance(token, str) or not token:
            raise SetupError(f"{self.login.connection_label}: the token endpoint answered without an access_token")
        if self.refresh_token is not None and document.get("refresh_token") not in (
            None,
            "",
            self.refresh_token.get_secret_value(),
        ):
            raise ConfigError(f"{self.login.connection_label}: {ROTATION_REFUSED}")
        return FetchedAuth(bearer_auth(SecretStr(token)), _validity_seconds(document.get("expires_in")))


@dataclass(frozen=True)
class SessionLogin:
    """Session of a service: a text in the JSON answer, or the answer's cookies.

    :param params: login fields. ``{login}`` and ``{password}`` become the connection's.
    :param result: path of the text, None for cookies.
    """

    login: Login
    params: Mapping[str, str]
    as_json: bool
    result: Sequence[str] | None
    auth: Callable[[SecretStr], Auth]

    def fetch(self) -> FetchedAuth:
        """Log in and return the session as credentials.

        :raises RetriableError: the service is unreachable.
        :raises ConfigError: the login is refused, or has no session.
        """
        login = self.login
        user, password = login.user.get_secret_value(), login.password.get_secret_value()
        fields = {
            name: user if value == "{login}" else password if value == "{password}" else value
            for name, value in self.params.items()
        }
        body = json_body(fields) if self.as_json else form_body(fields)
        if self.result is None:
            return FetchedAuth(self._cookies(body), None)
        node = _login_document(login, NO_AUTH, body, [*login.secrets, *_secret_values(fields)])
        for key in self.result:
            node = node.get(key) if isinstance(node, dict) else None
        if isinstance(node, int) and not isinstance(node, bool):
            node = str(node)
        if not isinstance(node, str) or not node:
            raise ConfigError(
                f"{login.connection_label}: the login's answer has no text at auth_result ({'/'.join(self.result)})"
            )
        return FetchedAuth(self.auth(SecretStr(node)), None)

    def _cookies(self, body: Body) -> Auth:
        login = self.login
        with request(login.route, login.url, NO_AUTH, _TIMEOUTS, body=body, takes_redirects=True) as answer:
            if not 200 <= answer.status < 400:
                raise _refusal(login, answer, login.secrets)
            pairs = [cookie.partition(";")[0].partition("=") for cookie in answer.header_values("Set-Cookie")]
        cookies = {name.strip(): value.strip() for name, _, value in pairs if name.strip() and value.strip()}
        if not cookies:
            raise ConfigError(
                f"{login.connection_label}: the login's answer sets no cookie. Check login and password, or set "
                "auth_result to the session's location in the JSON answer"
            )
        return cookie_auth(cookies)


def _secret_values(fields: Mapping[str, str]) -> list[str]:
    return [value for name, value in fields.items() if is_secret_name(name)]


def _login_document(login: Login, auth: Auth, body: Body, secrets: Sequence[str]) -> Any:
    plain_headers = {"Accept": "application/json", "Accept-Encoding": "identity"}  # a cut document does not parse
    with request(login.route, login.url, auth, _TIMEOUTS, body=body, headers=plain_headers) as answer:
        if not 200 <= answer.status < 300:
            raise _refusal(login, answer, secrets)
        answer.require_framing()
        data = bytearray()
        for chunk in answer.chunks():
            data += chunk
            if len(data) > _MAX_BYTES:
                raise ConfigError(
                    f"{login.connection_label}: {answer.host} answered a login with more than {_MAX_BYTES} bytes"
                )
    try:
        return json.loads(data)
    except (ValueError, RecursionError):  # its text would be part of the message
        raise SetupError(
            f"{login.connection_label}: {answer.host} answered a login without a complete JSON document ({len(data)} "
            "bytes)"
        ) from None


def _refusal(login: Login, answer: HttpResponse, secrets: Sequence[str]) -> ConnectError:
    error_text, retry_after = answer.text(), retry_after_seconds(answer.header("Retry-After"), dt.datetime.now(dt.UTC))
    server_text = excerpt(error_text.text, Secrets(secrets), is_cut=error_text.is_cut)
    quote_suffix = f". Its answer: {server_text!r}" if server_text else ""
    if answer.status >= 500 or answer.status in _TEMPORARY_STATUSES:
        message = f"{login.connection_label}: {answer.host} answered a login with {answer.status}{quote_suffix}"
        return RetriableError(message, retry_after_seconds=retry_after)
    return ConfigError(
        f"{login.connection_label}: {answer.host} refused the login ({answer.status}). Check login, password and the "
        f"extra fields of auth{quote_suffix}"
    )


def _validity_seconds(value: Any) -> float | None:
    try:
        seconds = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else 0.0
    except (ValueError, OverflowError):
        return None
    return min(seconds, _LONGEST_SECONDS) if seconds > 0 else None
