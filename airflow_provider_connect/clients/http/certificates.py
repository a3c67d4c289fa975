"""TLS trust: the public authorities, and the connection's."""

from __future__ import annotations

import functools
import os
import re
import ssl
from pathlib import Path

from airflow_provider_connect.errors import ConfigError

_PEM = "-----BEGIN"
_CERTIFICATE = re.compile(
    r"-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[A-Za-z0-9+/=\s]*-----END (?:TRUSTED |X509 )?CERTIFICATE-----"
)
"""Matches certificates only, not a private key or text around them."""


def ca_bundle_problem(ca_bundle: str) -> str | None:
    """Return the problem of a ``ca_bundle`` (absolute local path, or PEM text), or None."""
    try:
        _trust(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ca_bundle, "ca_bundle")
    except ConfigError as error:
        return str(error)
    return None


@functools.lru_cache(maxsize=16)  # takes as long as a request
def tls_context(ca_bundle: str | None, environment_bundles: tuple[tuple[str, str], ...] = ()) -> ssl.SSLContext:
    """Return a TLS client context that verifies certificates and host names.

    :param ca_bundle: further authorities.
    :param environment_bundles: (variable, path) pairs of files or OpenSSL folders.
    :raises ConfigError: a file contains no certificate.
    """
    from requests.utils import DEFAULT_CA_BUNDLE_PATH  # noqa: PLC0415  # slow to import in a DAG file

    context = ssl.create_default_context(cafile=DEFAULT_CA_BUNDLE_PATH)
    for name, path in environment_bundles:
        if Path(path).is_dir():
            context.load_verify_locations(capath=path)
        else:
            _trust(context, path, f"the environment's {name}")
    if ca_bundle is not None:
        _trust(context, ca_bundle, "ca_bundle")
    if ca_bundle is not None or environment_bundles:
        # Python 3.13 and later ask for key identifiers, which authorities of proxies often lack. Chain, dates and host
        # name are checked all the same.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _trust(context: ssl.SSLContext, ca_bundle: str, name: str) -> None:
    certificates = _CERTIFICATE.findall(_text(ca_bundle, name))
    if not certificates:
        raise ConfigError(f"{name} contains no certificate in PEM form")
    try:
        context.load_verify_locations(cadata="\n".join(certificates))
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"{name} contains an unreadable certificate") from None


def _text(ca_bundle: str, name: str) -> str:
    if _PEM in ca_bundle:
        return ca_bundle
    path = Path(ca_bundle)
    if not path.is_absolute():
        raise ConfigError(f"{name} must be an absolute path, or PEM text")
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "not a path"
        raise ConfigError(
            f"{name} names a file that this machine cannot read ({reason}). Put it on the worker and on every Spark "
            "node, or put PEM text into the connection"
        ) from None
