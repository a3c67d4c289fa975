"""A DAG as Airflow serializes it, before the first run: the page reads its source and sink."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.page.facts.connectors import ConnectorPair
from airflow_provider_connect.page.serialized_dags import add_declared_connectors
from airflow_provider_connect.page.viewer_cache import TaskName, TaskProfile
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource

SOURCE, SINK = MixpanelSource(zone="US/Pacific"), DeltaSink(path="/t")


class Bag:
    """Airflow's serialized DAGs, in memory."""

    def __init__(self, dag: DAG) -> None:
        self.dag = DagSerialization.from_dict(DagSerialization.to_dict(dag))

    def get_latest_version_of_dag(self, dag_id: str, session: object) -> Any:
        """Return the DAG."""
        return self.dag if dag_id == self.dag.dag_id else None


def declared(dag: DAG, task_id: str) -> ConnectorPair:
    profile = TaskProfile({}, [], has_run=False)
    asyncio.run(add_declared_connectors(Bag(dag), {TaskName(dag.dag_id, task_id): profile}))
    return profile.connectors[-1]


def test_source_sink_and_zone_are_in_the_serialized_dag() -> None:
    with DAG("d", start_date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC), schedule=None) as dag:
        ConnectOperator(task_id="t", source=SOURCE, sink=SINK)
        ConnectOperator.partial(task_id="mapped", source=SOURCE, sink=SINK).expand(days=["2026-01-01"])
    assert declared(dag, "t") == ConnectorPair(SOURCE, SINK)
    assert declared(dag, "mapped") == ConnectorPair(), "Airflow keeps only a text of them"
    assert declared(dag, "gone") == ConnectorPair()
