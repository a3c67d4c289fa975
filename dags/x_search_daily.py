"""### Posts on X into a Delta table, a day at a time

One run for each UTC day, half an hour after its end, since its posts may be edited until then. `start_date` is the
first day, and catchup makes a run for every day since. Days older than a week are read from the full archive.
`airflow backfill create` loads any range again. Clearing a task loads its day again.

Needs the connection `x_default` (type X, with the app's bearer token as its password) and the Spark connection
`spark_default`, for example `AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[*]"}'`.
"""

import datetime as dt
import os

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.x_search import XSearchSource
from airflow_provider_connect.timetables import daily

TABLE = os.environ.get("CONNECT_DEMO_TABLE", "/tmp/x_posts")  # noqa: S108  # a path or a URL of your own
FIRST_DAY = dt.date.fromisoformat(os.environ.get("CONNECT_DEMO_FIRST_DAY", "2026-10-01"))

with DAG(
    "x_search_daily",
    schedule=daily("UTC"),
    start_date=dt.datetime.combine(FIRST_DAY, dt.time(), tzinfo=dt.UTC),
    catchup=True,
    max_active_runs=2,
    doc_md=__doc__,
    tags=["connect", "x", "delta"],
):
    ConnectOperator(
        task_id="posts",
        source=XSearchSource(conn_id="x_default", queries=["coffee -is:repost", "tea OR rain"]),
        sink=DeltaSink(path=TABLE),
        ready_after=dt.timedelta(minutes=30),
    )
