"""Options of the SQL source and their validation. DAG files import this."""

from __future__ import annotations

import functools
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from airflow_provider_connect.clients.sql.database import (
    Decimals,
    Query,
    RowSecurity,
    SessionLimits,
    Table,
    ValueChoices,
    ZeroDates,
    decimal_digits,
)
from airflow_provider_connect.source import Source
from airflow_provider_connect.sources._sql.cursor_range import Nulls, Overlap, bound_text, cursor_range_problems
from airflow_provider_connect.sources._sql.read_methods import (
    SNAPSHOT_MODES,
    Mode,
    SnapshotModeName,
    StartMode,
    read_method_problems,
    refuse_foreign_name,
)
from airflow_provider_connect.sources._sql.table_patterns import validate_patterns
from airflow_provider_connect.window import SourceKind, ZoneName

_NAME_PART = r'"(?:[^"]|"")+"|[^".]+'
_TABLE = re.compile(rf"(?:(?P<schema>{_NAME_PART})\.)?(?P<name>{_NAME_PART})")
_STREAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def parse_table(text: str) -> Table:
    """Parse a table's name, ``orders`` or ``sales.orders``, without changing its case.

    A part with a dot or a quote stands in quotes: ``"a.b".orders``.

    :raises ValueError: the text has another form.
    """
    match = _TABLE.fullmatch(text)
    if match is None or not text.strip():
        raise ValueError('write it as orders or sales.orders, and quote a name with a dot or a quote: "a.b".orders')
    return Table(_unquote(match["name"]), _unquote(match["schema"] or ""))


def is_stream_name(text: str) -> bool:
    """Return True if a text can be part of a stream's name."""
    return _STREAM.fullmatch(text) is not None


