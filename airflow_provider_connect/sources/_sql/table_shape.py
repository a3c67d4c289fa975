"""Columns, key and indexes of the table or query, validated against the options."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.sql.database import Database, Index, ReadColumn, SqlColumn, Table, ValueChoices
from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.errors import ConfigError, refuse_any
from airflow_provider_connect.sources._sql.day_bounds import ColumnClock, clock_of_type
from airflow_provider_connect.sources._sql.keys import KeyClass, columns_before_prefix, key_class
from airflow_provider_connect.sources._sql.options import (
    RECORD_KEY,
    DayColumnUnit,
    SqlOptions,
    is_reserved,
    reserved_problem,
)

if TYPE_CHECKING:
    import pyarrow as pa

EARLIER_KEY_METADATA = "earlier_key"
"""Like ``KEY_METADATA``, for a different key of versions up to 1.0.0rc1."""
KEY_METADATA = "key"
"""Entry of a schema's metadata: JSON pairs of column and class letter (``keys.py``) that make up ``record_key``."""
_TEXT_TYPES = (
    "text", "char", "varchar", "character", "bpchar", "uuid", "tinytext", "nchar", "nvarchar", "numeric", "decimal",
    "bit",
)  # fmt: skip
_BYTE_TYPES = ("bytea", "binary", "varbinary", "blob", "tinyblob", "mediumblob", "longblob")
_POSTGRESQL_ENUM = "enum"


@dataclass(frozen=True)
class TableShape:
    """The table or query to read, as plain data for tasks.

    :param key: columns that identify a row, or ().
    :param is_unique: True if the database guarantees unique keys.
    :param day_column: None with ``snapshot`` or ``mode``.
    :param earlier_key: different key columns of versions up to 1.0.0rc1, or None.
    """

    columns: tuple[SqlColumn, ...]
    key: tuple[str, ...] = ()
    is_unique: bool = False
    day_column: SqlColumn | None = None
    indexes: tuple[Index, ...] = ()
    timestamp_column: SqlColumn | None = None
    incrementing_column: SqlColumn | None = None
    earlier_key: tuple[str, ...] | None = None
    is_query: bool = False

    @property
    def partition_params(self) -> dict[str, Any]:
        """Columns, key and uniqueness as JSON, for partitions."""
        return {
            "columns": [list(column) for column in self.columns],
            "key": list(self.key),
            "is_unique": self.is_unique,
        }

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> TableShape:
        """Restore the shape from :attr:`partition_params`."""
        columns = (SqlColumn(*column) for column in params["columns"])
        return cls(tuple(columns), tuple(params["key"]), params["is_unique"])

    @property
    def key_columns(self) -> list[SqlColumn]:
        """Columns of the key, in order."""
        by_name = {column.name: column for column in self.columns}
        return [by_name[name] for name in self.key]

    def is_range_indexed(self, column: SqlColumn) -> bool:
        """Return True if an index can find a range of the column's values."""
        return any(index.is_ordered and index.columns[0] == column.name for index in self.indexes)


@dataclass(frozen=True)
class RowLayout:
    """Columns, Arrow schema and key of the rows that a read returns.

    :param columns: with their names in the rows, in the order of the shape's columns.
    :param key: names in the database.
    :param key_positions: place of each key column in ``columns``.
    :param key_classes: class letter of each key column. See ``keys.py``.
    """

    columns: tuple[ReadColumn, ...]
    schema: pa.Schema
    key: tuple[str, ...]
    key_positions: tuple[int, ...]
    key_classes: tuple[KeyClass, ...]


