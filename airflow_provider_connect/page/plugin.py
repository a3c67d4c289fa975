"""Airflow plugin of the page.

Every Airflow process imports this file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_connect.page.airflow_links import base_path
from airflow_provider_connect.timetables import DailyTimetable, EveryTimetable

PREFIX = "/connect"
_ICON = f"{PREFIX}/icon.svg"

Message = MutableMapping[str, Any]


class PageApp:
    """ASGI app under :data:`PREFIX`, built by the first request."""

    _app: Any = None

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Answer one request."""
        if self._app is None:
            from airflow_provider_connect.page.app import make_app  # noqa: PLC0415  # only the API server needs it

            self._app = make_app()
        # Airflow's own app, which is hidden from an app mounted in it.
        scope["airflow"] = scope.get("app")
        await self._app(scope, receive, send)


def _view(route: str, destination: str, query: str) -> dict[str, Any]:
    return {
        "name": "Connect",
        "href": f"{base_path()}{PREFIX}/{query}",
        "icon": f"{base_path()}{_ICON}",
        "url_route": route,
        "destination": destination,
    }


class ConnectPlugin(AirflowPlugin):
    """The page in Airflow's navigation and as a tab of each DAG, task and task instance, and the timetables."""

    name = "connect"
    timetables = [DailyTimetable, EveryTimetable]
    fastapi_apps = [{"app": PageApp(), "url_prefix": PREFIX, "name": "Connect"}]
    external_views = [
        _view("connect", "nav", ""),
        _view("connect-dag", "dag", "?dag_id={DAG_ID}"),
        _view("connect-task", "task", "?dag_id={DAG_ID}&task_id={TASK_ID}"),
        _view("connect-run", "task_instance", "?dag_id={DAG_ID}&task_id={TASK_ID}&map_index={MAP_INDEX}"),
    ]
