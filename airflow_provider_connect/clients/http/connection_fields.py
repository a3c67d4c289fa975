"""The fields of an Airflow connection of type ``http``, read and checked: see :mod:`.access` for what they mean."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, cast, get_args
from urllib.parse import urljoin, urlsplit

from pydantic import SecretStr

from airflow_provider_connect.clients.http.certificates import ca_bundle_problem
from airflow_provider_connect.clients.http.proxies import ENVIRONMENT, is_proxy_url
from airflow_provider_connect.clients.http.route import Origin, origin_of
from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError

AuthKind = Literal["none", "basic", "bearer", "api_key", "oauth2_client_credentials", "oauth2_refresh_token", "session"]

RESERVED_HEADERS = frozenset(
    {"accept-encoding", "connection", "content-length", "expect", "host", "te", "transfer-encoding", "upgrade"}
)
"""Headers that say how a message is carried; nobody but the client knows."""

_COMMON = ("auth", "headers", "allowed_hosts", "proxy", "ca_bundle")
_OAUTH2 = ("auth_url", "scope", "client_auth", "auth_params")
_FIELDS: dict[str, tuple[str, ...]] = {
    "none": (),
    "basic": (),
    "bearer": (),
    "api_key": ("send_in", "send_as"),
    "oauth2_client_credentials": _OAUTH2,
    "oauth2_refresh_token": (*_OAUTH2, "refresh_token"),
    "session": ("auth_url", "auth_params", "auth_body", "auth_result", "send_in", "send_as"),
}
_CHOICES = {
    "auth": get_args(AuthKind),
    "send_in": ("header", "query", "cookie"),
    "client_auth": ("basic", "body"),
    "auth_body": ("json", "form"),
}
_REQUIRED = {
    "api_key": ("send_as",),
    "oauth2_client_credentials": ("auth_url",),
    "oauth2_refresh_token": ("auth_url", "refresh_token"),
    "session": ("auth_url",),
}


def auth_kind_of(connection: Connection) -> AuthKind:
    """Return how the credentials are sent; if nothing says it, as HttpHook does: HTTP Basic if there is a login."""
    default = "basic" if _has(connection.login) else "none"
    return cast(AuthKind, connection.option("auth") or default)


def connection_problems(connection: Connection, extra_fields: Collection[str]) -> list[str]:
    """Return everything that is wrong with a connection: see :func:`.access.access_problems`."""
    checks = (
        partial(_unknown_fields, also=extra_fields),
        _auth_problems,
        _login_problems,
        _host_problems,
        _text_problems,
        proxy_problems,
        ca_bundle_problems,
        _http_problems,
    )
    return collect_problems(connection, checks)


def collect_problems(connection: Connection, checks: Iterable[Callable[[Connection], Iterable[str]]]) -> list[str]:
    """Return what some checks find wrong with a connection of any type, each once, and whose it is."""
    problems: list[str] = []
    for check in checks:
        try:
            problems += check(connection)
        except ConfigError as error:  # an extra field that is not text
            problems.append(str(error).removeprefix(f"connection {connection.conn_id!r}: "))
    return [f"connection {connection.conn_id!r}: {problem}" for problem in dict.fromkeys(problems)]


def _has(secret: SecretStr | None) -> bool:
    return secret is not None and secret.get_secret_value() != ""


def _unknown_fields(connection: Connection, also: Collection[str]) -> Iterator[str]:
    """Name the extra fields that nobody reads, and those that belong to another kind of credentials."""
    known_fields = {*_COMMON, *also, *(name for names in _FIELDS.values() for name in names)}
    allowed_fields = {*_COMMON, *also, *_FIELDS.get(auth_kind_of(connection), known_fields)}
    for name, value in connection.extra.items():
        if name not in known_fields:
            yield f"unknown extra field {name!r}; {suggest_nearest(name, known_fields)}; a header of its own goes into 'headers'"
        elif name not in allowed_fields and value not in (None, ""):
            users = [kind for kind, names in _FIELDS.items() if name in names]
            yield f"extra field {name!r} has no use here: it belongs to auth {' or '.join(map(repr, users))}"


def _auth_problems(connection: Connection) -> Iterator[str]:
    for name, choices in _CHOICES.items():
        value = connection.option(name)
        if value is not None and value not in choices:
            yield f"extra field {name!r} is not one of {', '.join(choices)}"
    for name in _REQUIRED.get(auth_kind_of(connection), ()):
        if connection.option(name) is None:
            yield f"extra has no {name!r}, which auth {auth_kind_of(connection)!r} needs"


def _login_problems(connection: Connection) -> Iterator[str]:
    kind = auth_kind_of(connection)
    if kind == "none":
        if _has(connection.password) and connection.option("auth") is None:
            yield (
                "it has a password and no login, and nothing says how to send it: set 'auth' in the extra to 'bearer' "
                "or 'api_key', or enter a login for HTTP Basic"
            )
        return
    if kind not in _FIELDS:  # whatever it is, it is said already, and might be a secret in the wrong place
        return
    if kind not in ("basic", "oauth2_refresh_token") and not _has(connection.password):
        yield f"password is empty; auth {kind!r} needs it"
    if kind.startswith(("basic", "oauth2", "session")) and not _has(connection.login):
        yield f"login is empty; auth {kind!r} needs it"
    by_basic = kind == "basic" or (kind.startswith("oauth2") and connection.option("client_auth") != "body")
    if by_basic and connection.login is not None and ":" in connection.login.get_secret_value():
        yield "login holds a colon, which HTTP Basic cannot carry"


def _host_problems(connection: Connection) -> Iterator[str]:
    if not connection.host:
        yield "host is empty; it names the API, as 'name' or 'https://name/path'"
        return
    if connection.path not in (None, "", "http", "https"):
        yield "schema must be https or http"
        return
    try:
        url = connection_base_url(connection)
        origin_of(url)
        parts, host_port = urlsplit(url), urlsplit(_with_scheme(connection.host, connection.path or "https")).port
    except ValueError:
        yield "host must be 'name' or 'https://name/path', without user or query"
        return
    if parts.query or parts.fragment or " " in url:
        yield "host must be 'name' or 'https://name/path', without user or query"
    if None not in (connection.port, host_port) and connection.port != host_port:
        yield "host must be without a port, or name the one beside it: these are two different ports"


def _text_problems(connection: Connection) -> Iterator[str]:
    text_mapping(connection, "auth_params")
    for name in text_mapping(connection, "headers"):
        if name.lower() in RESERVED_HEADERS:
            yield f"extra field 'headers': {name!r} is set by the client itself"
    try:
        allowed_origins_of(connection)
    except ValueError:
        yield "extra field 'allowed_hosts' must be a list of names, or of 'https://name'"
    url = connection.option("auth_url")
    if url is not None and connection.host:
        try:
            origin_of(resolve_url(connection_base_url(connection), url))
        except ValueError:
            yield "extra field 'auth_url' must be a path on the host, or 'https://name/path' without user"


def host_override_problems(connection: Connection) -> list[str]:
    """Tell if the host that a connection of any type names, in place of the vendor's, is none."""
    problem = host_problem(connection.host, connection.port) if connection.host else None
    return [problem] if problem else []


