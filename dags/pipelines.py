"""### DAGs from files

Each file in the folder `pipelines` next to this file is a DAG. See `docs/pipelines.md`.
"""

from airflow_provider_connect.pipelines import dags_from

dags_from("pipelines/*.yaml")