def _unquote(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


DEFAULT_CHUNKS = 4
"""Default number of concurrent chunks, except where sessions cannot share a snapshot."""
POSTGRES, MYSQL, SQLITE, JDBC = "postgres", "mysql", "sqlite", "jdbc"
CLOCK_QUERIES = {POSTGRES: "SELECT extract(epoch FROM clock_timestamp())", MYSQL: "SELECT unix_timestamp(sysdate(6))"}
"""Queries for the database's time, in seconds since 1970."""
RECORD_KEY = "record_key"
_RESERVED_NAMES = ("day", RECORD_KEY)


def _validate_table(text: str) -> str:
    parse_table(text)
    return text


def _validate_patterns(texts: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if texts is not None:
        validate_patterns(texts)
    return texts


def _validate_names(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if names is not None and (not names or not all(names) or len(set(names)) < len(names)):
        raise ValueError("name at least one column, and none twice")
    return names


def _validate_decimals(text: str) -> str:
    if text not in ("exact", "string", "double") and decimal_digits(text) is None:
        raise ValueError("set 'exact', 'string', 'double', or a type of at most 38 digits such as 'decimal(38,9)'")
    return text


def _validate_new_names(new_names: dict[str, str]) -> dict[str, str]:
    if not all(new_names.values()):
        raise ValueError("a name is empty")
    if reserved := [name for name in new_names.values() if is_reserved(name)]:
        raise ValueError(f"{reserved[0]!r} is the name of a column of this package: choose another one")
    return new_names


def is_reserved(name: str) -> bool:
    """Return True if a column of this package has the name, in any case."""
    return name.lower() in _RESERVED_NAMES


def reserved_problem(name: str) -> str:
    """Return the problem of a column with a reserved name, and its remedy."""
    return f"column {name!r} has the name of a column of this package: set rename={{{name!r}: '{name}_'}}"


def _validate_sql(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text


Consistency = Literal["snapshot", "chunk"]
DayColumnUnit = Literal["seconds", "milliseconds"]
"""What a whole number in ``day_column`` counts since 1970-01-01 UTC."""
_Names = Annotated[tuple[str, ...] | None, AfterValidator(_validate_names)]
_Sql = Annotated[str, AfterValidator(_validate_sql)]


class SqlOptions(Source):
    """Options of the SQL source."""

    conn_id: str = Field(
        examples=["shop_db"], description="Airflow connection to the database, of type postgres, mysql, sqlite or jdbc."
    )
    table: Annotated[str, AfterValidator(_validate_table)] | None = Field(
        default=None,
        description='A table or view with its case-sensitive name: orders, sales.orders, or "a.b".orders if a name has '
        "a "
        "dot.",
    )
    tables: Annotated[tuple[str, ...] | None, AfterValidator(_validate_patterns)] = Field(
        default=None,
        examples=[["public.*", "!public.audit_*"]],
        description="Instead of table: many tables, each a stream of its own with its own target. * and ? are "
        "wildcards, which name no views, and ! leaves tables out. Each run loads the tables that are there. The sink's "
        "target needs {table}.",
    )
    parallel_streams: int = Field(
        default=4, ge=1, le=64, description="With tables: how many of them are loaded at the same time."
    )
    query: _Sql | None = Field(default=None, description="A SELECT instead of a table.")
    stream: str = Field(
        default="",
        description="Name of the stream in ledger and offset, unique for the connection. By default the table's name. "
        "A query needs one.",
    )
    columns: _Names = Field(default=None, description="The columns to read, in this order. By default all.")
    exclude_columns: _Names = Field(default=None, description="Instead of columns: the columns to leave out.")
    rename: Annotated[dict[str, str], AfterValidator(_validate_new_names)] = Field(
        default_factory=dict,
        description="Columns that have another name in the rows: {name in the database: name in the rows}. The other "
        "options name the database's columns.",
    )
    where: _Sql | None = Field(default=None, description="SQL condition of the rows to read.")
    key: _Names = Field(
        default=None,
        description="The columns that identify a row. By default the primary key. A query needs them.",
    )
    day_column: str | None = Field(default=None, description="The timestamp or date column that decides a row's day.")
    day_column_unit: DayColumnUnit | None = Field(
        default=None,
        description="If day_column is a whole number: seconds or milliseconds since 1970-01-01 UTC.",
    )
    zone: ZoneName = Field(default="UTC", description="IANA zone whose calendar days are loaded.")
    db_timezone: ZoneName | None = Field(
        default=None,
        description="IANA zone of timestamps without a zone in day_column or timestamp_column: the zone of the clock "
        "that writes them. By default UTC. With mode it is required if the database is not set to UTC.",
    )
    snapshot: Literal["replace", "daily"] | None = Field(
        default=None,
        description="Instead of day_column: replace reads all rows and replaces the target's rows. daily stores all "
        "rows as those of the current day.",
    )
    mode: Annotated[Mode | None, BeforeValidator(functools.partial(refuse_foreign_name, "mode"))] = Field(
        default=None,
        description="Instead of day_column: each run reads the rows after the last row that was read, whatever its "
        "day. incrementing follows a growing number, timestamp the time of a row's last change, timestamp+incrementing "
        "both.",
    )
    incrementing_column: str | None = Field(
        default=None, description="With mode: a whole number that grows with each new row."
    )
    timestamp_column: str | None = Field(
        default=None, description="With mode: the time at which a row was written or last changed."
    )
    timestamp_delay_seconds: float = Field(
        default=0.0,
        ge=0,
        description="With timestamp_column: minimum age of a row to be read. Rows of transactions that take less time "
        "are not missed.",
    )
    start: Annotated[str | None, BeforeValidator(bound_text)] = Field(
        default=None,
        description="With mode: rows whose cursor value lies before it are left out: a number, or a date or time. "
        "Times without a zone are in zone. With two cursor columns the time counts.",
    )
    end: Annotated[str | None, BeforeValidator(bound_text)] = Field(
        default=None, description="With mode: rows whose cursor value has this value or a later one are left out."
    )
    nulls: Nulls = Field(
        default="leave_out",
        description="With mode: rows without a cursor value. leave_out does not read them, fail fails the run, first "
        "reads them in the first run only.",
    )
    overlap: Overlap | None = Field(
        default=None,
        description="With mode: how far before its begin a run reads again, for rows that are committed late: a "
        "duration, or a number with mode='incrementing'. Only for sinks that merge by key.",
    )
    snapshot_mode: Annotated[
        SnapshotModeName, BeforeValidator(functools.partial(refuse_foreign_name, "snapshot_mode"))
    ] = Field(
        default="initial",
        description="With mode: rows of the first and later runs. initial reads all rows, then new rows. no_data reads "
        "only new rows. initial_only reads all rows once. when_needed works as initial, and reads all rows again if "
        "the position is lost because the table was set back.",
    )
    decimals: Annotated[Decimals, AfterValidator(_validate_decimals)] = Field(
        default="exact",
        description="How decimal numbers are read. exact: as decimals, or as text if 38 digits are too few or the "
        "column declares no precision, such as a sum in a query. decimal(38,9): as exact, with this type instead of "
        "text. string: as text. double: as the nearest floating-point number.",
    )
    zero_dates: ZeroDates = Field(
        default="fail", description="MySQL's dates with month or day zero fail the day, or become null."
    )
    row_security: RowSecurity = Field(
        default="refuse",
        description="If PostgreSQL's row level security hides rows from the user: refuse fails the run, accept loads "
        "only the visible rows.",
    )
    consistency: Consistency = Field(
        default="snapshot",
        description="With snapshot. snapshot: all rows are of one state of the database, and a retry starts over. "
        "chunk: each range of keys has the state of its own read, a retry reads only the remaining ranges, and every "
        "database is read in parallel.",
    )
    parallel_chunks: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="Number of Spark tasks that read a snapshot, or the first run of a mode, concurrently, each over "
        f"its own connection. By default {DEFAULT_CHUNKS}, or 1 if consistency='snapshot' and the database's sessions "
        "cannot share a snapshot.",
    )
    statement_timeout_seconds: float = Field(
        default=3600.0, gt=0, description="Time after which the database ends a statement, reading included."
    )

    @property
    def kind(self) -> SourceKind:
        """``increment`` with ``mode``, ``snapshot`` with ``snapshot="replace"``, otherwise ``day``."""
        if self.mode is not None:
            return "increment"
        return "snapshot" if self.snapshot == "replace" else "day"

    @property
    def reloads(self) -> bool:
        """True with ``day_column``, by which earlier rows can be found again."""
        return self.day_column is not None

    @property
    def start_mode(self) -> StartMode:
        """Rows that the first and later runs of a ``mode`` read."""
        return SNAPSHOT_MODES[self.snapshot_mode]

    @property
    def clock_zone(self) -> str:
        """Zone of timestamps without a zone."""
        return self.db_timezone or "UTC"

    @property
    def order_columns(self) -> tuple[str, ...]:
        """The cursor's columns, by their names in the rows. () without ``mode``, and if a name is a template."""
        if self.templates & {"timestamp_column", "incrementing_column", "rename"}:
            return ()
        columns = [column for column in (self.timestamp_column, self.incrementing_column) if column is not None]
        return tuple(self.rename.get(column, column) for column in columns)

    @property
    def repeats_rows(self) -> bool:
        """True with ``overlap``."""
        return self.overlap is not None

    @property
    def stream_name(self) -> str:
        """Name of the stream, by default the table's."""
        if self.tables is not None:
            return ",".join(self.tables)
        if self.stream or self.table is None:
            return self.stream
        table = parse_table(self.table)
        return f"{table.schema}.{table.name}" if table.schema else table.name

    @property
    def table_or_query(self) -> Table | Query:
        """Table or query to read."""
        return Query(self.query) if self.query is not None else parse_table(self.table or "")

    @property
    def table_schema(self) -> str:
        """Schema in the table's name (in MySQL the database), or ""."""
        return "" if self.table is None else parse_table(self.table).schema

    @property
    def value_choices(self) -> ValueChoices:
        """Choices for values that do not fit their type."""
        return ValueChoices(self.decimals, self.zero_dates)

    @property
    def session_limits(self) -> SessionLimits:
        """Time limits of sessions."""
        return SessionLimits(statement_seconds=self.statement_timeout_seconds)


def option_problems(options: SqlOptions) -> list[str]:
    """Return the problems of the options together."""
    problems = []
    if sum(option is not None for option in (options.table, options.tables, options.query)) != 1:
        problems.append("table: set one of table, tables and query")
    elif options.tables is not None:
        problems += ["stream: with tables each table is a stream of its own: leave it out"] if options.stream else []
    elif not is_stream_name(options.stream_name):
        reason = (
            "a stream needs a name of letters, digits, '_', '-' and '.'"
            if options.stream
            else "a query has no name: set one of letters, digits, '_', '-' and '.'"
            if options.query is not None
            else "the table's name cannot be part of ledger and offset: set one of letters, digits, '_', '-' and '.'"
        )
        problems.append(f"stream: {reason}")
    if options.tables is None and options.parallel_streams != SqlOptions.model_fields["parallel_streams"].default:
        problems.append("parallel_streams: only tables uses it")
    if options.query is not None and options.key is None:
        problems.append("key: a query has no primary key: name the columns that identify a row")
    problems += read_method_problems(options) + cursor_range_problems(options)
    if options.day_column is not None and options.day_column_unit is not None and options.db_timezone is not None:
        problems.append(f"db_timezone: {options.day_column_unit} since 1970 have no zone: leave it out")
    if options.columns is not None and options.exclude_columns is not None:
        problems.append("exclude_columns: set either columns or exclude_columns")
    problems += [
        f"exclude_columns: {name!r} is part of the key: read it"
        for name in options.key or ()
        if name in (options.exclude_columns or ())
    ]
    if options.columns is not None:
        problems += [
            f"columns: {reserved_problem(name)}"
            for name in options.columns
            if is_reserved(name) and name not in options.rename
        ]
        problems += [
            f"columns: {name!r} is part of the key: add it" for name in options.key or () if name not in options.columns
        ]
        problems += [
            f"rename: {name!r} is not one of columns: add it there"
            for name in options.rename
            if name not in options.columns
        ]
    problems += [
        f"rename: {name!r} is one of exclude_columns: name it in one of them"
        for name in options.rename
        if name in (options.exclude_columns or ())
    ]
    return problems
