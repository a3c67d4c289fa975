"""An Airflow connection as the API shows it: without what is secret in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.connection import Connection


def shown(told: Mapping[str, Any]) -> Connection:
    """Return a connection with what says where it leads, and no more: neither login nor password."""
    return Connection(
        conn_id=told["connection_id"],
        conn_type=told.get("conn_type") or "",
        host=told.get("host") or None,
        port=told.get("port"),
        path=told.get("schema") or None,
        extra=_extra(told.get("extra")),
    )


def _extra(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}
