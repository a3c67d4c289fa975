"""Kinds of HTTP credentials, which all polls of a process share."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from airflow_provider_connect.clients.http.proxies import proxy_urls, uses_environment
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.patience import CLOCK, Clock


@dataclass(frozen=True)
class Auth:
    """Credentials of a request.

    :param headers: sent with every request.
    :param params: added to every query, in place of params of the same name.
    :param body: added to every JSON body or form, by path or field.
    :param secrets: texts that no message may quote.
    """

    headers: dict[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    params: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def joined(self, other: Auth) -> Auth:
        """Return both credentials. The cookies of both are sent."""
        cookies = [auth.headers["Cookie"] for auth in (self, other) if "Cookie" in auth.headers]
        headers = self.headers | other.headers | ({"Cookie": "; ".join(cookies)} if cookies else {})
        return Auth(headers, self.secrets + other.secrets, self.params + other.params, self.body + other.body)


NO_AUTH = Auth()


def basic_auth(user: SecretStr, password: SecretStr) -> Auth:
    """Return HTTP Basic credentials, in UTF-8."""
    user_and_password = user.get_secret_value(), password.get_secret_value()
    token = base64.b64encode(":".join(user_and_password).encode()).decode("ascii")
    # An echo may lack the padding, or use the URL alphabet.
    unpadded_token = token.rstrip("=")
    return Auth(
        {"Authorization": f"Basic {token}"},
        (*user_and_password, unpadded_token, unpadded_token.replace("+", "-").replace("/", "_")),
    )


def bearer_auth(token: SecretStr) -> Auth:
    """Return credentials with a bearer token, such as OAuth's."""
    return Auth({"Authorization": f"Bearer {token.get_secret_value()}"}, (token.get_secret_value(),))


def header_auth(name: str, value: SecretStr) -> Auth:
    """Return credentials in a header, such as ``X-Api-Key``."""
    return Auth({name: value.get_secret_value()}, (value.get_secret_value(),))


def query_auth(name: str, value: SecretStr) -> Auth:
    """Return credentials in the query, such as ``api_key=…``."""
    return Auth({}, (value.get_secret_value(),), ((name, value.get_secret_value()),))


def cookie_auth(cookies: Mapping[str, str]) -> Auth:
    """Return credentials with cookies. All values are secret."""
    return Auth({"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}, tuple(cookies.values()))


def proxy_auth(proxy: SecretStr | None) -> Auth:
    """Return a proxy's credentials, or empty ones. For ``environment``, only the secrets of its proxies."""
    users = [(parts.username or "", parts.password or "") for parts in map(urlsplit, proxy_urls(proxy))]
    auths = [basic_auth(*(SecretStr(unquote(text)) for text in user)) for user in users if any(user)]
    headers = {} if uses_environment(proxy) or not auths else {"Proxy-Authorization": auths[0].headers["Authorization"]}
    return Auth(headers, tuple(secret for auth in auths for secret in auth.secrets))


_MARGIN_SECONDS = 60.0
_REFUSED_SECONDS = 60.0


class FetchedAuth(NamedTuple):
    """Issued credentials with their validity (None if unknown)."""

    auth: Auth
    valid_seconds: float | None


@dataclass
class _LoginState:
    """Credentials or latest refusal of one login, guarded by ``lock``."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    auth: Auth | None = None
    ends: float = 0.0
    refusal: str = ""
    refused_until: float = 0.0


_login_states: dict[str, _LoginState] = {}
_login_states_lock = threading.Lock()


class FetchedCredentials:
    """Credentials that a service issues for a login.

    :param identity: all inputs of the login. Equal identities share credentials.
    """

    def __init__(
        self, identity: tuple[object, ...], fetch: Callable[[], FetchedAuth], clock: Clock | None = None
    ) -> None:
        self._name = hashlib.sha256(repr(identity).encode()).hexdigest()
        self._fetch = fetch
        self._clock = clock or CLOCK

    def auth(self) -> Auth:
        """Return credentials that will not expire soon. May call the service.

        :raises RetriableError: the service is unreachable.
        :raises ConfigError: the service refuses the login. Repeated for a minute without a call.
        """
        state = self._state()
        with state.lock:
            if state.auth is None or self._clock.now() >= state.ends:
                self._renew(state)
            assert state.auth is not None
            return state.auth

    def renew(self, refused_auth: Auth) -> Auth:
        """Replace refused credentials. All threads share one call."""
        state = self._state()
        with state.lock:
            if state.auth == refused_auth:
                state.auth = None
        return self.auth()

    def _state(self) -> _LoginState:
        with _login_states_lock:
            return _login_states.setdefault(self._name, _LoginState())

    def _renew(self, state: _LoginState) -> None:
        if state.refusal and self._clock.now() < state.refused_until:
            raise ConfigError(state.refusal)
        fetch_started = self._clock.now()
        state.auth = None
        try:
            fetched_auth = self._fetch()
        except ConfigError as error:
            state.refusal, state.refused_until = str(error), fetch_started + _REFUSED_SECONDS
            raise
        state.auth, state.refusal = fetched_auth.auth, ""
        valid_seconds = float("inf") if fetched_auth.valid_seconds is None else fetched_auth.valid_seconds
        # Credentials that expire during a request are refused, so they count as expired a while before.
        state.ends = (
            fetch_started
            + valid_seconds
            - min(_MARGIN_SECONDS, valid_seconds / 10 if valid_seconds != float("inf") else 0.0)
        )
