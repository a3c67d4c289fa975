"""What is wrong with a connection to a database, before anything is asked."""

from __future__ import annotations

from airflow_provider_connect.clients.sql.mysql import connection as mysql
from airflow_provider_connect.clients.sql.postgresql import connection as postgresql
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sources._sql.options import MYSQL, POSTGRES, SQLITE, SqlOptions


def connection_problems(options: SqlOptions, connection: Connection) -> list[str]:
    """Say what is wrong with a connection; [] if nothing is. No network."""
    about = f"connection {connection.conn_id!r}"
    kind, host = connection.conn_type, connection.host or ""
    if kind not in (POSTGRES, MYSQL, SQLITE):
        return [f"{about}: type {kind!r} is no database that can be read: use postgres, mysql or sqlite"]
    if kind == SQLITE:
        found = [] if host else [f"{about}: host: give the path of the database's file"]
        if (options.parallel_chunks or 1) > 1:
            found.append("parallel_chunks: one connection alone sees one state of a file of SQLite: leave it out")
        if "timestamp" in (options.mode or ""):
            found.append("mode: SQLite has no times to follow, only texts: use incrementing")
        return found
    found = [f"{about}: host: give a name or an address, not a URL"] if "://" in host or "@" in host else []
    if kind == MYSQL and not connection.path and options.table is not None and not options.what_schema:
        found.append(f"{about}: schema: name the database, or give table='database.table'")
    return found + (postgresql.problems(connection) if kind == POSTGRES else mysql.problems(connection))
