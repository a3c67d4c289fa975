"""The page's viewer, identified by a token."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_connect.page.airflow_api import AirflowApi
from airflow_provider_connect.page.viewer_cache import PageCache, ViewerCache

COOKIE = "_token"

FindEditable = Callable[[str, set[str]], Awaitable[set[str]]]
"""Takes a token and DAG ids. Returns the ids of DAGs that the token's owner may clear."""


@dataclass(frozen=True)
class Viewer:
    """The person who sent a request, with API client and cache.

    :param dag_bag: Airflow's serialized DAGs, if the server has them.
    """

    airflow: AirflowApi
    page_cache: PageCache
    cache: ViewerCache
    token: str
    find_editable: FindEditable
    requested_at: dt.datetime
    dag_bag: Any = None

    async def editable_dags(self, dag_ids: set[str]) -> set[str]:
        """Return the DAGs that the viewer may clear."""
        return await self.find_editable(self.token, dag_ids)


def read_token(headers: Mapping[str, str], cookies: Mapping[str, str]) -> str | None:
    """Return the token from the Authorization header, else from Airflow's cookie."""
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and credentials.strip():
        return credentials.strip()
    return cookies.get(COOKIE) or None


async def find_editable_by_airflow(token: str, dag_ids: set[str]) -> set[str]:
    """Return the DAGs that the token's owner may clear, by Airflow's auth manager."""
    from airflow.api_fastapi.app import get_auth_manager  # noqa: PLC0415  # only the API server has one

    manager = get_auth_manager()
    user = await manager.get_user_from_token(token)
    return await asyncio.to_thread(manager.filter_authorized_dag_ids, dag_ids=dag_ids, user=user, method="PUT")
