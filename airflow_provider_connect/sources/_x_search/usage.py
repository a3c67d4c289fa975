"""How many posts an app has read this month: the question that reads none, for the Test button.

``GET /2/usage/tweets`` has limits of its own: 50 requests in 15 minutes.
"""

from __future__ import annotations

import json
from typing import Any

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._x_search.asking import Asking
from airflow_provider_connect.sources._x_search.options import XSearchOptions


def usage(connection: Connection) -> str:
    """Return, in words, what the app has used of its month.

    :raises ConnectError: X cannot be reached, or refuses the token.
    """
    options = XSearchOptions(
        conn_id=connection.conn_id, queries=["x"], request_deadline_seconds=30, read_timeout_seconds=15
    )
    there = Asking(options, connection, "/2/usage/tweets", None, Tally(), quota=None)
    found = there.document({}, _figures)
    used, cap = (found.get(name) for name in ("project_usage", "project_cap"))
    if used is None or cap is None:
        return "X knows the token; it does not say how much of the month's posts is used up"
    return f"X knows the token; {_shown(used)} of {_shown(cap)} posts of this month are used up"


def _figures(data: bytes, _: Asking) -> dict[str, Any]:
    try:
        found = json.loads(data)["data"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _shown(figure: Any) -> str:
    text = str(figure)
    return f"{int(text):,}" if text.isdecimal() else "?"
