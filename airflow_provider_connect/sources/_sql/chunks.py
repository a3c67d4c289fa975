"""Splits a table into chunks: ranges of its key with about equal numbers of rows.

Bounds are existing keys, found by walking along the key, so gaps do not make chunks uneven. Every row belongs to one
chunk, even if rows are added or deleted during the read.

Bounds are stored as JSON without SQL, since others may write to the stage. A forged bound, quoted as a value, can only
select other rows of this table.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

from airflow_provider_connect.clients.sql.database import Database
from airflow_provider_connect.errors import ConfigError

MIN_CHUNK_ROWS = 50_000
"""Fewest rows worth a separate session."""
MAX_CHUNK_ROWS = 1_000_000
"""Most rows of a chunk, unless this makes more than ``MAX_CHUNKS``. After a fault the chunk is read again."""
MAX_CHUNKS = 1_000

KeyValues = tuple[object, ...]
"""Values of the key's columns, as returned by the database."""
KeyLiterals = tuple[str, ...]
"""Values of the key's columns, as SQL."""


def chunk_count(rows: int, concurrency: int) -> int:
    """Return the number of chunks for ``rows`` rows.

    :param concurrency: number of chunks read concurrently.
    """
    return max(1, min(concurrency, rows // MIN_CHUNK_ROWS), min(-(-rows // MAX_CHUNK_ROWS), MAX_CHUNKS))


def find_keys(
    database: Database,
    relation: str,
    columns: Sequence[str],
    *,
    values: Sequence[str],
    row_condition: str,
    rows: int,
    chunks: int,
    compares_rows: bool,
) -> list[KeyValues]:
    """Return the last key of every chunk except the last, in order. Fewer keys if there are fewer rows.

    :param columns: quoted columns of the key.
    :param values: SQL expressions of their values. See :meth:`.Database.key_value`.
    :param row_condition: SQL condition. "" for all rows.
    :param rows: approximate number. An error makes chunks uneven but loses no row.
    :param compares_rows: see :func:`chunk_conditions`.
    """
    step = max(1, rows // chunks)
    order = ", ".join(columns)
    keys: list[KeyValues] = []
    while len(keys) < chunks - 1:
        lower = [after_bound(columns, key_literals(database, keys[-1]), compares_rows=compares_rows)] if keys else []
        chunk_condition = " AND ".join(f"({condition})" for condition in [row_condition, *lower] if condition)
        sql = database.select(values, relation, where=chunk_condition, order_by=order, limit=1)
        key_rows = database.rows(f"{sql} OFFSET {step - 1}")
        if not key_rows:
            break
        keys.append(key_rows[0])
    return keys


def key_literals(database: Database, key: KeyValues) -> KeyLiterals:
    """Return a key's values as SQL literals."""
    return tuple(database.literal(str(value) if isinstance(value, uuid.UUID) else value) for value in key)


def chunk_conditions(columns: Sequence[str], bounds: Sequence[KeyLiterals], *, compares_rows: bool) -> list[str]:
    """Return each chunk's SQL condition: after one bound, up to and including the next. "" for a single chunk.

    :param columns: quoted columns of the key, all NOT NULL.
    :param compares_rows: True if the database uses an index for ``(a, b) > (1, 2)``. MySQL does not, so its conditions
        compare column by column.
    """
    limits: list[KeyLiterals | None] = [None, *bounds, None]
    conditions = []
    for lower, upper in pairwise(limits):
        parts = [after_bound(columns, lower, compares_rows=compares_rows)] if lower is not None else []
        parts += [up_to_bound(columns, upper, compares_rows=compares_rows)] if upper is not None else []
        conditions.append(" AND ".join(f"({part})" for part in parts))
    return conditions


def after_bound(columns: Sequence[str], bound: KeyLiterals, *, compares_rows: bool) -> str:
    """Return the SQL condition for rows after a bound. See :func:`chunk_conditions`."""
    return _compare_key(columns, bound, ">", ">", compares_rows=compares_rows)


def up_to_bound(columns: Sequence[str], bound: KeyLiterals, *, compares_rows: bool) -> str:
    """Return the SQL condition for rows up to and including a bound."""
    return _compare_key(columns, bound, "<", "<=", compares_rows=compares_rows)


def _compare_key(
    columns: Sequence[str], bound: KeyLiterals, strict_operator: str, final_operator: str, *, compares_rows: bool
) -> str:
    if len(columns) == 1:
        return f"{columns[0]} {final_operator} {bound[0]}"
    if compares_rows:
        return f"({', '.join(columns)}) {final_operator} ({', '.join(bound)})"
    inner = _compare_key(columns[1:], bound[1:], strict_operator, final_operator, compares_rows=compares_rows)
    return f"{columns[0]} {strict_operator} {bound[0]} OR ({columns[0]} = {bound[0]} AND ({inner}))"


_KEY_PARSERS: dict[str, Callable[[str], object]] = {
    "bool": {"True": True, "False": False}.__getitem__,
    "bytes": bytes.fromhex,
    "datetime": dt.datetime.fromisoformat,
    "int": int,
    "float": float,  # SQLite may store decimals as floats
    "Decimal": Decimal,
    "date": dt.date.fromisoformat,
    "UUID": uuid.UUID,
    "str": str,
}
"""Parsers by type name. Only keys of these types can split a table."""


def key_to_json(key: KeyValues) -> list[list[str]]:
    """Convert a key to pairs of type name and text. Raises ConfigError for an unsupported type."""
    pairs = [[type(value).__name__, value.hex() if isinstance(value, bytes) else str(value)] for value in key]
    if unsupported_types := [kind for kind, _ in pairs if kind not in _KEY_PARSERS]:
        raise ConfigError(
            f"consistency: a table cannot be split at a key of type {unsupported_types[0]}. Leave consistency out, or "
            "set key= to a column of another type"
        )
    return pairs


def key_from_json(pairs: Any, columns: int) -> KeyValues:
    """Convert the pairs of :func:`key_to_json` to a key.

    :raises ValueError: they are not a key of ``columns`` columns.
    """
    try:
        key = tuple(_KEY_PARSERS[kind](text) for kind, text in pairs)
    except (KeyError, TypeError, ValueError, InvalidOperation):
        raise ValueError("not a key") from None
    if len(key) != columns or key_to_json(key) != pairs:
        raise ValueError("not a key of this table")
    return key
