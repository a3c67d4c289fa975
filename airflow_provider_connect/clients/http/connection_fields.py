"""Reads and checks the fields of an Airflow connection of type ``http``."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, cast, get_args
from urllib.parse import urljoin, urlsplit

from pydantic import SecretStr

from airflow_provider_connect.clients.http.certificates import ca_bundle_problem
from airflow_provider_connect.clients.http.named_credentials import FIELD, named_credentials_problems
from airflow_provider_connect.clients.http.proxies import ENVIRONMENT, is_proxy_url
from airflow_provider_connect.clients.http.route import Origin, origin_of
from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError

AuthKind = Literal["none", "basic", "bearer", "api_key", "oauth2_client_credentials", "oauth2_refresh_token", "session"]

RESERVED_HEADERS = frozenset(
    {"accept-encoding", "connection", "content-length", "expect", "host", "te", "transfer-encoding", "upgrade"}
)
"""Headers that only the client may set."""

_COMMON = ("auth", FIELD, "headers", "allowed_hosts", "proxy", "ca_bundle")
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
    """Return ``auth``, by default HTTP Basic with a login, else none, like HttpHook."""
    default = "basic" if _is_filled(connection.login) else "none"
    return cast(AuthKind, connection.option("auth") or default)


def connection_problems(connection: Connection, extra_fields: Collection[str]) -> list[str]:
    """Return every problem of a connection."""
    checks = (
        partial(_unknown_fields, extra_fields=extra_fields),
        _auth_problems,
        _login_problems,
        _host_problems,
        named_credentials_problems,
        _text_problems,
        proxy_problems,
        ca_bundle_problems,
        _http_problems,
    )
    return collect_problems(connection, checks)


def collect_problems(connection: Connection, checks: Iterable[Callable[[Connection], Iterable[str]]]) -> list[str]:
    """Run checks on a connection. Returns each problem once."""
    problems: list[str] = []
    for check in checks:
        try:
            problems += check(connection)
        except ConfigError as error:  # an extra field that is not text
            problems.append(str(error).removeprefix(f"connection {connection.conn_id!r}: "))
    return [f"connection {connection.conn_id!r}: {problem}" for problem in dict.fromkeys(problems)]


def _is_filled(secret: SecretStr | None) -> bool:
    return secret is not None and secret.get_secret_value() != ""


def _unknown_fields(connection: Connection, extra_fields: Collection[str]) -> Iterator[str]:
    known_fields = {*_COMMON, *extra_fields, *(name for names in _FIELDS.values() for name in names)}
    allowed_fields = {*_COMMON, *extra_fields, *_FIELDS.get(auth_kind_of(connection), known_fields)}
    for name, value in connection.extra.items():
        if name not in known_fields:
            yield (
                f"unknown extra field {name!r}; {suggest_nearest(name, known_fields)}; put another header into "
                "'headers'"
            )
        elif name not in allowed_fields and value not in (None, ""):
            users = [kind for kind, names in _FIELDS.items() if name in names]
            yield f"extra field {name!r} has no effect here. It belongs to auth {' or '.join(map(repr, users))}"


def _auth_problems(connection: Connection) -> Iterator[str]:
    for name, choices in _CHOICES.items():
        value = connection.option(name)
        if value is not None and value not in choices:
            yield f"extra field {name!r} is not one of {', '.join(choices)}"
    for name in _REQUIRED.get(auth_kind_of(connection), ()):
        if connection.option(name) is None:
            yield f"extra lacks {name!r}, which auth {auth_kind_of(connection)!r} requires"


def _login_problems(connection: Connection) -> Iterator[str]:
    kind = auth_kind_of(connection)
    if kind == "none":
        if _is_filled(connection.password) and connection.option("auth") is None and not connection.extra.get(FIELD):
            yield (
                "it has a password without a login: set 'auth' in the extra to 'bearer' or 'api_key', or enter a "
                "login for HTTP Basic"
            )
        return
    if kind not in _FIELDS:  # reported already, and might be a misplaced secret
        return
    if kind not in ("basic", "oauth2_refresh_token") and not _is_filled(connection.password):
        yield f"password is empty; auth {kind!r} requires it"
    if kind.startswith(("basic", "oauth2", "session")) and not _is_filled(connection.login):
        yield f"login is empty; auth {kind!r} requires it"
    by_basic = kind == "basic" or (kind.startswith("oauth2") and connection.option("client_auth") != "body")
    if by_basic and connection.login is not None and ":" in connection.login.get_secret_value():
        yield "login contains a colon, which HTTP Basic does not allow"


def _host_problems(connection: Connection) -> Iterator[str]:
    if not connection.host:
        yield "host is empty. Enter the API's host, as 'name' or 'https://name/path'"
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
        yield "host contains another port than the field port"


def _text_problems(connection: Connection) -> Iterator[str]:
    text_mapping(connection, "auth_params")
    for name in text_mapping(connection, "headers"):
        if name.lower() in RESERVED_HEADERS:
            yield f"extra field 'headers': {name!r} is set by the client"
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
    """Return the problem of a host that replaces the vendor's, if any."""
    problem = host_problem(connection.host, connection.port) if connection.host else None
    return [problem] if problem else []