def inspect_table(database: Database, options: SqlOptions) -> TableShape:
    """Read columns, key and indexes from the database.

    :raises ConfigError: lists all options that do not fit the table.
    """
    if options.columns is None and isinstance(options.table_or_query, Table):
        database.require_all_columns(options.table_or_query)
    all_columns = {column.name: column for column in database.describe(options.table_or_query)}
    problems = _missing_columns("columns", options.columns or (), all_columns)
    problems += _missing_columns("exclude_columns", options.exclude_columns or (), all_columns)
    problems += _missing_columns("rename", tuple(options.rename), all_columns)
    problems += _missing_columns("key", options.key or (), all_columns)
    column_options = {
        name: getattr(options, name) for name in ("day_column", "timestamp_column", "incrementing_column")
    }
    for option, name in column_options.items():
        problems += _missing_columns(option, (name,) if name else (), all_columns)
    refuse_any(problems)
    excluded = options.exclude_columns or ()
    columns = tuple(all_columns[name] for name in options.columns or all_columns if name not in excluded)
    if not columns:
        raise ConfigError("exclude_columns: it names every column: leave one to read")
    refuse_any(_name_problems([options.rename.get(column.name, column.name) for column in columns]))
    day, timestamp, incrementing = (all_columns[name] if name else None for name in column_options.values())
    table = options.table_or_query
    if not isinstance(table, Table):
        key = options.key or ()
        return TableShape(
            columns, key, day_column=day, timestamp_column=timestamp, incrementing_column=incrementing, is_query=True
        )
    primary = tuple(database.primary_key(table))
    indexes = tuple(database.indexes(table))
    key = options.key or primary
    names = [column.name for column in columns]
    if left_out := [name for name in key if name not in names]:
        remedy = "columns: add" if options.columns else "exclude_columns: leave out"
        raise ConfigError(f"{remedy} {', '.join(map(repr, left_out))} of the primary key, or name another key=")
    # A primary key without such an index may be deferred or cover only some of the rows.
    unique_indexes = [index.columns for index in indexes if index.is_unique]
    nullable_key_columns = {name for name in key if all_columns[name].is_nullable}
    # An index allows several NULLs. Rows with NULL in the key are refused anyway.
    is_unique = any(set(index_columns) <= set(key) for index_columns in unique_indexes) and not nullable_key_columns
    return TableShape(
        columns,
        key,
        is_unique=is_unique,
        day_column=day,
        indexes=indexes,
        timestamp_column=timestamp,
        incrementing_column=incrementing,
        earlier_key=options.key or columns_before_prefix(primary, indexes),
    )


def row_layout(database: Database, shape: TableShape, options: SqlOptions) -> RowLayout:
    """Return the layout of the rows to read, the same for driver and executors.

    :raises ConfigError: a column cannot be read or cannot identify a row.
    """
    import pyarrow as pa

    columns = tuple(
        column._replace(name=options.rename.get(column.name, column.name))
        for column in database.read_columns(shape.columns, options.value_choices)
    )
    names = [column.name for column in shape.columns]
    positions = tuple(names.index(name) for name in shape.key)
    classes = tuple(key_class(shape.columns[position], columns[position].type) for position in positions)
    fields = [
        column.field.with_metadata((column.field.metadata or {}) | {b"comment": _comment(described.type)})
        for column, described in zip(columns, shape.columns, strict=True)
    ]
    if shape.key:
        comment = f"Identity of the row, 32 hex digits: made of {', '.join(shape.key)}."
        fields.append(pa.field(RECORD_KEY, pa.string(), nullable=False, metadata={"comment": comment}))
    pairs = dict(zip(shape.key, classes, strict=True))
    earlier_classes = {name: pairs[name] for name in (shape.key if shape.earlier_key is None else shape.earlier_key)}
    if shape.is_query and database.queried_uuids_were_texts:
        earlier_classes = {name: "t" if letter == "u" else letter for name, letter in earlier_classes.items()}
    metadata = {KEY_METADATA: json.dumps([*pairs.items()])}
    if earlier_classes != pairs:
        metadata[EARLIER_KEY_METADATA] = json.dumps([*earlier_classes.items()])
    return RowLayout(columns, pa.schema(fields, metadata=metadata), shape.key, positions, classes)


