"""The streams of ``tables=``: one for each table of the database that its patterns choose."""

from __future__ import annotations

from airflow_provider_connect.clients.sql.database import ListedTable
from airflow_provider_connect.clients.sql.opening import open_database
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.source import ListedStream, StreamListing
from airflow_provider_connect.sources._sql.options import SqlOptions
from airflow_provider_connect.sources._sql.table_patterns import choose_tables, pattern_schemas

_SHOWN_TABLES = 5


def list_streams(options: SqlOptions, connection: Connection) -> StreamListing:
    """Return a stream for each chosen table.

    :raises ConfigError: no table is chosen.
    :raises RetriableError: the database cannot be reached.
    """
    name = f"connect tables {options.conn_id}"
    with open_database(connection, application_name=name, limits=options.session_limits) as database:
        listed_tables = database.list_tables()
    chosen = choose_tables(options.tables or (), listed_tables)
    if not chosen.tables and not chosen.missing:
        raise ConfigError(f"tables: no table matches {', '.join(options.tables or ())}{_shown(listed_tables)}")
    problems = {
        text: f"there is no such table, or the user may not see it{_shown(listed_tables)}" for text in chosen.missing
    }
    default_schema = next((table.schema for table in listed_tables if table.is_default), "")
    return StreamListing([stream_of(table) for table in chosen.tables], problems, default_schema)


def recall(options: SqlOptions, stream_key: str, default_schema: str) -> list[ListedStream]:
    """Return the streams that a key may name, whether their tables exist or not. [] if ``tables`` chooses none."""
    connection_part, patterns = f"{options.conn_id}.", options.tables or ()
    if not stream_key.startswith(connection_part):
        return []
    schema, _, name = stream_key.removeprefix(connection_part).rpartition(".")
    known_schema = schema or default_schema
    schemas = [known_schema] if known_schema else pattern_schemas(patterns)
    tables = [ListedTable(name, schema_name, is_default=schema in ("", default_schema)) for schema_name in schemas]
    return [stream_of(table) for table in choose_tables(patterns, tables).tables]


def stream_of(table: ListedTable) -> ListedStream:
    """Return a table's stream. A table that its name alone names is a stream under both names."""
    full_name = f"{_quoted(table.schema)}.{_quoted(table.name)}"
    choices = (_quoted(table.name), full_name) if table.is_default else (full_name,)
    return ListedStream(f"{table.schema}.{table.name}", {"schema": table.schema, "table": table.name}, choices)


def _quoted(name: str) -> str:
    return name if not set(name) & {".", '"'} else '"' + name.replace('"', '""') + '"'


def _shown(tables: list[ListedTable]) -> str:
    names = [f"{table.schema}.{table.name}" for table in tables[:_SHOWN_TABLES]]
    more = ", …" if len(tables) > _SHOWN_TABLES else ""
    return f". The database has {', '.join(names)}{more}" if names else ". The database has no tables"
