"""Proxies and authorities from environment variables."""

from __future__ import annotations

import os
import urllib.request
from urllib.parse import urlsplit

from pydantic import SecretStr

from airflow_provider_connect.errors import ConfigError

ENVIRONMENT = "environment"
"""Value of a connection's ``proxy`` that applies ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``."""

_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def uses_environment(proxy: SecretStr | None) -> bool:
    """Return True if a connection's ``proxy`` is ``environment``."""
    return proxy is not None and proxy.get_secret_value() == ENVIRONMENT


def is_proxy_url(text: str) -> bool:
    """Return True for the URL of a supported proxy: http or https."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def proxy_for(url: str, proxy: SecretStr | None) -> SecretStr | None:
    """Return the proxy's URL for a request, or None. Raises ConfigError for an invalid environment."""
    if not uses_environment(proxy):
        return proxy
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    proxy_text = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy_text or urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxy_text = _as_url(proxy_text)
    if not is_proxy_url(proxy_text):
        raise ConfigError(f"the environment's proxy for {parts.scheme} is not an http or https URL")
    return SecretStr(proxy_text)


def proxy_urls(proxy: SecretStr | None) -> list[str]:
    """Return all proxies that a connection may use."""
    if uses_environment(proxy):
        urls = [_as_url(proxy_text) for name, proxy_text in urllib.request.getproxies().items() if name != "no"]
        return [url for url in urls if is_proxy_url(url)]
    return [] if proxy is None else [proxy.get_secret_value()]


def environment_bundles(proxy: SecretStr | None) -> tuple[tuple[str, str], ...]:
    """Return (variable, path) of environment variables that name authorities, if ``proxy`` is ``environment``."""
    if not uses_environment(proxy):
        return ()
    return tuple((name, path) for name in _AUTHORITIES for path in os.environ.get(name, "").split(os.pathsep) if path)


def _as_url(proxy: str) -> str:
    return proxy if "://" in proxy else f"http://{proxy}"