def proxy_problems(connection: Connection) -> Iterator[str]:
    """Tell if the extra's ``proxy`` is none. For connections of any type."""
    proxy = connection.option("proxy")
    if proxy not in (None, ENVIRONMENT) and not is_proxy_url(proxy):
        yield f"extra field 'proxy' is not an http or https URL, nor {ENVIRONMENT!r}"


def ca_bundle_problems(connection: Connection) -> Iterator[str]:
    """Tell if the extra's ``ca_bundle`` holds no certificates. For connections of any type."""
    ca_bundle = connection.option("ca_bundle")
    problem = ca_bundle_problem(ca_bundle) if ca_bundle is not None else None
    if problem is not None:
        yield f"extra field {problem}"


def _http_problems(connection: Connection) -> Iterator[str]:
    """Refuse plain http where it would show credentials to the network."""
    has_credentials = auth_kind_of(connection) != "none" or bool(text_mapping(connection, "headers"))
    urls: dict[str, str] = {}
    try:
        urls["schema or host"] = connection_base_url(connection)
        urls["extra field 'auth_url'"] = resolve_url(urls["schema or host"], connection.option("auth_url") or "")
    except ValueError:
        return
    for field, url in urls.items():
        parts = urlsplit(url)
        if has_credentials and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            yield f"{field} names plain http, which would show the credentials to the network: it must be https"
            return


def _with_scheme(host: str, scheme: str = "https") -> str:
    return host if "://" in host else f"{scheme}://{host}"


def _with_port(url: str, port: int | None) -> str:
    """Return a URL with a port, if it has none itself, and without a slash at its end."""
    parts = urlsplit(url)
    netloc = parts.netloc if parts.port is not None or port is None else f"{parts.netloc}:{port}"
    return parts._replace(netloc=netloc).geturl().rstrip("/")


def connection_base_url(connection: Connection) -> str:
    """Return what paths are below, without a slash at its end.

    :raises ValueError: the host is none.
    """
    # As Airflow's HttpHook puts it together; but without a schema it is https.
    return _with_port(_with_scheme(connection.host or "", connection.path or "https"), connection.port)


def resolve_url(base: str, url: str) -> str:
    """Return an address that is given whole, from the host's root (``/token``), or below a base (``token``)."""
    return urljoin(f"{base}/", url)


def allowed_origins_of(connection: Connection) -> list[Origin]:
    """Return the hosts that links may lead to beside the own one: https, unless they say otherwise.

    :raises ValueError: one of them is no host.
    """
    value = connection.extra.get("allowed_hosts") or []
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError
    urls = [_with_scheme(name.strip()) for name in names]
    if any(urlsplit(url).path not in ("", "/") or urlsplit(url).query for url in urls):
        raise ValueError
    return [origin_of(url) for url in urls]


def text_mapping(connection: Connection, name: str) -> dict[str, str]:
    """Return an extra field that is an object of texts.

    :raises ConfigError: it is none.
    """
    value: Any = connection.extra.get(name)
    if value is None or value == "":
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for text in value.values()):
        raise ConfigError(f'extra field {name!r} must be an object of texts, such as {{"name": "text"}}')
    return dict(value)


def host_problem(host: str, port: int | None) -> str | None:
    """Say what is wrong with a host, without showing it; None when nothing is.

    :param host: a name, or a URL of a name alone. Plain http is for this machine only: it shows the credentials.
    :param port: named beside the host, if it is.
    """
    try:
        parts = urlsplit(_with_scheme(host))
        name, own_port = parts.hostname, parts.port
    except ValueError:
        return "host must be 'name' or 'https://name', and is neither a name nor a URL"
    if not name or "@" in parts.netloc or parts.query or parts.fragment or parts.path not in ("", "/"):
        return "host must be 'name' or 'https://name', without user, path or query"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(name)):
        return "host must be reached by https: plain http would show the credentials to the network"
    if None not in (port, own_port) and port != own_port:
        return "host must be without a port, or name the one beside it: these are two different ports"
    return None


def base_url(host: str, port: int | None) -> str:
    """Return scheme, name and port of a host that has no problem, without a slash behind them."""
    return _with_port(_with_scheme(host), port)


def is_loopback(name: str) -> bool:
    """Tell whether a host is this machine, by its name alone."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
