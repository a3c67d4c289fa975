"""Tables of a database: PostgreSQL, MySQL, MariaDB and SQLite, as days, snapshots or increments, exactly typed.

Any other database is read through its JDBC driver, as days or snapshots, with the limits of Spark's own reader.

.. code-block:: python

    SqlSource(conn_id="shop_db", table="orders", day_column="created_at")
    SqlSource(conn_id="shop_db", table="customers", snapshot="replace")
    SqlSource(conn_id="shop_db", table="events", mode="incrementing", incrementing_column="id")

``docs/sql.md`` says which table is read in which way, and what each way cannot see.

**Connection** (types ``postgres``, ``mysql``, ``sqlite`` and ``jdbc``, Airflow's own)

============ =====================================================================================
host         name or address of the server; for SQLite the path of the file, which every Spark node
             must see
port         of that host; by default the database's own
schema       the database; with SQLite nothing
login        user: one who may only read is best
password     of that user; it is never part of a URL, an argument or a message
extra        the driver's own settings, such as ``sslmode``: ``docs/sql_types.md``
============ =====================================================================================

PostgreSQL needs ``psycopg``, MySQL and MariaDB ``PyMySQL``: both come with the extra ``sql`` of this package. With
type ``jdbc`` the host is the whole URL, without login and password; ``docs/sql.md`` has its extra, and where the
driver's jar goes.

**Days.** With ``day_column`` a day has the rows whose value lies from its start to its end in ``zone``, the end
excluded. A date column has dates of that zone. Timestamps without a zone are taken from a clock in ``db_timezone``. If
the database is not set to UTC, ``mode`` needs that option for them, and ``day_column`` logs a warning without it.
Rows without a value are in no day. With ``snapshot`` the rows are all that the table has when it is read. With ``mode``
a day has what came since the last run, whatever its day; the sink's ledger keeps from where to where that was. The
first run takes all there is, as a snapshot does.

**Rows**: the columns as the database has them (``docs/sql_types.md`` has each type's), and ours. Those of a table
``orders (id bigint, customer text, amount decimal(10,2), created_at timestamp, document blob)`` in SQLite are

.. code-block:: sql

    id          BIGINT NOT NULL,
    customer    STRING NOT NULL,
    amount      DECIMAL(10,2),
    created_at  TIMESTAMP_NTZ,
    document    BINARY,
    record_key  STRING NOT NULL     -- 32 hex digits; without a key there is none

No value is changed in silence: one that has no exact home in its column's type fails the day, and the message names the
column, not the value. ``decimals`` and ``zero_dates`` choose otherwise.

**Key.** ``record_key`` is XXH3-128 over the columns of ``key``, by default the primary key's, each written with a
letter for its class: 1 and '1' differ, 1 and 1.00 do not. The same row has the same key in every run, in days and in
snapshots. A key that is NULL fails the day, and so does one that comes twice.

**Hidden rows and columns.** If the user may read only a part of a table, the run fails. For rows that PostgreSQL's row
level security hides, ``row_security="accept"`` loads the visible rows. For columns that MySQL hides, ``columns`` names
the columns to read.

**Counts** in the report: rows, and bytes in Arrow.

**Limits.** Every session is read-only, and says so to the database; its name holds the day and the stream. A statement
ends after ``statement_timeout_seconds``. A day is read over one connection, from a replica when that has all of it; a
snapshot over ``parallel_chunks``; the driver has one beside them. A batch of a few megabytes is in memory at a time.
Where the chunks of PostgreSQL share one snapshot (``consistency``), its transaction stays open until all are read, and
vacuum waits for it:
https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION (2026-11).

**Errors.** Retriable: a server that is away, restarts or has no room, a statement that takes too long or waits for a
lock, a conflict on a standby, a replica that lacks a part of the day, a table that is altered while it is read. A
person must correct credentials, rights, names and SQL. A value that cannot be read exactly fails the day.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from pydantic import model_validator

from airflow_provider_connect.capabilities.source import Inspects, NamesColumns, ReloadsWhenLost
from airflow_provider_connect.connection import Connection, Dataset
from airflow_provider_connect.connector import C
from airflow_provider_connect.polling.findings import Finding
from airflow_provider_connect.polling.quota.turns import KeyStore
from airflow_provider_connect.source import PollContext, Poller
from airflow_provider_connect.sources._sql.options import JDBC, RECORD_KEY, SqlOptions, option_problems
from airflow_provider_connect.stage.definition import RowRole
from airflow_provider_connect.window import Day


class SqlSource(SqlOptions, NamesColumns, ReloadsWhenLost, Inspects):
    """One table or query of a database.

    :raises ConfigError: if an option is wrong or does not go with another, naming everything at once.
    """

    name: ClassVar[str] = "sql"
    connection_types: ClassVar[tuple[str, ...]] = ("postgres", "mysql", "sqlite", "jdbc")
    row_options: ClassVar[Mapping[str, RowRole]] = {
        "table": "reading",
        "day_column": "reading",
        "snapshot": "reading",
        "mode": "reading",
        "timestamp_column": "reading",
        "incrementing_column": "reading",
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
        """Connection and stream: the same table at another connection is another stream."""
        return f"{self.conn_id}.{self.stream_name}"

    @property
    def timezone(self) -> str:
        """The zone whose days are loaded."""
        return self.zone

    def capability(self, kind: type[C]) -> C | None:
        """Only ``snapshot_mode`` says whether a lost stream is read anew."""
        return None if kind is ReloadsWhenLost and not self.start_mode.reloads_when_lost else super().capability(kind)

    def column_names(self) -> list[str] | None:
        """Return the names of the columns, if the options name all of them and the key."""
        if self.columns is None or self.key is None:
            return None
        return [*self.columns, RECORD_KEY]

    def connection_parts(self, connection: Connection) -> dict[str, str | None]:
        """Return the database's name and ``db_timezone``, by default UTC."""
        return {"database": connection.path, "db_timezone": self.db_timezone or "UTC"}

    def check(self, connection: Connection) -> list[str]:
        """Return what is wrong with these options and this connection; [] if nothing is."""
        from airflow_provider_connect.sources._sql.connections import validate_connection  # noqa: PLC0415  # not for DAG files

        return validate_connection(self, connection)

    def inspect(self, connection: Connection, day: Day, store: KeyStore | None) -> tuple[Finding, ...]:
        """Return the findings on rights, columns, key, indexes, clock and zone. Reads no row."""
        from airflow_provider_connect.sources._sql import preflight  # noqa: PLC0415  # not for DAG files

        return preflight.check(self, connection).findings

    def dataset(self, connection: Connection) -> Dataset:
        """Return the database's server, and the table in it."""
        from airflow_provider_connect.sources._sql.connections import stream_dataset  # noqa: PLC0415  # not for DAG files

        return stream_dataset(self, connection)

    def open(self, connection: Connection, context: PollContext) -> Poller:
        """Return what reads the table: one of three pollers."""
        if connection.conn_type == JDBC:
            from airflow_provider_connect.sources._sql.jdbc import JdbcPoller  # noqa: PLC0415

            return JdbcPoller(self, connection, context)
        if self.snapshot is not None:
            from airflow_provider_connect.sources._sql.snapshots import SqlSnapshotPoller  # noqa: PLC0415

            return SqlSnapshotPoller(self, connection, context)
        from airflow_provider_connect.sources._sql.poller import SqlPoller  # noqa: PLC0415  # too heavy for a DAG file

        return SqlPoller(self, connection, context)
