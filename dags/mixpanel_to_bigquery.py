"""### Mixpanel events into a BigQuery table, a day at a time

One run for each calendar day of the project's zone. `start_date` is the first day, and catchup makes a run for every
day since. `airflow backfill create` loads any range again. Clearing a task loads its day again, deletions included. A
reader of the table sees a complete day or none of it.

Needs the connections `mixpanel_default` (type Mixpanel), `google_cloud_default` (type Google Cloud, with the project)
and `spark_default`, and the dataset `analytics`. The first day creates the table, partitioned by `day`.
"""

import datetime as dt
import os
from zoneinfo import ZoneInfo

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.timetables import daily

ZONE = "US/Pacific"
FIRST_DAY = dt.date.fromisoformat(os.environ.get("CONNECT_DEMO_FIRST_DAY", "2026-10-01"))

with DAG(
    "mixpanel_to_bigquery",
    schedule=daily(ZONE),
    start_date=dt.datetime.combine(FIRST_DAY, dt.time(), tzinfo=ZoneInfo(ZONE)),
    catchup=True,
    max_active_runs=4,
    doc_md=__doc__,
    tags=["connect", "mixpanel", "bigquery"],
):
    ConnectOperator(
        task_id="events",
        source=MixpanelSource(conn_id="mixpanel_default", stream="export", zone=ZONE),
        sink=BigQuerySink(conn_id="google_cloud_default", table="analytics.mixpanel_events"),
    )
