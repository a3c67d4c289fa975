"""### Stripe's events into a Delta table, a day at a time

The source is declared in `stripe_events.yaml` next to this file. One run for each UTC day. Stripe keeps events for 30
days, so an earlier `start_date` loads nothing.

Needs the connections `stripe` (type HTTP, host `https://api.stripe.com`, a restricted key that may read events as its
password, extra `{"auth": "bearer"}`) and `spark_default`.
"""

import datetime as dt
import os

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.rest import RestSource
from airflow_provider_connect.timetables import daily

TABLE = os.environ.get("CONNECT_DEMO_TABLE", "/tmp/stripe_events")  # noqa: S108  # a path or a URL of your own
FIRST_DAY = dt.date.fromisoformat(os.environ.get("CONNECT_DEMO_FIRST_DAY", "2026-11-01"))

with DAG(
    "stripe_events_daily",
    schedule=daily("UTC"),
    start_date=dt.datetime.combine(FIRST_DAY, dt.time(), tzinfo=dt.UTC),
    catchup=True,
    max_active_runs=2,
    doc_md=__doc__,
    tags=["connect", "rest", "delta"],
):
    ConnectOperator(
        task_id="events",
        source=RestSource.from_file("stripe_events.yaml", conn_id="stripe"),
        sink=DeltaSink(path=TABLE),
    )
