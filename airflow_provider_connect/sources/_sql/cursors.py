"""Cursors: the columns by which a table is followed, the end of an increment, and the condition for its rows.

A position is the cursor columns' values in the last row of an increment. The ledger stores it as a JSON list of texts,
``["2026-10-05T12:00:00.123456+00:00", "17"]``. ``[]`` is the position before every row.

An increment whose end comes before its begin has restarted: it contains all rows up to its end.
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
    """One column of a cursor.

    :param kind: a growing number, an instant, or a local time without a zone.
    :param fraction_digits: stored digits of a second's fraction.
    """

    name: str
    kind: CursorKind
    fraction_digits: int = _MAX_FRACTION_DIGITS


@dataclass(frozen=True)
class SqlCursor:
    """The columns by which a table is followed, the time before the number.

    :param db_timezone: zone of times without a zone.
    :param compares_rows: see :func:`.chunks.chunk_conditions`.
    """

    columns: tuple[SqlCursorColumn, ...]
    db_timezone: str
    compares_rows: bool

    def format_position(self, values: tuple[object, ...]) -> str:
        """Return the position of a row as the ledger stores it.

        :param values: the row's values as the database returned them.
        :raises DataError: a value does not match its column's kind.
        """
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
        """Parse a position. () for the position before every row.

        :raises ConfigError: the position does not fit these columns.
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

    def condition(self, database: Database, begin: str | None, end: str) -> str:
        """Return the condition for the rows of an increment.

        :param begin: position before its first row. None for the first increment.
        :param end: position of its last row.
        """
        end_values = self.parse_position(end)
        if not end_values or begin == end:
            return NO_ROWS
        begin_values = () if self.has_all_rows(begin, end) else self.parse_position(begin or START_POSITION)
        names = self._quoted(database)
        parts = (
            [after_bound(names, self._literals(database, begin_values), compares_rows=self.compares_rows)]
            if begin_values
            else []
        )
        parts.append(up_to_bound(names, self._literals(database, end_values), compares_rows=self.compares_rows))
        return " AND ".join(f"({part})" for part in parts)

    def has_all_rows(self, begin: str | None, end: str) -> bool:
        """Return whether an increment contains all rows up to its end: it is the first one or has restarted."""
        begin_values = self.parse_position(begin or START_POSITION)
        return not begin_values or self.parse_position(end) < begin_values

    def find_end(
        self, database: Database, relation: str, begin: str | None, *, row_condition: str, until: dt.datetime
    ) -> str:
        """Return the position of the newest row. ``begin`` if there are no newer rows.

        :param row_condition: condition on the rows. "" for all.
        :param until: rows of this time or later do not count yet. It is rounded down to the column's last tick, since
            more rows may still get the current tick.
        """
        begin_values, names = self.parse_position(begin or START_POSITION), self._quoted(database)
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

    def _as_column_time(self, instant: dt.datetime, tells: CursorKind) -> dt.datetime:
        """Convert an instant to the column's kind of time."""
        return instant if tells == "instant" else instant.astimezone(zone(self.db_timezone)).replace(tzinfo=None)

    def position_time(self, position: str) -> dt.datetime | None:
        """Return the instant of a position. The earlier one if the clock shows that time twice, None without a time."""
        values = self.parse_position(position)
        if not values or not isinstance(values[0], dt.datetime):
            return None
        return values[0] if values[0].tzinfo is not None else values[0].replace(tzinfo=zone(self.db_timezone))

    def _quoted(self, database: Database) -> list[str]:
        return [database.quote(column.name) for column in self.columns]

    @staticmethod
    def _literals(database: Database, values: tuple[CursorValue, ...]) -> tuple[str, ...]:
        return tuple(database.literal(value) for value in values)


def make_cursor(
    database: Database,
    *,
    timestamp: SqlColumn | None,
    incrementing: SqlColumn | None,
    db_timezone: str,
    compares_rows: bool,
) -> SqlCursor:
    """Return the cursor of a table.

    :raises ConfigError: names every column whose type cannot be followed.
    """
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
    """Return the digits of a second's fraction that a type stores. Too few do no harm."""
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


def _normalize_time(value: dt.datetime, tells: CursorKind) -> dt.datetime:
    """Return a time as an instant in UTC or as a local time. MySQL returns instants in UTC without a zone."""
    if tells == "instant":
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    return value.replace(tzinfo=None)


def _parse_time(text: str, tells: CursorKind) -> dt.datetime:
    time = dt.datetime.fromisoformat(text)
    if (time.tzinfo is None) is (tells == "instant"):
        raise ValueError("a time of another kind")
    return time
