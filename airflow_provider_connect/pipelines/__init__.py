"""DAGs from files: each YAML file declares a pipeline, which becomes a DAG with one task."""

from airflow_provider_connect.pipelines.dags import dags_from
from airflow_provider_connect.pipelines.schema import schema

__all__ = ["dags_from", "schema"]
