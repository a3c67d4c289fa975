"""Keys at which a table is cut, as the plan of a snapshot keeps them: plain JSON, and no SQL.

A later try reads them from the stage, where others may write. So they are values, which the database's own rules quote,
and whatever is written there reads rows of this table only.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources._sql.chunks import Key

_READERS: dict[str, Callable[[str], object]] = {
    "int": int,
    "float": float,  # SQLite's decimals may be such numbers
    "Decimal": Decimal,
    "date": dt.date.fromisoformat,
    "UUID": uuid.UUID,
    "str": str,
}
"""What makes a value of its text again, by its type's name: all that a key may be cut at."""


def as_json(key: Key) -> list[list[str]]:
    """Return a key as pairs of type and text.

    :raises ConfigError: a value is of no such type.
    """
    pairs = [[type(value).__name__, str(value)] for value in key]
    if strange := [kind for kind, _ in pairs if kind not in _READERS]:
        raise ConfigError(f"consistency: no table is cut at a key of {strange[0]}: leave it out, or name another key=")
    return pairs


def as_key(found: Any, columns: int) -> Key:
    """Return the key that :func:`as_json` has written.

    :raises ValueError: it wrote no such thing.
    """
    try:
        key = tuple(_READERS[kind](text) for kind, text in found)
    except (KeyError, TypeError, ValueError, InvalidOperation):
        raise ValueError("it is no key") from None
    if len(key) != columns or as_json(key) != found:
        raise ValueError("it is no key of this table")
    return key
