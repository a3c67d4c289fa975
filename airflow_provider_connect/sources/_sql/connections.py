"""Validation of connections without network, and the lineage dataset of a stream.

Names: https://openlineage.io/docs/spec/naming (2026-11), except SQLite's.
"""

from __future__ import annotations

import re
from pathlib import Path

from airflow_provider_connect.clients.sql.database import decimal_digits
from airflow_provider_connect.clients.sql.jdbc import connection as jdbc
from airflow_provider_connect.clients.sql.mysql import connection as mysql
from airflow_provider_connect.clients.sql.postgresql import connection as postgresql
from airflow_provider_connect.connection import Connection, Dataset
from airflow_provider_connect.sources._sql.options import JDBC, MYSQL, POSTGRES, SQLITE, SqlOptions, parse_table


def validate_connection(options: SqlOptions, connection: Connection) -> list[str]:
    """Return the problems of options and connection. No network."""
    problems = _type_problems(options, connection)
    if options.row_security != "refuse" and connection.conn_type != POSTGRES:
        problems.append("row_security: only connections of type postgres support it")
    return problems


def _type_problems(options: SqlOptions, connection: Connection) -> list[str]:
    label = f"connection {connection.conn_id!r}"
    conn_type, host = connection.conn_type, connection.host or ""
    if conn_type == JDBC:
        problems = jdbc.connection_problems(connection) + _shared_snapshot_problems(options, "a database over JDBC")
        if options.tables is not None:
            problems.append("tables: not supported over JDBC: name one table")
        if options.mode is not None:
            problems.append("mode: not supported over JDBC: use day_column or snapshot")
        if decimal_digits(options.decimals):
            problems.append(f"decimals: {options.decimals!r} is not supported over JDBC: cast the number in a query")
        if options.zero_dates != "fail":
            problems.append("zero_dates: only connections of type mysql support it")
        return problems
    if conn_type not in (POSTGRES, MYSQL, SQLITE):
        return []  # refused where Airflow's connections are resolved, by the source's connection_types
    chunk_problems = (
        []
        if conn_type == POSTGRES
        else _shared_snapshot_problems(options, "a file of SQLite" if conn_type == SQLITE else "MySQL and MariaDB")
    )
    if conn_type == SQLITE:
        problems = chunk_problems if host else [f"{label}: host: give the path of the database's file", *chunk_problems]
        if "timestamp" in (options.mode or ""):
            problems.append("mode: SQLite stores times as texts, which cannot be followed: use mode='incrementing'")
        return problems
    problems = (
        [f"{label}: host: give a name or an address, not a URL", *chunk_problems]
        if "://" in host or "@" in host
        else chunk_problems
    )
    if conn_type == MYSQL and not connection.path and options.table is not None and not options.table_schema:
        problems.append(f"{label}: schema: name the database, or give table='database.table'")
    return problems + (
        postgresql.connection_problems(connection) if conn_type == POSTGRES else mysql.connection_problems(connection)
    )


def _shared_snapshot_problems(options: SqlOptions, subject: str) -> list[str]:
    if options.consistency != "snapshot" or (options.parallel_chunks or 1) == 1:
        return []
    return [f"parallel_chunks: sessions of {subject} cannot share a snapshot: leave it out, or set consistency='chunk'"]


_JDBC_SERVER = re.compile(r"jdbc:(?P<kind>\w+)[^/]*//(?P<host>[\w.:\[\]-]+)(?=[/;?,]|$)(?!.*@)")
"""Database kind and host in a JDBC URL, which lineage shows.

A URL with '@' does not match, since a password may precede it.
"""


def stream_dataset(options: SqlOptions, connection: Connection) -> Dataset:
    """Return the lineage dataset of a table, or of a query, named after the stream."""
    table = parse_table(options.table) if options.table is not None else None
    name, schema = (table.name, table.schema) if table else (f"query/{options.stream_name}", "")
    # The first of several hosts, since all serve the same rows.
    host = (connection.host or "localhost").rpartition("@")[2].partition(",")[0]
    if connection.conn_type == POSTGRES:
        server = f"postgres://{host}:{connection.port or 5432}"
        return Dataset(server, _join_names(connection.path, schema or ("public" if table else ""), name))
    if connection.conn_type == MYSQL:
        return Dataset(f"mysql://{host}:{connection.port or 3306}", _join_names(schema or connection.path, name))
    if connection.conn_type == JDBC:
        url_match = _JDBC_SERVER.match(connection.host or "")
        server = f"{url_match['kind']}://{url_match['host']}" if url_match else f"{JDBC}://{connection.conn_id}"
        return Dataset(server, _join_names(schema, name))
    return Dataset(f"sqlite://{Path(connection.host or '').absolute()}", name)


def _join_names(*parts: str | None) -> str:
    return ".".join(filter(None, parts))
