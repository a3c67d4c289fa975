"""Checks a task's Spark: its master, and a Java for a local one."""

from __future__ import annotations

import tempfile
from pathlib import Path

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_connect.cli.run import database_connections
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.submit.launch import java_home
from airflow_provider_connect.submit.master import require_master


def describe_spark(operator: ConnectOperator) -> str:
    """Describe the operator's Spark, without starting it.

    :raises ConfigError: a wrong master, an unknown host, or no Java for a local master.
    :raises RetriableError: no master accepts connections.
    """
    conn_id = operator._conn_id
    with database_connections():
        hook = SparkSubmitHook(conn_id=conn_id, deploy_mode=operator._deploy_mode, keytab="not-used")
    master = str(hook._connection["master"])
    require_master(conn_id, master)
    if not master.startswith("local"):
        return f"{master} is a master of Spark" if master.startswith("spark://") else f"{master}, which was not asked"
    with tempfile.TemporaryDirectory() as folder:
        return f"{master} with Java in {java_home(Path(folder))}"
