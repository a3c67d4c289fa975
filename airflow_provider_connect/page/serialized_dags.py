"""Source and sink that a DAG declares, from Airflow's serialized DAG."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.page.facts.connectors import connectors_of
from airflow_provider_connect.page.viewer_cache import TaskName, TaskProfile

_UNMAPPED = -1


async def add_declared_connectors(dag_bag: Any, profiles: Mapping[TaskName, TaskProfile]) -> None:
    """Fill in the connectors of tasks without a run."""
    names = [name for name, profile in profiles.items() if not profile.connectors]
    if dag_bag is None or not names:
        return
    fields = await asyncio.to_thread(_load_fields, dag_bag, names)
    for name in names:
        profiles[name].connectors[_UNMAPPED] = connectors_of(fields.get(name, {}))


def _load_fields(dag_bag: Any, names: list[TaskName]) -> dict[TaskName, Mapping[str, Any]]:
    from airflow.utils.session import create_session  # noqa: PLC0415  # only the API server has a database

    fields: dict[TaskName, Mapping[str, Any]] = {}
    with create_session() as session:
        dags = {name.dag_id: dag_bag.get_latest_version_of_dag(name.dag_id, session=session) for name in names}
    for name in names:
        task = None if dags[name.dag_id] is None else dags[name.dag_id].task_dict.get(name.task_id)
        if task is not None:
            fields[name] = {field: getattr(task, field, None) for field in ("source", "sink")}
    return fields
