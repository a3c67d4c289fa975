"""Where a server is: the host and port of an Airflow connection, checked and made a URL."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


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
    parts = urlsplit(_with_scheme(host))
    has_port = parts.port is not None or port is None
    return f"{parts.scheme}://{parts.netloc if has_port else f'{parts.netloc}:{port}'}"


def _with_scheme(host: str) -> str:
    return host if "://" in host else f"https://{host}"


def is_loopback(name: str) -> bool:
    """Tell whether a host is this machine, by its name alone."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
