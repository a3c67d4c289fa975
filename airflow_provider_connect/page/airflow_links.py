"""Paths of pages in Airflow's UI, also behind a proxy."""

from __future__ import annotations

from functools import cache
from urllib.parse import quote, urlsplit

from airflow.configuration import conf


@cache
def base_path() -> str:
    """Return Airflow's path prefix behind a proxy, without a trailing slash."""
    # Airflow's settings do not change, and reading one takes longer than the rest of a day's answer.
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


def dag_url(dag_id: str) -> str:
    """Return the path to a DAG."""
    return f"{base_path()}/dags/{quote(dag_id, safe='')}"


def run_url(dag_id: str, run_id: str) -> str:
    """Return the path to a DAG run."""
    return f"{dag_url(dag_id)}/runs/{quote(run_id, safe='')}"


def task_page_url(dag_id: str, task_id: str) -> str:
    """Return the path to a task with all its instances."""
    return f"{dag_url(dag_id)}/tasks/{quote(task_id, safe='')}"


def task_url(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    """Return the path to a task instance and its log."""
    mapped = f"/mapped/{map_index}" if map_index >= 0 else ""
    return f"{run_url(dag_id, run_id)}/tasks/{quote(task_id, safe='')}{mapped}"