def proxy_problems(connection: Connection) -> Iterator[str]:
    """Yield the problem of ``proxy``, if any."""
    proxy = connection.option("proxy")
    if proxy not in (None, ENVIRONMENT) and not is_proxy_url(proxy):
        yield f"extra field 'proxy' is not an http or https URL, nor {ENVIRONMENT!r}"


def ca_bundle_problems(connection: Connection) -> Iterator[str]:
    """Yield the problem of ``ca_bundle``, if any."""
    ca_bundle = connection.option("ca_bundle")
    problem = ca_bundle_problem(ca_bundle) if ca_bundle is not None else None
    if problem is not None:
        yield f"extra field {problem}"


def _http_problems(connection: Connection) -> Iterator[str]:
    has_credentials = (
        auth_kind_of(connection) != "none"
        or bool(text_mapping(connection, "headers"))
        or bool(connection.extra.get(FIELD))
    )
    urls: dict[str, str] = {}
    try:
        urls["schema or host"] = connection_base_url(connection)
        urls["extra field 'auth_url'"] = resolve_url(urls["schema or host"], connection.option("auth_url") or "")
    except ValueError:
        return
    for field, url in urls.items():
        parts = urlsplit(url)
        if has_credentials and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            yield f"{field} uses plain http, which would expose the credentials to the network: use https"
            return


def _with_scheme(host: str, scheme: str = "https") -> str:
    return host if "://" in host else f"{scheme}://{host}"


def _with_port(url: str, port: int | None) -> str:
    parts = urlsplit(url)
    netloc = parts.netloc if parts.port is not None or port is None else f"{parts.netloc}:{port}"
    return parts._replace(netloc=netloc).geturl().rstrip("/")


def connection_base_url(connection: Connection) -> str:
    """Return the base of all paths, without a final slash. Raises ValueError for an invalid host."""
    # As Airflow's HttpHook puts it together; but without a schema it is https.
    return _with_port(_with_scheme(connection.host or "", connection.path or "https"), connection.port)


def resolve_url(base: str, url: str) -> str:
    """Resolve a full URL, or a path from the host's root (``/token``) or below the base (``token``)."""
    return urljoin(f"{base}/", url)


def allowed_origins_of(connection: Connection) -> list[Origin]:
    """Return ``allowed_hosts``, with https by default. Raises ValueError for an invalid entry."""
    value = connection.extra.get("allowed_hosts") or []
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError
    urls = [_with_scheme(name.strip()) for name in names]
    if any(urlsplit(url).path not in ("", "/") or urlsplit(url).query for url in urls):
        raise ValueError
    return [origin_of(url) for url in urls]


def text_mapping(connection: Connection, name: str) -> dict[str, str]:
    """Return an extra field that maps names to texts, or {}. Raises ConfigError for another form."""
    value: Any = connection.extra.get(name)
    if value is None or value == "":
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for text in value.values()):
        raise ConfigError(f'extra field {name!r} must map names to texts, such as {{"name": "text"}}')
    return dict(value)


def host_problem(host: str, port: int | None) -> str | None:
    """Return the problem of a host, without quoting it, or None.

    :param host: a name, or a URL without a path, with plain http for this machine only.
    """
    try:
        parts = urlsplit(_with_scheme(host))
        name, own_port = parts.hostname, parts.port
    except ValueError:
        return "host must be 'name' or 'https://name'"
    if not name or "@" in parts.netloc or parts.query or parts.fragment or parts.path not in ("", "/"):
        return "host must be 'name' or 'https://name', without user, path or query"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(name)):
        return "host must be reached by https: plain http would expose the credentials to the network"
    if None not in (port, own_port) and port != own_port:
        return "host contains another port than the field port"
    return None


def base_url(host: str, port: int | None) -> str:
    """Return scheme, name and port of a valid host, without a final slash."""
    return _with_port(_with_scheme(host), port)


def is_loopback(name: str) -> bool:
    """Return True for a name of this machine."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
