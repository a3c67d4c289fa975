"""Opens database sessions by the connection's type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_connect.clients.sql.database import Database, RowSecurity, SessionLimits
from airflow_provider_connect.clients.sql.mysql import connection as mysql
from airflow_provider_connect.clients.sql.postgresql import connection as postgresql
from airflow_provider_connect.errors import ConfigError

if TYPE_CHECKING:
    from airflow_provider_connect.connection import Connection

POSTGRESQL_TYPES = ("postgres", "postgresql")
MYSQL_TYPES = ("mysql", "mariadb")


def connection_problems(connection: Connection) -> list[str]:
    """Validate a connection without network. Returns the problems."""
    if connection.conn_type in POSTGRESQL_TYPES:
        return postgresql.connection_problems(connection)
    return mysql.connection_problems(connection) if connection.conn_type in MYSQL_TYPES else []


def open_database(
    connection: Connection,
    *,
    application_name: str,
    limits: SessionLimits | None = None,
    row_security: RowSecurity = "refuse",
) -> Database:
    """Open a session with PostgreSQL, MySQL, MariaDB or SQLite.

    :param application_name: session name in the database.
    :raises ConfigError: a wrong connection, or a missing Python package.
    :raises RetriableError: the server is unreachable or full.
    """
    if connection.conn_type in POSTGRESQL_TYPES:
        from airflow_provider_connect.clients.sql.postgresql.session import PostgreSQL  # noqa: PLC0415  # one of the two, and heavy

        return PostgreSQL.open(connection, application_name, limits or SessionLimits(), row_security)
    if connection.conn_type in MYSQL_TYPES:
        from airflow_provider_connect.clients.sql.mysql.session import MySQL  # noqa: PLC0415

        return MySQL.open(connection, application_name, limits or SessionLimits())
    if connection.conn_type == "sqlite":
        from airflow_provider_connect.clients.sql.sqlite import SQLite  # noqa: PLC0415

        return SQLite.open(connection, application_name, limits or SessionLimits())
    raise ConfigError(
        f"connection {connection.conn_id!r}: type {connection.conn_type!r} is not supported: "
        "use postgres, mysql or sqlite"
    )
