"""Tables of a database: PostgreSQL, MySQL, MariaDB and SQLite, as days, snapshots or increments, exactly typed.

Other databases are read through their JDBC drivers, as days or snapshots, with the limits of Spark's reader.

.. code-block:: python

    SqlSource(conn_id="shop_db", table="orders", day_column="created_at")
    SqlSource(conn_id="shop_db", table="customers", snapshot="replace")
    SqlSource(conn_id="shop_db", table="events", mode="incrementing", incrementing_column="id")

``docs/sql.md`` helps to choose a way, and lists the rows that it misses.

**Connection** (types ``postgres``, ``mysql``, ``sqlite`` and ``jdbc``, Airflow's own)

============ =====================================================================================
host         name or address of the server. For SQLite the file's path, readable on every Spark
             node
port         by default the database's own
schema       the database. Empty for SQLite
login        user, preferably read-only
password     password of the user. It is never part of a URL, an argument or a message
extra        the driver's settings, such as ``sslmode``: ``docs/sql_types.md``
============ =====================================================================================

PostgreSQL needs ``psycopg``, MySQL and MariaDB ``PyMySQL``, both in this package's extra ``sql``. With type ``jdbc``
the host is the whole URL, without login and password (``docs/sql.md``).

**Days.** With ``day_column`` a day has the rows with a value in that day of ``zone``. Timestamps without a zone are
times of ``db_timezone``. If the database is not set to UTC, ``mode`` requires that option for them, and ``day_column``
logs a warning without it. With ``snapshot`` a read returns all rows. With ``mode`` a day has the rows after the
position in the sink's ledger, in the first run all rows.

**Rows**: the database's columns (types in ``docs/sql_types.md``) and the key. The columns of a table ``orders (id
bigint, customer text, amount decimal(10,2), created_at timestamp, document blob)`` in SQLite are

.. code-block:: sql

    id          BIGINT NOT NULL,
    customer    STRING NOT NULL,
    amount      DECIMAL(10,2),
    created_at  TIMESTAMP_NTZ,
    document    BINARY,
    record_key  STRING NOT NULL     -- 32 hex digits. Absent without a key

A value that does not fit its column's type fails the day. The message names the column, not the value. ``decimals`` and
``zero_dates`` choose other types.

**Key.** ``record_key`` is XXH3-128 over the columns of ``key``, by default the primary key. Numbers and texts differ (1
and '1'), equal numbers do not (1 and 1.00). A row has the same key in days and in snapshots. A NULL in the key or a
repeated key fails the day.

**Hidden rows and columns** fail the run. ``row_security="accept"`` loads the rows that PostgreSQL's policies show, and
``columns`` names the columns that the user may read.

**Counts** in the report: rows, and bytes in Arrow.

**Limits.** Every session is read-only and named after day and stream. A statement ends after
``statement_timeout_seconds``. A day is read over one connection, from a replica only if that has all of it. A snapshot
is read over ``parallel_chunks`` connections, and one more of the driver. Memory holds a batch of a few megabytes. If
PostgreSQL's chunks share a snapshot (``consistency``), its transaction stays open until all are read, and vacuum waits
for it: https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION (2026-11).

**Errors.** Retriable: a server that is unreachable, restarts or has no free connection, a slow or locked statement, a
conflict on a standby, a replica without the whole day, a table altered during the read. A person must correct
credentials, rights, names and SQL. A value that cannot be read exactly fails the day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from pydantic import model_validator

from airflow_provider_connect.capabilities.source import Inspects, ListsStreams, NamesColumns, ReloadsWhenLost
from airflow_provider_connect.clients.sql.startup_settings import search_path
from airflow_provider_connect.config import has_template
from airflow_provider_connect.connection import Connection, Dataset
from airflow_provider_connect.connector import C
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.polling.findings import Finding
from airflow_provider_connect.polling.quota.turns import KeyStore
from airflow_provider_connect.source import ListedStream, PollContext, Poller, StreamListing
from airflow_provider_connect.sources._sql.options import JDBC, POSTGRES, RECORD_KEY, SqlOptions, option_problems
from airflow_provider_connect.stage.definition import RowRole
from airflow_provider_connect.window import Day


class SqlSource(SqlOptions, NamesColumns, ReloadsWhenLost, ListsStreams, Inspects):
    """One table or query of a database, or many tables.

    :raises ConfigError: lists all problems of the options.
    """

    name: ClassVar[str] = "sql"
    connection_types: ClassVar[tuple[str, ...]] = ("postgres", "mysql", "sqlite", "jdbc")
    row_options: ClassVar[Mapping[str, RowRole]] = {
        "table": "reading",
        "day_column": "reading",
        "day_column_unit": "reading",
        "snapshot": "reading",
        "mode": "reading",
        "timestamp_column": "reading",
        "incrementing_column": "reading",
        "start": "narrowing",
        "end": "narrowing",
        "nulls": "narrowing",
        "overlap": "narrowing",
        "key": "reading",
        "zone": "reading",
        "db_timezone": "reading",
        "query": "condition",
        "where": "condition",
        "row_security": "narrowing",
    }

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if problems := option_problems(self):
            raise ValueError("; ".join(problems))
        return self

    @property
    def stream_key(self) -> str:
        """Connection and stream, joined by a dot."""
        return f"{self.conn_id}.{self.stream_name}"

    @property
    def timezone(self) -> str:
        """Option ``zone``."""
        return self.zone

    def capability(self, kind: type[C]) -> C | None:
        """Return a capability, or None. Some depend on ``tables`` and ``snapshot_mode``."""
        if kind is ListsStreams and self.tables is None:
            return None
        return None if kind is ReloadsWhenLost and not self.start_mode.reloads_when_lost else super().capability(kind)

    def list_streams(self, connection: Connection) -> StreamListing:
        """Return a stream for each table that ``tables`` chooses."""
        from airflow_provider_connect.sources._sql import streams  # noqa: PLC0415  # not for DAG files

        return streams.list_streams(self, connection)

    def stream_source(self, choice: str) -> Self:
        """Return the source of one table."""
        if has_template(choice):  # validation would wait for its value
            raise ConfigError(f"table {choice!r} looks like a template. Leave it out with '!', and '?' for its braces")
        options = {name: getattr(self, name) for name in self.model_fields_set - {"tables", "parallel_streams"}}
        return type(self)(**options | {"table": choice})

    def example_stream(self) -> ListedStream:
        """Return a table's stream, to validate options without a database."""
        return ListedStream("public.orders", {"schema": "public", "table": "orders"}, ("orders", "public.orders"))

    def recall_streams(self, stream_key: str, default_schema: str) -> Sequence[ListedStream]:
        """Return the streams of tables that a key may name. [] if ``tables`` does not choose one."""
        from airflow_provider_connect.sources._sql import streams  # noqa: PLC0415  # not for DAG files

        return streams.recall(self, stream_key, default_schema)

    def column_names(self) -> list[str] | None:
        """Return the loaded columns. None if ``columns`` or ``key`` is not set."""
        if self.columns is None or self.key is None:
            return None
        return [*(self.rename.get(name, name) for name in self.columns), RECORD_KEY]

    def connection_parts(self, connection: Connection) -> dict[str, str | None]:
        """Return database, ``db_timezone`` (default UTC) and PostgreSQL's search path, which decide the rows."""
        parts = {"database": connection.path, "db_timezone": self.db_timezone or "UTC"}
        if connection.conn_type != POSTGRES:
            return parts
        return parts | {"search_path": search_path(str(connection.extra.get("options") or ""))}

    def _require_one_table(self) -> None:
        if self.tables is not None:
            raise ConfigError("tables names many tables, and only a ConnectOperator loads them. Name one with table")

    def check(self, connection: Connection) -> list[str]:
        """Return the problems of options and connection."""
        from airflow_provider_connect.sources._sql.connections import validate_connection  # noqa: PLC0415  # not for DAG files

        return validate_connection(self, connection)

    def inspect(self, connection: Connection, day: Day, store: KeyStore | None) -> tuple[Finding, ...]:
        """Return findings on rights, columns, key, indexes, clock and zone. Sends short statements."""
        self._require_one_table()
        from airflow_provider_connect.sources._sql import preflight  # noqa: PLC0415  # not for DAG files

        return preflight.check(self, connection).findings

    def dataset(self, connection: Connection) -> Dataset:
        """Return the lineage dataset: server and table."""
        from airflow_provider_connect.sources._sql.connections import stream_dataset  # noqa: PLC0415  # not for DAG files

        return stream_dataset(self, connection)

    def open(self, connection: Connection, context: PollContext) -> Poller:
        """Return the poller."""
        self._require_one_table()
        if connection.conn_type == JDBC:
            from airflow_provider_connect.sources._sql.jdbc import JdbcPoller  # noqa: PLC0415

            return JdbcPoller(self, connection, context)
        if self.snapshot is not None:
            from airflow_provider_connect.sources._sql.snapshots import SqlSnapshotPoller  # noqa: PLC0415

            return SqlSnapshotPoller(self, connection, context)
        from airflow_provider_connect.sources._sql.poller import SqlPoller  # noqa: PLC0415  # too heavy for a DAG file

        return SqlPoller(self, connection, context)
