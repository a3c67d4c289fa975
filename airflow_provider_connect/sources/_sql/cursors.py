"""Cursors: the columns by which a table is followed, and the SQL for the rows between two positions.

A position is the cursor columns' values in one row. The ledger stores it as a JSON list of texts,
``["2026-10-05T12:00:00.123456+00:00", "17"]``. ``[]`` is the position before the first row.

An increment has the rows after its begin, up to and including its end. If the end lies before the begin, the increment
has restarted: it has all rows up to its end.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from airflow_provider_connect.clients.sql.database import Database, SqlColumn, ValueChoices
from airflow_provider_connect.errors import ConfigError, DataError, refuse_any
from airflow_provider_connect.sources._sql.chunks import after_bound, up_to_bound
from airflow_provider_connect.sources._sql.cursor_range import Overlap, parse_bound
from airflow_provider_connect.sources._sql.day_bounds import clock_of_type
from airflow_provider_connect.window import zone

if TYPE_CHECKING:
    import pyarrow as pa

CursorKind = Literal["number", "instant", "wall"]
CursorValue = int | dt.datetime
START_POSITION = "[]"
NO_ROWS = "1 = 0"
_MAX_FRACTION_DIGITS = 6
_WHOLE_NUMBER = re.compile(r"-?\d+")
_TYPE_DIGITS = re.compile(r"\((\d)\)")
# MySQL's times have whole seconds unless declared otherwise.
_WHOLE_SECOND_TYPES = ("datetime", "timestamp")


class SqlCursorColumn(NamedTuple):
    """A column of a cursor: a growing number, an instant, or (``wall``) a local time without a zone.

    :param fraction_digits: stored digits of a second's fraction.
    """

    name: str
    kind: CursorKind
    fraction_digits: int = _MAX_FRACTION_DIGITS


@dataclass(frozen=True)
class SqlCursor:
    """The columns by which a table is followed: a time, a number, or both in this order.

    :param db_timezone: zone of local times.
    :param compares_rows: see :func:`.chunks.chunk_conditions`.
    """

    columns: tuple[SqlCursorColumn, ...]
    db_timezone: str
    compares_rows: bool

    def format_position(self, values: tuple[object, ...]) -> str:
        """Convert a row's cursor values to a position. Raises DataError for a value of another type."""
        texts = []
        for column, value in zip(self.columns, values, strict=True):
            if isinstance(value, dt.datetime) and column.kind != "number":
                texts.append(_normalize_time(value, column.kind).isoformat())
            elif column.kind == "number" and _WHOLE_NUMBER.fullmatch(str(value)):
                texts.append(str(int(str(value))))
            else:
                kind = "whole number" if column.kind == "number" else "time"
                raise DataError(
                    f"column {column.name!r} has a value that is not a {kind}, so later rows cannot be found"
                )
        return json.dumps(texts)

    def parse_position(self, text: str) -> tuple[CursorValue, ...]:
        """Convert a stored position to values. () is the position before the first row.

        :raises ConfigError: the position does not fit the cursor's columns.
        """
        try:
            texts = json.loads(text)
            if texts == []:
                return ()
            pairs = zip(self.columns, texts, strict=True)
            return tuple(
                int(value_text) if column.kind == "number" else _parse_time(value_text, column.kind)
                for column, value_text in pairs
            )
        except (ValueError, TypeError):
            names = ", ".join(column.name for column in self.columns)
            raise ConfigError(
                f"the position in the ledger does not fit {names}: mode, the cursor's columns or their types have "
                "changed. Set them back, or load into a new target"
            ) from None

    def condition(self, database: Database, begin: str | None, end: str, overlap: Overlap | None = None) -> str:
        """Return the SQL condition for an increment's rows.

        :param begin: position of the last row before the increment. None for the first.
        :param end: position of the increment's last row.
        :param overlap: how far before ``begin`` the rows begin, in the first column.
        """
        end_values = self.parse_position(end)
        if not end_values or (begin == end and overlap is None):
            return NO_ROWS
        begin_values = () if self.has_all_rows(begin, end) else self.parse_position(begin or START_POSITION)
        if begin_values and overlap is not None:
            begin_values = _moved_back(begin_values[0], overlap)
        names = self._quoted_columns(database)
        parts = (
            [
                after_bound(
                    names[: len(begin_values)],
                    self._literals(database, begin_values),
                    compares_rows=self.compares_rows,
                )
            ]
            if begin_values
            else []
        )
        parts.append(up_to_bound(names, self._literals(database, end_values), compares_rows=self.compares_rows))
        return " AND ".join(f"({part})" for part in parts)

    def bounds(self, database: Database, *, start: str | None, end: str | None, zone_name: str) -> str:
        """Return the SQL condition for rows within ``start`` and ``end``. "" without both.

        :param zone_name: of times without a zone, if the column has instants.
        """
        first_column = self.columns[0]
        name, parts = database.quote(first_column.name), []
        for operator, text in ((">=", start), ("<", end)):
            if text is not None:
                bound = parse_bound(text, is_time=first_column.kind != "number")
                if isinstance(bound, dt.datetime):
                    bound = self._as_bound(bound, first_column.kind, zone_name)
                parts.append(f"{name} {operator} {database.literal(bound)}")
        return " AND ".join(parts)

    def _as_bound(self, time: dt.datetime, kind: CursorKind, zone_name: str) -> dt.datetime:
        if kind == "wall" and time.tzinfo is None:
            return time
        return self._as_column_time(time if time.tzinfo is not None else time.replace(tzinfo=zone(zone_name)), kind)

    def is_null(self, database: Database) -> str:
        """Return the SQL condition for rows that lack a value of the cursor."""
        return " OR ".join(f"{name} IS NULL" for name in self._quoted_columns(database))

    def has_all_rows(self, begin: str | None, end: str) -> bool:
        """Return True if an increment begins with the table's first row: it is the first or has restarted."""
        begin_values = self.parse_position(begin or START_POSITION)
        return not begin_values or self.parse_position(end) < begin_values

    def find_end(
        self, database: Database, relation: str, begin: str | None, *, row_condition: str, until: dt.datetime
    ) -> str:
        """Return the position of the newest row after ``begin``, or ``begin`` without such a row.

        :param row_condition: SQL condition. "" for all rows.
        :param until: rows of this time or later are left out. Rounded down to the column's clock tick, which may get
            more rows.
        """
        begin_values, names = self.parse_position(begin or START_POSITION), self._quoted_columns(database)
        parts = [row_condition] if row_condition else []
        parts += [f"{name} IS NOT NULL" for name in names]
        parts += (
            [after_bound(names, self._literals(database, begin_values), compares_rows=self.compares_rows)]
            if begin_values
            else []
        )
        parts += [
            f"{name} < "
            f"{database.literal(self._as_column_time(_floor_to_tick(until, column.fraction_digits), column.kind))}"
            for name, column in zip(names, self.columns, strict=True)
            if column.kind != "number"
        ]
        sql = database.select(
            names,
            relation,
            where=" AND ".join(f"({part})" for part in parts),
            order_by=", ".join(f"{name} DESC" for name in names),
            limit=1,
        )
        last_rows = database.rows(sql)
        return self.format_position(last_rows[0]) if last_rows else begin or START_POSITION

    def _as_column_time(self, instant: dt.datetime, kind: CursorKind) -> dt.datetime:
        return instant if kind == "instant" else instant.astimezone(zone(self.db_timezone)).replace(tzinfo=None)

    def position_time(self, position: str) -> dt.datetime | None:
        """Return a position's time as an instant, the earlier one of two. None without a time."""
        values = self.parse_position(position)
        if not values or not isinstance(values[0], dt.datetime):
            return None
        return values[0] if values[0].tzinfo is not None else values[0].replace(tzinfo=zone(self.db_timezone))

    def _quoted_columns(self, database: Database) -> list[str]:
        return [database.quote(column.name) for column in self.columns]

    @staticmethod
    def _literals(database: Database, values: tuple[CursorValue, ...]) -> tuple[str, ...]:
        return tuple(database.literal(value) for value in values)


