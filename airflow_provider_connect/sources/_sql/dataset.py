"""What lineage calls a table, as https://openlineage.io/docs/spec/naming has it (2026-11); SQLite has no name there."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_provider_connect.clients.sql.opening import MYSQL, POSTGRESQL
from airflow_provider_connect.connection import Connection, Dataset
from airflow_provider_connect.sources._sql.names import table_of
from airflow_provider_connect.sources._sql.options import JDBC, SqlOptions

_SERVER = re.compile(r"jdbc:(?P<kind>\w+)[^/]*//(?P<host>[\w.:\[\]-]+)(?=[/;?,]|$)(?!.*@)")
"""Of a JDBC URL nothing else is told, and nothing of one with an '@': what is before it may be a password."""


def dataset_of(options: SqlOptions, connection: Connection) -> Dataset:
    """Return the dataset of a stream. A query is no table: it is called after its stream."""
    table = table_of(options.table) if options.table is not None else None
    name, schema = (table.name, table.schema) if table else (f"query/{options.stream_name}", "")
    # Only the first of several hosts: they serve the same rows.
    host = (connection.host or "localhost").rpartition("@")[2].partition(",")[0]
    if connection.conn_type in POSTGRESQL:
        server = f"postgres://{host}:{connection.port or 5432}"
        return Dataset(server, _joined(connection.path, schema or ("public" if table else ""), name))
    if connection.conn_type in MYSQL:
        return Dataset(f"mysql://{host}:{connection.port or 3306}", _joined(schema or connection.path, name))
    if connection.conn_type == JDBC:
        found = _SERVER.match(connection.host or "")
        server = f"{found['kind']}://{found['host']}" if found else f"{JDBC}://{connection.conn_id}"
        return Dataset(server, _joined(schema, name))
    return Dataset(f"sqlite://{Path(connection.host or '').absolute()}", name)


def _joined(*parts: str | None) -> str:
    return ".".join(filter(None, parts))
