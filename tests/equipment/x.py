"""The X stand-in's other side: a connection to it, and a whole poll of a day."""

from __future__ import annotations

import datetime as dt
from typing import Any

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.x_search import XSearchSource
from airflow_provider_connect.window import Day
from tests.standins.x.faults import Fault
from tests.standins.x.server import StandIn

NOW = dt.datetime(2026, 3, 10, 12, tzinfo=dt.UTC)
DAY = Day(date=dt.date(2026, 3, 1))
YESTERDAY = Day(date=dt.date(2026, 3, 9))
QUERIES = ["coffee", "tea OR rain"]


def connection(server: StandIn, **extra: Any) -> Connection:
    return Connection(
        conn_id="x",
        conn_type="x",
        host=server.url,
        password=server.app.token,
        extra={"limits": {"all": {"per_second": 1000}}} | extra,
    )


def source(**options: Any) -> XSearchSource:
    return XSearchSource(**{"conn_id": "x", "queries": QUERIES} | options)


def poll(server: StandIn, *faults: Fault, day: Day = DAY, **options: Any) -> tuple[list[dict[str, Any]], Tally]:
    """Poll a day once, as executors do; return its rows and what was counted."""
    server.faults.replace(faults)
    server.requests_taken.clear()
    tally = Tally([day])
    with source(**options).open(connection(server), PollContext()) as poller:
        rows = [
            row for part in poller.plan([day]) for _, batch in poller.poll(part, tally) for row in batch.to_pylist()
        ]
    return rows, tally


def found_by(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return, by id, which queries found a post; fail if a post is there twice."""
    found = {row["id"]: row["queries"] for row in rows}
    assert len(found) == len(rows), "a post is there twice"
    return found
