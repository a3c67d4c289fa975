"""### Zendesk's ticket events into a Delta table, a day at a time

The incremental export accepts a start but no end, and reads up to the present. An old day costs all pages since then,
so start catchup with few days. Events of other days are dropped, and counted as `other_day`.

Needs the connections `zendesk` (type HTTP, host `https://<your subdomain>.zendesk.com`, login `<e-mail>/token`, an API
token as its password) and `spark_default`.

Zendesk's documentation, read in November 2026:
https://developer.zendesk.com/api-reference/ticketing/ticket-management/incremental_exports/ and
https://developer.zendesk.com/documentation/ticketing/managing-tickets/using-the-incremental-export-api/
"""

import datetime as dt
import os

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.rest import Flag, NextLink, RateLimits, Records, Request, RestSource
from airflow_provider_connect.timetables import daily

TABLE = os.environ.get("CONNECT_DEMO_TABLE", "/tmp/zendesk_ticket_events")  # noqa: S108  # a path or a URL of your own
FIRST_DAY = dt.date.fromisoformat(os.environ.get("CONNECT_DEMO_FIRST_DAY", "2026-11-01"))

TICKET_EVENTS = RestSource(
    conn_id="zendesk",
    stream="ticket_events",
    request=Request(path="/api/v2/incremental/ticket_events.json", params={"start_time": "{day.start:epoch_s}"}),
    # The last page has a link too. Only end_of_stream marks it as the last.
    paging=NextLink(at="next_page", ends=Flag(at="end_of_stream", last=True)),
    records=Records(
        at="ticket_events",
        # A page starts at the second at which the page before ended. Repeated events have the same id.
        key=("id",),
        columns={
            "id": "bigint",
            "ticket_id": "bigint",
            "updater_id": "bigint",
            "event_type": "string",
            "happened_at": {"type": "timestamp", "format": "epoch_s", "at": "timestamp"},
            "child_events": "json",
        },
        day="happened_at",
        outside="drop",
    ),
    limits=RateLimits(per_minute=10),
    parallel_days=1,  # otherwise each day gets only its part of the ten requests
)

with DAG(
    "zendesk_ticket_events_daily",
    schedule=daily("UTC"),
    start_date=dt.datetime.combine(FIRST_DAY, dt.time(), tzinfo=dt.UTC),
    catchup=True,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["connect", "rest", "delta"],
):
    ConnectOperator(task_id="ticket_events", source=TICKET_EVENTS, sink=DeltaSink(path=TABLE))