def require_readable(database: Database, options: SqlOptions, layout: RowLayout) -> None:
    """Run the read with LIMIT 0. Raises ConfigError for a wrong ``where`` or a missing right."""
    condition = f"(\n{options.where}\n)" if options.where else ""
    relation = database.relation(options.table_or_query)
    database.rows(database.select([column.expression for column in layout.columns], relation, where=condition, limit=0))


def day_column_clock(database: Database, column: SqlColumn, unit: DayColumnUnit | None = None) -> ColumnClock:
    """Return whether a column has dates, instants, local times or numbers.

    :param unit: option ``day_column_unit``.
    :raises ConfigError: it has none of them, or does not fit the unit.
    """
    (read_column,) = database.read_columns([column], ValueChoices())
    if is_whole_number(read_column.type):
        if unit is None:
            raise ConfigError(
                f"day_column: {column.name!r} of type {column.type} is a whole number. If it counts from 1970 in UTC, "
                "set day_column_unit='seconds' or 'milliseconds'"
            )
        return unit
    if unit is not None:
        raise ConfigError(
            f"day_column_unit: column {column.name!r} has type {column.type}, no whole number. Remove the option"
        )
    clock = clock_of_type(read_column.type)
    if clock is None:
        raise ConfigError(
            f"day_column: {column.name!r} {f'of type {column.type}' if column.type else 'without a declared type'} is "
            "neither a timestamp nor a date. Name another column, or load snapshots. In SQLite the type in CREATE "
            "TABLE counts: declare the column as DATE or TIMESTAMP"
        )
    return clock


def is_whole_number(arrow_type: pa.DataType) -> bool:
    """Return True for integers and for decimals without a fraction."""
    from pyarrow import types

    return bool(types.is_integer(arrow_type) or (types.is_decimal(arrow_type) and arrow_type.scale == 0))


def unsplit_reason(shape: TableShape, layout: RowLayout) -> str:
    """Return why the key cannot be split into ranges. "" if it can: NOT NULL columns that the database orders."""
    if not shape.key:
        return "there is no key"
    for column, position in zip(shape.key_columns, layout.key_positions, strict=True):
        if column.is_nullable:
            reason = "a query's columns" if shape.is_query else f"{column.name!r} of the key"
            return f"{reason} may be NULL"
        if not _has_ranges(column, layout.columns[position].type):
            return f"{column.name!r} of type {column.type} in the key has no ranges"
    return ""


def _has_ranges(column: SqlColumn, arrow_type: pa.DataType) -> bool:
    """Return True if the database sorts, compares and writes the column's values alike, without loss.

    MySQL sorts an enum by its declaration, but compares it with a literal as text.
    """
    from pyarrow import types

    base = column.base.lower()
    if types.is_binary(arrow_type):
        return base.startswith(_BYTE_TYPES)
    if types.is_string(arrow_type):
        return base == _POSTGRESQL_ENUM or base.startswith(_TEXT_TYPES)
    kinds = (types.is_integer, types.is_decimal, types.is_date, types.is_timestamp, types.is_boolean)
    return any(has_kind(arrow_type) for has_kind in kinds)


def _comment(kind: str) -> bytes:
    return f"As the database has it: {kind or 'no declared type'}.".encode()


def _missing_columns(option: str, names: Sequence[str], columns_by_name: dict[str, SqlColumn]) -> list[str]:
    return [
        f"{option}: there is no column {name!r}; {suggest_nearest(name, columns_by_name)}"
        for name in names
        if name not in columns_by_name
    ]


def _name_problems(names: Sequence[str]) -> list[str]:
    problems = [reserved_problem(name) for name in names if is_reserved(name)]
    repeated = [name for name, count in Counter(name.lower() for name in names).items() if count > 1]
    return problems + [
        f"several columns are named {name!r} or differ only in case: give one another name with rename=, or leave it "
        "out with exclude_columns="
        for name in repeated
    ]
