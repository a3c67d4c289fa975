"""What the page is looked at with: a stream of three days, one that fails, one of two sinks, and a DAG of others."""

import datetime as dt
import os

from airflow.providers.openlineage.utils.selective_enable import enable_lineage
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.timetables import daily

TABLES = os.environ["CONNECT_TEST_TABLES"]
WHEN = {
    "schedule": daily("US/Pacific"),
    "start_date": dt.datetime(2026, 9, 1, 7, tzinfo=dt.UTC),
    "end_date": dt.datetime(2026, 9, 3, 7, tzinfo=dt.UTC),
    "catchup": True,
    "max_active_runs": 1,
}
TASK = {"conn_id": "spark_one", "retries": 0}

with DAG("paged", **WHEN) as paged:
    source = MixpanelSource(conn_id="mixpanel_paged", zone="US/Pacific")
    ConnectOperator(task_id="events", source=source, sink=DeltaSink(path=f"{TABLES}/paged"), **TASK)

with DAG("broken", schedule=None):
    source = MixpanelSource(conn_id="mixpanel_broken")
    ConnectOperator(task_id="events", source=source, sink=DeltaSink(path=f"{TABLES}/broken"), days="2026-09-01", **TASK)

with DAG("paged_mapped", schedule=None):
    source = MixpanelSource(conn_id="mixpanel_paged")
    sinks = [DeltaSink(path=f"{TABLES}/paged_{name}") for name in ("first", "second")]
    ConnectOperator.partial(task_id="events", source=source, days="2026-09-01", **TASK).expand(sink=sinks)

with DAG("untouched", **WHEN):
    source = MixpanelSource(conn_id="mixpanel_paged", zone="US/Pacific")
    ConnectOperator(task_id="events", source=source, sink=DeltaSink(path=f"{TABLES}/untouched"), **TASK)

with DAG("others", schedule=None):
    EmptyOperator(task_id="events")

enable_lineage(paged)  # a further process for each event: the other DAGs of this folder do without
