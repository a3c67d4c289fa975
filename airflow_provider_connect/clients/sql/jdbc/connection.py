"""Connections of type ``jdbc``: validation, and options for Spark's reader."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from airflow_provider_connect.clients.sql.database import SessionLimits
from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import refuse_any
from airflow_provider_connect.secrets import Secrets, is_secret_name

JDBC = "jdbc"
DRIVER_CLASS, PROPERTIES, FETCH_SIZE, SESSION_INIT = "driver_class", "properties", "fetchsize", "session_init_statement"
DEFAULT_FETCH_ROWS = 10_000
"""Rows per fetch."""
_EXTRA_FIELDS = (DRIVER_CLASS, PROPERTIES, FETCH_SIZE, SESSION_INIT)
_IGNORED_FIELDS = ("driver_path", "sqlalchemy_scheme", "sqlalchemy_driver", "sqlalchemy_query", "placeholder")
"""Fields of Airflow's hook without effect: an editor of a connection must not choose a jar."""
_OWN_READERS = {"postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql", "sqlite": "sqlite"}
_USER_INFO = re.compile(r"//[^/?;]*@|^jdbc:oracle:\w+:[^@]*/[^@]*@", re.IGNORECASE)
_URL_FIELD = re.compile(r"[?&;:,({]\s*([\w.\- ]+?)\s*=")
_LOGIN_FIELDS = ("user", "username", "uid", "user name", "pwd", "login")
_SPARK_OPTIONS = {
    "url", "user", "password", "driver", "dbtable", "query", "partitioncolumn", "lowerbound", "upperbound",
    "numpartitions", "querytimeout", "batchsize", "fetchsize", "truncate", "cascadetruncate", "createtableoptions",
    "createtablecolumntypes", "customschema", "sessioninitstatement", "pushdownpredicate", "pushdownaggregate",
    "pushdownlimit", "pushdownoffset", "pushdowntablesample", "pushdownjoin", "keytab", "principal",
    "refreshkrb5config", "connectionprovider", "preparequery", "prefertimestampntz", "hint", "isolationlevel",
    "tablecomment",
}  # fmt: skip


def connection_problems(connection: Connection) -> list[str]:
    """Validate a connection without network, and return the problems."""
    label = f"connection {connection.conn_id!r}"
    return [f"{label}: {text}" for text in (*_url_problems(connection.host or ""), *_extra_problems(connection))]


def _url_problems(url: str) -> Iterator[str]:
    if not url.lower().startswith("jdbc:") or url != url.strip():
        yield "host: give the JDBC URL, such as jdbc:sqlserver://host;databaseName=shop"
        return
    subprotocol = url.split(":")[1].lower()
    if (conn_type := _OWN_READERS.get(subprotocol)) is not None:
        yield f"host: jdbc:{subprotocol} is read exactly without JDBC: use a connection of type {conn_type}"
    if _USER_INFO.search(url):
        yield "host: the URL contains a user or a password: set login and password instead"
    for name in _URL_FIELD.findall(url):
        if name.lower() in _LOGIN_FIELDS or is_secret_name(name):
            yield f"host: the URL contains {name}: set login and password, and other secrets as properties in extra"


def _extra_problems(connection: Connection) -> Iterator[str]:
    extra = connection.extra
    for name in extra:
        if name not in _EXTRA_FIELDS and name not in _IGNORED_FIELDS:
            yield f"extra: unknown field {name!r}; {suggest_nearest(name, _EXTRA_FIELDS)}"
    for name in (DRIVER_CLASS, SESSION_INIT):
        if not isinstance(extra.get(name, ""), str):
            yield f"extra: {name} must be text"
    if (rows := _parse_whole_number(extra.get(FETCH_SIZE, DEFAULT_FETCH_ROWS))) is None or rows < 1:
        yield f"extra: {FETCH_SIZE} must be a whole number above 0"
    properties = extra.get(PROPERTIES, {})
    if not isinstance(properties, dict) or not all(isinstance(value, str | int) for value in properties.values()):
        yield f"extra: {PROPERTIES} must be an object of texts with the driver's settings"
        return
    for name in properties:
        if name.lower() in _SPARK_OPTIONS:
            yield f"extra: {PROPERTIES}: {name!r} is set by this package and must not be given"


def _parse_whole_number(value: object) -> int | None:
    return int(str(value)) if re.fullmatch(r"[0-9]{1,9}", str(value)) else None


def reader_options(connection: Connection, relation: str, limits: SessionLimits) -> dict[str, str]:
    """Return the options for Spark's reader. They contain the password: never print them.

    :param relation: a SELECT in brackets with an alias.
    """
    refuse_any(connection_problems(connection))
    extra = connection.extra
    options = {name: _property_text(value) for name, value in extra.get(PROPERTIES, {}).items()}
    options |= {
        "url": connection.host or "",
        "dbtable": relation,
        "fetchsize": str(extra.get(FETCH_SIZE, DEFAULT_FETCH_ROWS)),
        "queryTimeout": str(math.ceil(limits.statement_seconds)),
        # Timestamps without a zone stay without one.
        "preferTimestampNTZ": "true",
    }
    for name, secret in (("user", connection.login), ("password", connection.password)):
        if secret is not None:
            options[name] = secret.get_secret_value()
    for name, field in (("driver", DRIVER_CLASS), ("sessionInitStatement", SESSION_INIT)):
        if extra.get(field):
            options[name] = extra[field]
    return options


def connection_secrets(connection: Connection) -> Secrets:
    """Return the secrets to remove from messages."""
    properties = connection.extra.get(PROPERTIES) or {}
    secret_values = [str(value) for name, value in properties.items() if is_secret_name(name)]
    return Secrets([*secret_values, connection.password.get_secret_value() if connection.password else ""])


def _property_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
