"""Cuts a table into ranges of its key that hold about as many rows each.

The bounds are keys that exist, found by walking along the key's own order, so that neither gaps nor a crowd of rows at
one end make a chunk large. Together the ranges hold every row once, whatever rows come and go while they are read.

The plan of a snapshot keeps the keys as plain JSON, and no SQL. A later try reads them from the stage, where others may
write. So they are values, which the database's own rules quote, and whatever is written there reads rows of this table
only.
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
"""A chunk below this is not worth a session of its own."""
MAX_CHUNK_ROWS = 1_000_000
"""What a chunk has at most: it is what is read again after a fault."""
MAX_CHUNKS = 1_000

KeyValues = tuple[object, ...]
"""The values of its columns as the database gave them."""
KeyLiterals = tuple[str, ...]
"""A key: its columns' values as SQL has them."""


def chunk_count(rows: int, concurrency: int) -> int:
    """Return in how many chunks to read so many rows.

    :param at_once: how many are read at the same time.
    """
    return max(1, min(concurrency, rows // MIN_CHUNK_ROWS), min(-(-rows // MAX_CHUNK_ROWS), MAX_CHUNKS))


def find_keys(
    database: Database,
    relation: str,
    columns: Sequence[str],
    *,
    where: str,
    rows: int,
    chunks: int,
    compares_rows: bool,
) -> list[KeyValues]:
    """Return the last key of each chunk but the last one, in the key's order; fewer if there are fewer rows.

    :param columns: those of the key, quoted.
    :param where: which rows there are; "" for all.
    :param rows: about how many there are; if that is wrong, chunks are uneven, and no row is lost.
    :param compares_rows: see :func:`conditions`.
    """
    step = max(1, rows // chunks)
    order = ", ".join(columns)
    keys: list[KeyValues] = []
    while len(keys) < chunks - 1:
        last_key_condition = (
            [after_bound(columns, key_literals(database, keys[-1]), compares_rows=compares_rows)] if keys else []
        )
        chunk_condition = " AND ".join(f"({condition})" for condition in [where, *last_key_condition] if condition)
        sql = database.select(columns, relation, where=chunk_condition, order_by=order, limit=1)
        key_rows = database.rows(f"{sql} OFFSET {step - 1}")
        if not key_rows:
            break
        keys.append(key_rows[0])
    return keys


def key_literals(database: Database, key: KeyValues) -> KeyLiterals:
    """Return a key as SQL has it."""
    return tuple(database.literal(str(value) if isinstance(value, uuid.UUID) else value) for value in key)


def chunk_conditions(columns: Sequence[str], bounds: Sequence[KeyLiterals], *, compares_rows: bool) -> list[str]:
    """Return the condition of each chunk: all after one bound and up to the next; "" if there is one chunk only.

    :param columns: those of the key, quoted. None of them may be NULL.
    :param compares_rows: whether the database uses an index where it compares whole keys, ``(a, b) > (1, 2)``. MySQL
        does not, and is told the same column by column.
    """
    limits: list[KeyLiterals | None] = [None, *bounds, None]
    conditions = []
    for lower, upper in pairwise(limits):
        parts = [after_bound(columns, lower, compares_rows=compares_rows)] if lower is not None else []
        parts += [up_to_bound(columns, upper, compares_rows=compares_rows)] if upper is not None else []
        conditions.append(" AND ".join(f"({part})" for part in parts))
    return conditions


def after_bound(columns: Sequence[str], bound: KeyLiterals, *, compares_rows: bool) -> str:
    """Return the condition of all rows behind a bound; the parameters are those of :func:`conditions`."""
    return _compare_key(columns, bound, ">", ">", compares_rows=compares_rows)


def up_to_bound(columns: Sequence[str], bound: KeyLiterals, *, compares_rows: bool) -> str:
    """Return the condition of all rows up to a bound, and of those at it."""
    return _compare_key(columns, bound, "<", "<=", compares_rows=compares_rows)


def _compare_key(
    columns: Sequence[str], bound: KeyLiterals, strict_operator: str, last_operator: str, *, compares_rows: bool
) -> str:
    if len(columns) == 1:
        return f"{columns[0]} {last_operator} {bound[0]}"
    if compares_rows:
        return f"({', '.join(columns)}) {last_operator} ({', '.join(bound)})"
    inner = _compare_key(columns[1:], bound[1:], strict_operator, last_operator, compares_rows=compares_rows)
    return f"{columns[0]} {strict_operator} {bound[0]} OR ({columns[0]} = {bound[0]} AND ({inner}))"


_KEY_PARSERS: dict[str, Callable[[str], object]] = {
    "int": int,
    "float": float,  # SQLite's decimals may be such numbers
    "Decimal": Decimal,
    "date": dt.date.fromisoformat,
    "UUID": uuid.UUID,
    "str": str,
}
"""What makes a value of its text again, by its type's name: all that a key may be cut at."""


def key_to_json(key: KeyValues) -> list[list[str]]:
    """Return a key as pairs of type and text.

    :raises ConfigError: a value is of no such type.
    """
    pairs = [[type(value).__name__, str(value)] for value in key]
    if unsupported := [kind for kind, _ in pairs if kind not in _KEY_PARSERS]:
        raise ConfigError(
            f"consistency: no table is cut at a key of {unsupported[0]}: leave it out, or name another key="
        )
    return pairs


def key_from_json(pairs: Any, columns: int) -> KeyValues:
    """Return the key that :func:`as_json` has written.

    :raises ValueError: it wrote no such thing.
    """
    try:
        key = tuple(_KEY_PARSERS[kind](text) for kind, text in pairs)
    except (KeyError, TypeError, ValueError, InvalidOperation):
        raise ValueError("it is no key") from None
    if len(key) != columns or key_to_json(key) != pairs:
        raise ValueError("it is no key of this table")
    return key
