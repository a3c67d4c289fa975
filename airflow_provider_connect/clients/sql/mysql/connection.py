"""Airflow's own ``mysql`` connection as PyMySQL's arguments.

Fields: ``MySqlHook`` of apache-airflow-providers-mysql (2026-11), whose schema field is the database, and
https://dev.mysql.com/doc/refman/8.4/en/connection-options.html#option_general_ssl-mode.
"""

from __future__ import annotations

import json
import ssl
from typing import Any

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.secrets import Secrets

PASSED_FIELDS = {"connect_timeout", "ssl", "ssl_mode", "unix_socket"}
IGNORED_FIELDS = {"charset", "client", "conv", "cursor", "local_infile", "use_unicode"}
"""Fields of Airflow's hook that change nothing here: the session has its own character set, and reads no files."""
_SSL_MODES = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
_SSL_FIELDS = {"ca", "capath", "cert", "check_hostname", "cipher", "key"}


def connection_problems(connection: Connection) -> list[str]:
    """Return what is wrong with a connection; no network is asked."""
    found = []
    if connection.extra.get("iam"):
        found.append("extra field 'iam' asks for a token of AWS, which is not supported: give login and password")
    for name, value in connection.extra.items():
        if name not in PASSED_FIELDS | IGNORED_FIELDS | {"iam"} and value not in (None, "", False):
            found.append(f"extra field {name!r} is none that is known here")
    mode = connection.extra.get("ssl_mode")
    if mode and str(mode).upper() not in _SSL_MODES:
        found.append(f"extra field 'ssl_mode' must be one of {', '.join(_SSL_MODES)}")
    try:
        unknown = sorted(set(_ssl(connection)) - _SSL_FIELDS)
        found += [f"extra field 'ssl': {name!r} is none of {', '.join(sorted(_SSL_FIELDS))}" for name in unknown]
    except ValueError:
        found.append('extra field \'ssl\' must be an object, such as {"ca": "/etc/ssl/ca.pem"}')
    return [f"connection {connection.conn_id!r}: {problem}" for problem in found]


def connect_arguments(connection: Connection, connect_seconds: float) -> dict[str, Any]:
    """Return what PyMySQL connects with.

    :raises ConfigError: if a certificate cannot be read.
    """
    password = connection.password.get_secret_value() if connection.password else ""
    given = {name: connection.option(name) for name in ("connect_timeout", "unix_socket")}
    return {
        "host": connection.host or "localhost",
        "port": connection.port or 3306,
        "user": connection.login.get_secret_value() if connection.login else None,
        "password": password.encode(),  # PyMySQL would have it in Latin-1
        "database": connection.path or None,
        "unix_socket": given["unix_socket"],
        "connect_timeout": float(given["connect_timeout"] or connect_seconds),
        **_tls(connection),
    }


def connection_secrets(connection: Connection) -> Secrets:
    """Return what no message may show."""
    return Secrets([connection.password.get_secret_value()] if connection.password else [])


def _ssl(connection: Connection) -> dict[str, Any]:
    given = connection.extra.get("ssl") or {}
    found = json.loads(given) if isinstance(given, str) else given
    if not isinstance(found, dict):
        raise ValueError("no object")  # as json.loads does
    return found


def _tls(connection: Connection) -> dict[str, Any]:
    """Return PyMySQL's arguments for TLS: none means that it is used if the server has it.

    A certificate of an authority is given to be compared with, so the server's must fit, its name included, unless
    ``ssl_mode`` says less.
    """
    given, mode = _ssl(connection), str(connection.extra.get("ssl_mode") or "").upper()
    if mode == "DISABLED":
        return {"ssl_disabled": True}
    if not given and mode in ("", "PREFERRED"):
        return {}
    try:
        context = ssl.create_default_context(cafile=given.get("ca"), capath=given.get("capath"))
        # The certificates that a server makes for itself are not as strict as Python 3.13 wants them.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        verifies = mode in ("VERIFY_CA", "VERIFY_IDENTITY") or (
            not mode and bool(given.get("ca") or given.get("capath"))
        )
        context.check_hostname = verifies and mode != "VERIFY_CA" and given.get("check_hostname", True) is not False
        context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
        if given.get("cert"):
            context.load_cert_chain(given["cert"], keyfile=given.get("key"))
        if given.get("cipher"):
            context.set_ciphers(given["cipher"])
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"connection {connection.conn_id!r}: extra field 'ssl' cannot be used ({type(error).__name__}): "
            "correct its files"
        ) from None
    return {"ssl": context}