def _moved_back(value: CursorValue, overlap: Overlap) -> tuple[CursorValue, ...]:
    try:
        return (value - overlap,)  # type: ignore[operator]  # both are times, or both are numbers
    except OverflowError:  # before the first year
        return ()


def make_cursor(
    database: Database,
    *,
    timestamp: SqlColumn | None,
    incrementing: SqlColumn | None,
    db_timezone: str,
    compares_rows: bool,
) -> SqlCursor:
    """Return the cursor over the given columns. Raises ConfigError with every unsuitable column."""
    columns, problems = [], []
    for option, column in (("timestamp_column", timestamp), ("incrementing_column", incrementing)):
        if column is None:
            continue
        (read_column,) = database.read_columns([column], ValueChoices())
        kind = _cursor_kind(option, read_column.type)
        if kind is None:
            expected_type = "a timestamp" if option == "timestamp_column" else "a whole number"
            problems.append(f"{option}: {column.name!r} of type {column.type} is not {expected_type}")
        else:
            columns.append(SqlCursorColumn(column.name, kind, fraction_digits_of(column.base)))
    refuse_any(problems)
    return SqlCursor(tuple(columns), db_timezone, compares_rows)


def fraction_digits_of(column_type: str) -> int:
    """Return the stored digits of a second's fraction. An underestimate only delays rows."""
    match = _TYPE_DIGITS.search(column_type)
    if match:
        return min(int(match[1]), _MAX_FRACTION_DIGITS)
    return 0 if column_type.lower() in _WHOLE_SECOND_TYPES else _MAX_FRACTION_DIGITS


def _floor_to_tick(instant: dt.datetime, digits: int) -> dt.datetime:
    step = 10 ** (_MAX_FRACTION_DIGITS - digits)
    return instant.replace(microsecond=instant.microsecond // step * step)


def _cursor_kind(option: str, kind: pa.DataType) -> CursorKind | None:
    from pyarrow import types

    if option == "incrementing_column":
        is_whole_number = types.is_integer(kind) or (types.is_decimal(kind) and kind.scale == 0)
        return "number" if is_whole_number else None
    clock = clock_of_type(kind)
    return None if clock == "date" else clock


def _normalize_time(value: dt.datetime, kind: CursorKind) -> dt.datetime:
    """Return an instant in UTC or a local time. MySQL's instants have no zone."""
    if kind == "instant":
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    return value.replace(tzinfo=None)


def _parse_time(text: str, kind: CursorKind) -> dt.datetime:
    time = dt.datetime.fromisoformat(text)
    if (time.tzinfo is None) is (kind == "instant"):
        raise ValueError("a time of another kind")
    return time
