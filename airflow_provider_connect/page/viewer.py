"""Who looks at the page: the viewer's token, and what Airflow says that they may do."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from airflow_provider_connect.page.airflow_api import AirflowApi
from airflow_provider_connect.page.viewer_cache import PageCache, ViewerCache

COOKIE = "_token"

FindEditable = Callable[[str, set[str]], Awaitable[set[str]]]
"""Takes a token and ids of DAGs, and returns those that its owner may clear."""


@dataclass(frozen=True)
class Viewer:
    """One viewer, for one request."""

    airflow: AirflowApi
    page_cache: PageCache
    cache: ViewerCache
    token: str
    find_editable: FindEditable
    requested_at: dt.datetime

    async def editable_dags(self, dag_ids: set[str]) -> set[str]:
        """Return the DAGs that the viewer may clear, by which the page shows its buttons. Airflow judges their use."""
        return await self.find_editable(self.token, dag_ids)


def read_token(headers: Mapping[str, str], cookies: Mapping[str, str]) -> str | None:
    """Return the viewer's token, as Airflow's own API takes it: from the header, else from the cookie."""
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and credentials.strip():
        return credentials.strip()
    return cookies.get(COOKIE) or None


async def find_editable_by_airflow(token: str, dag_ids: set[str]) -> set[str]:
    """Ask Airflow's auth manager which DAGs the owner of a token may clear."""
    from airflow.api_fastapi.app import get_auth_manager  # noqa: PLC0415  # only the API server has one

    manager = get_auth_manager()
    user = await manager.get_user_from_token(token)
    return await asyncio.to_thread(manager.filter_authorized_dag_ids, dag_ids=dag_ids, user=user, method="PUT")
