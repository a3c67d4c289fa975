"""The page's viewer: token, and rights according to Airflow."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from airflow_provider_connect.page.airflow_api import AirflowApi
from airflow_provider_connect.page.viewer_cache import PageCache, ViewerCache

COOKIE = "_token"

FindEditable = Callable[[str, set[str]], Awaitable[set[str]]]
"""Takes a token and DAG ids, and returns the ids that the token's owner may clear."""


@dataclass(frozen=True)
class Viewer:
    """Viewer of one request."""

    airflow: AirflowApi
    page_cache: PageCache
    cache: ViewerCache
    token: str
    find_editable: FindEditable
    requested_at: dt.datetime

    async def editable_dags(self, dag_ids: set[str]) -> set[str]:
        """Return the DAGs that the viewer may clear, to enable buttons. Airflow checks each action itself."""
        return await self.find_editable(self.token, dag_ids)


def read_token(headers: Mapping[str, str], cookies: Mapping[str, str]) -> str | None:
    """Return the viewer's token from the header, else from the cookie, as Airflow's API does."""
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and credentials.strip():
        return credentials.strip()
    return cookies.get(COOKIE) or None


async def find_editable_by_airflow(token: str, dag_ids: set[str]) -> set[str]:
    """Query Airflow's auth manager for the DAGs that the token's owner may clear."""
    from airflow.api_fastapi.app import get_auth_manager  # noqa: PLC0415  # only the API server has one

    manager = get_auth_manager()
    user = await manager.get_user_from_token(token)
    return await asyncio.to_thread(manager.filter_authorized_dag_ids, dag_ids=dag_ids, user=user, method="PUT")
