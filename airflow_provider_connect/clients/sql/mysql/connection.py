"""PyMySQL's arguments for Airflow's ``mysql`` connection.

Fields: ``MySqlHook`` of apache-airflow-providers-mysql (2026-11), whose schema field is the database, and
https://dev.mysql.com/doc/refman/8.4/en/connection-options.html#option_general_ssl-mode.
"""

from __future__ import annotations

import json
import ssl
from typing import Any

from airflow_provider_connect.clients.sql.startup_settings import mysql_problem
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.secrets import Secrets

PASSED_FIELDS = {"connect_timeout", "init_command", "ssl", "ssl_mode", "unix_socket"}
IGNORED_FIELDS = {"charset", "client", "conv", "cursor", "use_unicode"}
"""Fields of Airflow's hook without effect."""
_SSL_MODES = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
_SSL_FIELDS = {"ca", "capath", "cert", "check_hostname", "cipher", "key"}


def connection_problems(connection: Connection) -> list[str]:
    """Validate a connection without network. Returns the problems."""
    problems = []
    if connection.extra.get("iam"):
        problems.append("extra field 'iam' requests an AWS token, which is not supported: set login and password")
    if connection.extra.get("local_infile") not in (None, "", False, 0, "0", "false", "False"):
        problems.append("extra field 'local_infile' lets the server read files of this machine: leave it out")
    if (command := connection.extra.get("init_command")) and (problem := mysql_problem(str(command))):
        problems.append(problem)
    for name, value in connection.extra.items():
        if name not in PASSED_FIELDS | IGNORED_FIELDS | {"iam", "local_infile"} and value not in (None, "", False):
            problems.append(f"extra field {name!r} is unknown")
    mode = connection.extra.get("ssl_mode")
    if mode and str(mode).upper() not in _SSL_MODES:
        problems.append(f"extra field 'ssl_mode' must be one of {', '.join(_SSL_MODES)}")
    try:
        unknown = sorted(set(_ssl_options(connection)) - _SSL_FIELDS)
        problems += [f"extra field 'ssl': {name!r} is not one of {', '.join(sorted(_SSL_FIELDS))}" for name in unknown]
    except ValueError:
        problems.append('extra field \'ssl\' must be an object, such as {"ca": "/etc/ssl/ca.pem"}')
    return [f"connection {connection.conn_id!r}: {problem}" for problem in problems]


def connect_arguments(connection: Connection, connect_seconds: float) -> dict[str, Any]:
    """Return PyMySQL's arguments. Raises ConfigError for an unreadable certificate."""
    password = connection.password.get_secret_value() if connection.password else ""
    fields = {name: connection.option(name) for name in ("connect_timeout", "init_command", "unix_socket")}
    return {
        "host": connection.host or "localhost",
        "port": connection.port or 3306,
        "user": connection.login.get_secret_value() if connection.login else None,
        "password": password.encode(),  # PyMySQL would encode it in Latin-1
        "database": connection.path or None,
        "unix_socket": fields["unix_socket"],
        "init_command": fields["init_command"] or None,
        "connect_timeout": float(fields["connect_timeout"] or connect_seconds),
        **_tls_arguments(connection),
    }


def connection_secrets(connection: Connection) -> Secrets:
    """Return the connection's secrets."""
    return Secrets([connection.password.get_secret_value()] if connection.password else [])


def _ssl_options(connection: Connection) -> dict[str, Any]:
    field = connection.extra.get("ssl") or {}
    ssl_options = json.loads(field) if isinstance(field, str) else field
    if not isinstance(ssl_options, dict):
        raise ValueError("no object")  # json.loads raises the same
    return ssl_options


def _tls_arguments(connection: Connection) -> dict[str, Any]:
    """Return PyMySQL's TLS arguments. Default: TLS if the server supports it.

    With a certificate authority, certificate and host name must match, unless ``ssl_mode`` requires less.
    """
    ssl_options, mode = _ssl_options(connection), str(connection.extra.get("ssl_mode") or "").upper()
    if mode == "DISABLED":
        return {"ssl_disabled": True}
    if not ssl_options and mode in ("", "PREFERRED"):
        return {}
    try:
        context = ssl.create_default_context(cafile=ssl_options.get("ca"), capath=ssl_options.get("capath"))
        # Certificates that servers generate do not pass Python 3.13's strict checks.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        verifies_certificate = mode in ("VERIFY_CA", "VERIFY_IDENTITY") or (
            not mode and bool(ssl_options.get("ca") or ssl_options.get("capath"))
        )
        context.check_hostname = (
            verifies_certificate and mode != "VERIFY_CA" and ssl_options.get("check_hostname", True) is not False
        )
        context.verify_mode = ssl.CERT_REQUIRED if verifies_certificate else ssl.CERT_NONE
        if ssl_options.get("cert"):
            context.load_cert_chain(ssl_options["cert"], keyfile=ssl_options.get("key"))
        if ssl_options.get("cipher"):
            context.set_ciphers(ssl_options["cipher"])
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"connection {connection.conn_id!r}: extra field 'ssl' cannot be used ({type(error).__name__}): "
            "correct its files"
        ) from None
    return {"ssl": context}
