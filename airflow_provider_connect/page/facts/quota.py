"""Used part of a source's quota, computed from its connection and the quota's Variables."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.quota.book import QuotaBook
from airflow_provider_connect.polling.quota.limits import Quota


def quota_usage(quota: Quota, keys: Iterable[str], current_time: dt.datetime) -> dict[str, Any]:
    """Return used requests, limit, waiting tasks, and when the first request becomes free."""
    book, seconds = QuotaBook.read(quota, keys), current_time.timestamp()
    limit = book.limit(seconds)
    used_requests = max(0, min(limit, limit - book.room(seconds)))
    frees_at = _first_free(book, seconds) if used_requests else None
    return {
        "name": quota.name,
        "used": used_requests,
        "limit": limit,
        "period_seconds": quota.seconds if quota.seconds != int(quota.seconds) else int(quota.seconds),
        "waiting": len({waiting.asker for waiting in book.waiting if waiting.back > seconds - quota.grace_seconds}),
        "resets_at": None if frees_at is None else dt.datetime.fromtimestamp(frees_at, dt.UTC).isoformat(),
    }


def _first_free(book: QuotaBook, current_time: float) -> float | None:
    room = book.room(current_time)
    low, high = current_time, current_time + 2 * book.quota.seconds
    if book.room(high) <= room:
        return None
    # Without new reservations room only grows, so bisection finds the instant.
    while high - low > 1:
        middle = (low + high) / 2
        low, high = (middle, high) if book.room(middle) <= room else (low, middle)
    return math.ceil(high)


def public_connection(connection: Mapping[str, Any]) -> Connection:
    """Build a connection from Airflow's API answer, without login and password."""
    return Connection(
        conn_id=connection["connection_id"],
        conn_type=connection.get("conn_type") or "",
        host=connection.get("host") or None,
        port=connection.get("port"),
        path=connection.get("schema") or None,
        extra=_extra(connection.get("extra")),
    )


def _extra(text: str | None) -> dict[str, Any]:
    try:
        extra = json.loads(text) if text else {}
    except ValueError:
        extra = {}
    return extra if isinstance(extra, dict) else {}
