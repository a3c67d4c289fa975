"""A schedule with catchup, for runs that a person starts before catchup has reached their day."""

from __future__ import annotations

import datetime as dt

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_provider_connect.timetables import daily

with DAG(
    "stepped",
    schedule=daily("US/Pacific"),
    start_date=dt.datetime(2026, 10, 1, tzinfo=dt.UTC),
    end_date=dt.datetime(2026, 10, 6, tzinfo=dt.UTC),
    catchup=True,
):
    EmptyOperator(task_id="day")
