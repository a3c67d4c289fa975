"""### Mixpanel events into a Delta table, a day at a time

One run for each calendar day of the project's zone. `start_date` is the first day, and catchup makes a run for every
day since. `airflow backfill create` loads any range again. Clearing a task loads its day again.

Needs the connection `mixpanel_default` (type Mixpanel) and the Spark connection `spark_default`, for example
`AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[*]"}'`.
"""

import datetime as dt
import os
from zoneinfo import ZoneInfo

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.timetables import daily

ZONE = "US/Pacific"
TABLE = os.environ.get("CONNECT_DEMO_TABLE", "/tmp/mixpanel_events")  # noqa: S108  # a path or a URL of your own
FIRST_DAY = dt.date.fromisoformat(os.environ.get("CONNECT_DEMO_FIRST_DAY", "2026-10-01"))

with DAG(
    "mixpanel_daily",
    schedule=daily(ZONE),
    start_date=dt.datetime.combine(FIRST_DAY, dt.time(), tzinfo=ZoneInfo(ZONE)),
    catchup=True,
    max_active_runs=4,
    doc_md=__doc__,
    tags=["connect", "mixpanel", "delta"],
):
    ConnectOperator(
        task_id="events",
        source=MixpanelSource(conn_id="mixpanel_default", stream="export", zone=ZONE),
        sink=DeltaSink(path=TABLE),
    )
