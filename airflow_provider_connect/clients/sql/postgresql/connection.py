"""libpq's parameters for Airflow's ``postgres`` connection.

Names: https://www.postgresql.org/docs/18/libpq-connect.html#LIBPQ-PARAMKEYWORDS and ``PostgresHook`` of
apache-airflow-providers-postgres (2026-11), whose schema field is the database.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_connect.clients.sql.startup_settings import postgresql_problem
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.secrets import Secrets, is_secret_name

PASSED_FIELDS = {
    "channel_binding", "connect_timeout", "gssencmode", "hostaddr", "keepalives", "keepalives_count",
    "keepalives_idle", "keepalives_interval", "krbsrvname", "load_balance_hosts", "options", "passfile", "require_auth",
    "service", "sslcert", "sslcertmode", "sslcrl", "sslcrldir", "sslkey", "sslmode", "sslnegotiation", "sslpassword",
    "sslrootcert", "ssl_max_protocol_version", "ssl_min_protocol_version", "target_session_attrs", "tcp_user_timeout",
}  # fmt: skip
IGNORED_FIELDS = {"application_name", "client_encoding", "cursor", "log_sql", "sqlalchemy_query", "sqlalchemy_scheme"}
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
# A lost server is noticed after two minutes instead of the two hours of most systems.
_KEEPALIVE_DEFAULTS = {"keepalives_idle": "60", "keepalives_interval": "10", "keepalives_count": "6"}


def connection_problems(connection: Connection) -> list[str]:
    """Validate a connection without network. Returns the problems."""
    problems = []
    if not connection.path and not connection.extra.get("service"):
        problems.append("its schema field is empty: name the database")
    if connection.extra.get("iam"):
        problems.append("extra field 'iam' requests an AWS token, which is not supported: set login and password")
    for name, value in connection.extra.items():
        if name in PASSED_FIELDS:
            if not isinstance(value, (str, int)):
                problems.append(f"extra field {name!r} must be text or a number")
        elif name not in IGNORED_FIELDS | {"iam"} and value not in (None, "", False):
            problems.append(f"extra field {name!r} is not a supported libpq parameter")
    if problem := postgresql_problem(str(connection.extra.get("options") or "")):
        problems.append(problem)
    mode = connection.extra.get("sslmode")
    if mode and mode not in _SSL_MODES:
        problems.append(f"extra field 'sslmode' must be one of {', '.join(_SSL_MODES)}")
    return [f"connection {connection.conn_id!r}: {problem}" for problem in problems]


def connect_parameters(connection: Connection, application_name: str, connect_seconds: float) -> dict[str, Any]:
    """Return libpq's parameters."""
    extra_fields = {
        name: str(value) for name, value in connection.extra.items() if name in PASSED_FIELDS and value != ""
    }
    return {
        "host": connection.host or None,
        "port": connection.port,
        "dbname": connection.path or None,
        "user": connection.login.get_secret_value() if connection.login else None,
        "password": connection.password.get_secret_value() if connection.password else None,
        "application_name": application_name,
        "connect_timeout": max(2, round(connect_seconds)),
        **_KEEPALIVE_DEFAULTS,
        **extra_fields,
    }


def connection_secrets(connection: Connection) -> Secrets:
    """Return the connection's secrets."""
    password = connection.password.get_secret_value() if connection.password else ""
    secret_values = [str(value) for name, value in connection.extra.items() if value and is_secret_name(name)]
    # The path of a key is not secret and may be shown.
    return Secrets([password, *(value for value in secret_values if not value.startswith("/"))])
