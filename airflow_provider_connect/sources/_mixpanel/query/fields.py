"""Reads fields of a document: what is not of the kind expected is None, and the row says null."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any


def whole(value: Any) -> int | None:
    """Return a whole number that a BIGINT holds."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def number(value: Any) -> float | None:
    """Return a finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        read = float(value)
    except OverflowError:
        return None
    return read if math.isfinite(read) else None


def text(value: Any) -> str | None:
    """Return a text; a lone surrogate, which no column holds, is U+FFFD."""
    if not isinstance(value, str):
        return None
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def document(value: Any) -> str:
    """Return a document's part as JSON."""
    return text(json.dumps(value, ensure_ascii=False)) or ""


def flag(value: Any) -> bool | None:
    """Return true or false, which Mixpanel writes as 1 or 0 too."""
    return bool(value) if value in (0, 1) else None


def wall(value: Any) -> dt.datetime | None:
    """Return what a clock showed, written as ``2019-03-19 23:49:51``."""
    try:
        return dt.datetime.fromisoformat(value).replace(tzinfo=None)
    except (TypeError, ValueError):
        return None


def instant(value: Any) -> dt.datetime | None:
    """Return the instant of a time with an offset, such as ``2026-03-01T00:00:00-08:00``."""
    try:
        read = dt.datetime.fromisoformat(value)
        return read.astimezone(dt.UTC) if read.tzinfo is not None else None
    except (TypeError, ValueError, OverflowError):
        return None
