"""### DAGs from files

Each file in the folder `pipelines`, beside this one, is a DAG: see `docs/pipelines.md`.
"""

from airflow_provider_connect.pipelines import dags_from

dags_from("pipelines/*.yaml")
