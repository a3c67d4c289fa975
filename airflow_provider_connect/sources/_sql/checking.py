"""What is wrong with a connection to a database, before anything is asked."""

from __future__ import annotations

from airflow_provider_connect.clients.sql.jdbc import connection as jdbc
from airflow_provider_connect.clients.sql.mysql import connection as mysql
from airflow_provider_connect.clients.sql.postgresql import connection as postgresql
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sources._sql.options import JDBC, MYSQL, POSTGRES, SQLITE, SqlOptions


def connection_problems(options: SqlOptions, connection: Connection) -> list[str]:
    """Say what is wrong with a connection; [] if nothing is. No network."""
    found = _connection_problems(options, connection)
    if options.row_security != "refuse" and connection.conn_type != POSTGRES:
        found.append("row_security: only connections of type postgres take it")
    return found


def _connection_problems(options: SqlOptions, connection: Connection) -> list[str]:
    about = f"connection {connection.conn_id!r}"
    kind, host = connection.conn_type, connection.host or ""
    if kind == JDBC:
        found = jdbc.problems(connection) + _apart(options, "a database over JDBC")
        if options.mode is not None:
            found.append("mode: over JDBC a table is read by day_column or snapshot")
        if options.zero_dates != "fail":
            found.append("zero_dates: it is for a connection of type mysql")
        return found
    if kind not in (POSTGRES, MYSQL, SQLITE):
        return [f"{about}: type {kind!r} is no database that can be read: use postgres, mysql, sqlite or jdbc"]
    apart = [] if kind == POSTGRES else _apart(options, "a file of SQLite" if kind == SQLITE else "MySQL and MariaDB")
    if kind == SQLITE:
        found = apart if host else [f"{about}: host: give the path of the database's file", *apart]
        if "timestamp" in (options.mode or ""):
            found.append("mode: SQLite has no times to follow, only texts: use incrementing")
        return found
    found = [f"{about}: host: give a name or an address, not a URL", *apart] if "://" in host or "@" in host else apart
    if kind == MYSQL and not connection.path and options.table is not None and not options.what_schema:
        found.append(f"{about}: schema: name the database, or give table='database.table'")
    return found + (postgresql.problems(connection) if kind == POSTGRES else mysql.problems(connection))


def _apart(options: SqlOptions, what: str) -> list[str]:
    """Say that sessions of a database share no state, if the options want them to."""
    if options.consistency != "snapshot" or (options.parallel_chunks or 1) == 1:
        return []
    return [f"parallel_chunks: one connection alone sees one state of {what}: leave it out, or set consistency='chunk'"]
