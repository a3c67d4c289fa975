"""Cursors: by which columns a table is followed, where an increment ends, and the condition that finds its rows.

A position is the cursor columns' values of the last row that belongs to an increment. The ledger has it as a JSON list
of texts, ``["2026-10-05T12:00:00.123456+00:00", "17"]``. One without values, ``[]``, comes before every row.

An increment that ends before the position that it begins behind has begun anew: it has all rows up to its end.
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
# MySQL's times have whole seconds unless they say otherwise.
_WHOLE_SECOND_TYPES = ("datetime", "timestamp")


class SqlCursorColumn(NamedTuple):
    """One column of a cursor.

    :param tells: a number that only grows, an instant, or what a clock on the wall showed.
    :param digits: of a second's fraction that the column keeps.
    """

    name: str
    kind: CursorKind
    fraction_digits: int = _MAX_FRACTION_DIGITS


@dataclass(frozen=True)
class SqlCursor:
    """The columns that a table is followed by, the time before the number.

    :param db_timezone: whose clock a time without a zone shows.
    :param compares_rows: as for :func:`.chunks.conditions`.
    """

    columns: tuple[SqlCursorColumn, ...]
    db_timezone: str
    compares_rows: bool

    def format_position(self, values: tuple[object, ...]) -> str:
        """Return a position as the ledger keeps it.

        :param values: of a row, as the database gave them.
        :raises DataError: a value is none of its column's type.
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
                    f"column {column.name!r} has a value that is no {kind}, so nothing can be read behind it"
                )
        return json.dumps(texts)

    def parse_position(self, text: str) -> tuple[CursorValue, ...]:
        """Read a position; () of the one before every row.

        :raises ConfigError: these columns have no such position.
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
                f"the ledger has a position that {names} cannot have: mode, the cursor's columns or their types have "
                "changed since. Set them back, or load into a target of its own"
            ) from None

    def condition(self, database: Database, begin: str | None, end: str) -> str:
        """Return the condition that finds the rows of an increment.

        :param begin: the position that they come behind; None at the beginning.
        :param end: the last one's.
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
        """Tell whether an increment has all rows up to its end: it is the first, or has begun anew."""
        begin_values = self.parse_position(begin or START_POSITION)
        return not begin_values or self.parse_position(end) < begin_values

    def find_end(self, database: Database, relation: str, begin: str | None, *, where: str, until: dt.datetime) -> str:
        """Return the position of the last row there is now; ``begin`` if none came behind it.

        :param where: which rows there are; "" for all.
        :param until: no row of this time or a later one counts yet. As other rows may still get the time at which the
            column's own clock stands, it is taken back to the last tick.
        """
        begin_values, names = self.parse_position(begin or START_POSITION), self._quoted(database)
        parts = [where] if where else []
        parts += [f"{name} IS NOT NULL" for name in names]
        parts += (
            [after_bound(names, self._literals(database, begin_values), compares_rows=self.compares_rows)]
            if begin_values
            else []
        )
        parts += [
            f"{name} < {database.literal(self._as_column_time(_floor_to_tick(until, column.fraction_digits), column.kind))}"
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
        """Return an instant as a column tells it."""
        return instant if tells == "instant" else instant.astimezone(zone(self.db_timezone)).replace(tzinfo=None)

    def position_time(self, position: str) -> dt.datetime | None:
        """Return the instant of a position, the first one if its clock shows it twice; None if it has no time."""
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

    :raises ConfigError: naming every column whose type cannot be followed.
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
    """Return how many digits of a second's fraction a type keeps; too few do no harm."""
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
    """Return a time as its column tells it; MySQL gives instants without their zone, which is the session's."""
    if tells == "instant":
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    return value.replace(tzinfo=None)


def _parse_time(text: str, tells: CursorKind) -> dt.datetime:
    time = dt.datetime.fromisoformat(text)
    if (time.tzinfo is None) is (tells == "instant"):
        raise ValueError("told by another clock")
    return time
