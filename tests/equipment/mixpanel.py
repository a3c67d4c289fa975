"""The stand-in's other side: a connection to it, and a whole poll of a stream."""

from __future__ import annotations

import datetime as dt
from typing import Any

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import Day
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.server import StandIn

DAY = Day(date=dt.date(2026, 3, 1))
ENGAGE = "/api/query/engage"

NEEDED: dict[str, dict[str, Any]] = {
    "retention": {"born_event": "Page View", "interval_count": 7},
    "insights": {"bookmark_id": 3001},
    "segmentation": {"event": ["Page View", "Order Completed", "never"]},
}
"""Options without which a stream cannot be read."""


def connection(server: StandIn, **extra: Any) -> Connection:
    account = server.account
    return Connection(
        conn_id="m",
        conn_type="mixpanel",
        host=server.url,
        login=account.username,
        password=account.secret,
        extra={"project_id": str(account.project_id)} | extra,
    )


def poll(server: StandIn, *faults: Fault, day: Day = DAY, **options: Any) -> tuple[list[dict[str, Any]], Tally]:
    """Poll a stream once, as an executor does; return its rows and what was counted."""
    server.faults.replace(faults)
    tally = Tally()
    with MixpanelSource(**options).open(connection(server), PollContext()) as poller:
        rows = [
            row for part in poller.plan([day]) for _, batch in poller.poll(part, tally) for row in batch.to_pylist()
        ]
    return rows, tally


def expected_id(profile: dict[str, Any]) -> str:
    """Return a parsed profile's id as rows have it."""
    found = profile["$distinct_id"]
    return found if isinstance(found, str) else str(found)
