"""Finds a notebook's connection by a reference, which holds no secret.

A reference is one of

* the name of an environment variable that holds a connection in Airflow's JSON form
  (https://airflow.apache.org/docs/apache-airflow/stable/howto/connection.html, 2026-11); the default is Airflow's own
  name, ``AIRFLOW_CONN_<CONN_ID>``. Set it before Spark starts: a child process of the JVM plans sources, and has the
  JVM's environment;
* the absolute path of a file with the same JSON that nobody else may read (mode 0600).

It is resolved on the driver. Executors get the connection inside a pickled task, which Spark never prints.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from airflow_provider_connect.config import describe
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError

_REFERENCE = re.compile(r"/.+|[A-Za-z_][A-Za-z0-9_]*")
_OWN_NAMES = {"schema": "path"}
_UNUSED = {"description", "conn_id"}


def resolve(reference: str | None, conn_id: str) -> Connection:
    """Return the connection that a reference names.

    :param reference: None for ``AIRFLOW_CONN_<CONN_ID>``.
    :raises ConfigError: if there is nothing, others can read the file, or it holds no connection.
    """
    place = reference or f"AIRFLOW_CONN_{conn_id.upper()}"
    if not _REFERENCE.fullmatch(place):
        # Not printed: it may be the connection itself.
        raise ConfigError(
            "option 'connection' is neither the name of an environment variable nor an absolute path: name the place "
            "of the connection, not the connection itself"
        )
    return _parse(_private_text(Path(place)) if place.startswith("/") else _variable(place), conn_id, place)


def _variable(name: str) -> str:
    text = os.environ.get(name)
    if not text:
        raise ConfigError(
            f"environment variable {name} is not set on Spark's driver: set it before Spark starts, or give "
            "option 'connection' the absolute path of a private file"
        )
    return text


def _private_text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise ConfigError(f"connection file {path} is open to other users: chmod 600 it")
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"connection file {path} cannot be read ({type(error).__name__})") from None


def _parse(text: str, conn_id: str, place: str) -> Connection:
    fields = _json_object(text, place)
    extra = fields.pop("extra", None) or {}
    if isinstance(extra, str):
        extra = _json_object(extra, f"extra of {place}")
    known = {_OWN_NAMES.get(name, name): value for name, value in fields.items() if name not in _UNUSED}
    for name in ("host", "path", "login", "password"):
        known[name] = known.get(name) or None
    try:
        return Connection(**known, conn_id=conn_id, extra=extra)
    except ValidationError as error:
        raise ConfigError(f"{place}: {describe(Connection, error)}") from None


def _json_object(text: str, place: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f"{place} holds no JSON object: write the connection as JSON, not as a URI")
    return found
