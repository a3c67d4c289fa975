"""Who asks: the kinds of credentials that HTTP carries, each with the texts that no message may quote."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from airflow_provider_connect.clients.http.proxies import is_environments, proxies_of


@dataclass(frozen=True)
class Auth:
    """What a request says of who sends it; made by one of the functions below.

    :param headers: sent with every request.
    :param params: added to the query of every request; one of that name which is there already gives way.
    :param secrets: the texts that an answer may echo and no message may quote.
    """

    headers: dict[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    params: tuple[tuple[str, str], ...] = field(default=(), repr=False)


NO_AUTH = Auth()


def basic_auth(user: SecretStr, password: SecretStr) -> Auth:
    """Return HTTP Basic, in UTF-8."""
    given = user.get_secret_value(), password.get_secret_value()
    token = base64.b64encode(":".join(given).encode()).decode("ascii")
    # An echo may be without the padding, and in the letters of URLs.
    bare = token.rstrip("=")
    return Auth({"Authorization": f"Basic {token}"}, (*given, bare, bare.replace("+", "-").replace("/", "_")))


def bearer_auth(token: SecretStr) -> Auth:
    """Return a bearer token, such as OAuth's."""
    return Auth({"Authorization": f"Bearer {token.get_secret_value()}"}, (token.get_secret_value(),))


def header_auth(name: str, value: SecretStr) -> Auth:
    """Return a key in a header of its own, such as ``X-Api-Key``."""
    return Auth({name: value.get_secret_value()}, (value.get_secret_value(),))


def query_auth(name: str, value: SecretStr) -> Auth:
    """Return a key in the query, such as ``api_key=…``."""
    return Auth({}, (value.get_secret_value(),), ((name, value.get_secret_value()),))


def cookie_auth(cookies: Mapping[str, str]) -> Auth:
    """Return cookies, each value of them a secret."""
    return Auth({"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}, tuple(cookies.values()))


def proxy_auth(proxy: SecretStr | None) -> Auth:
    """Return what a proxy is told: user and password of its URL, if there are any.

    :param proxy: its URL. For the environment's proxies there are only their secrets.
    """
    users = [(parts.username or "", parts.password or "") for parts in map(urlsplit, proxies_of(proxy))]
    told = [basic_auth(*(SecretStr(unquote(text)) for text in user)) for user in users if any(user)]
    headers = {} if is_environments(proxy) or not told else {"Proxy-Authorization": told[0].headers["Authorization"]}
    return Auth(headers, tuple(secret for auth in told for secret in auth.secrets))
