"""As much of Airflow's REST API as the page asks, over what a test puts into it, with rights by token."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from starlette.requests import HTTPConnection

MOST_ROWS = 100


@dataclass
class Rights:
    """What the owner of a token may see."""

    dags: set[str]
    variables: bool = True
    edits: bool = True


@dataclass
class RestApi:
    """Airflow's API, and what it has been asked.

    :param rights: by token.
    :param fails_with: a status for every answer from now on.
    :param start_dates: by DAG.
    :param dry_runs: logical dates of the runs that a backfill would make. By default one at its first date.
    """

    rights: dict[str, Rights]
    dags: list[str] = field(default_factory=list)
    tasks: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    posted: list[tuple[str, Any]] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    fails_with: int | None = None
    start_dates: dict[str, str] = field(default_factory=dict)
    connections: dict[str, dict[str, Any]] = field(default_factory=dict)
    backfills: list[dict[str, Any]] = field(default_factory=list)
    dry_runs: list[str] | None = None
    paused: set[str] = field(default_factory=set)
    next_interval: tuple[str, str] | None = None
    declared: dict[str, Any] = field(default_factory=dict)
    declarations_read: int = 0

    def declare(self, dag_id: str, tasks: dict[str, Any]) -> None:
        """Let Airflow have a serialized DAG with these tasks."""
        self.declared[dag_id] = SimpleNamespace(task_dict=tasks)

    def get_latest_version_of_dag(self, dag_id: str, session: object) -> Any:
        """Return a serialized DAG, as Airflow's bag of DAGs does."""
        self.declarations_read += 1
        return self.declared.get(dag_id)

    async def editable(self, token: str, dag_ids: set[str]) -> set[str]:
        return dag_ids if self.rights[token].edits else set()

    def app(self) -> FastAPI:
        app = FastAPI()
        app.state.dag_bag = self

        def who(request: HTTPConnection) -> Rights:
            self.asked[request.url.path.removeprefix("/api/v2/")] += 1
            if self.fails_with is not None:
                raise HTTPException(self.fails_with, "broken")
            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            if token not in self.rights:
                raise HTTPException(403, "Invalid JWT token")
            return self.rights[token]

        def visible(request: HTTPConnection, dag_id: str) -> None:
            if dag_id != "~" and dag_id not in who(request).dags:
                raise HTTPException(403, "Forbidden")

        def page(request: Request, name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
            limit, offset = (
                int(request.query_params.get(key, default)) for key, default in (("limit", 50), ("offset", 0))
            )
            return {name: rows[offset : offset + min(limit, MOST_ROWS)], "total_entries": len(rows)}

        @app.get("/api/v2/dags")
        def dags(request: Request) -> Any:
            rights = who(request)
            if not rights.dags:
                raise HTTPException(403, "Forbidden")
            return page(request, "dags", [self.dag(dag_id) for dag_id in self.dags if dag_id in rights.dags])

        @app.get("/api/v2/dags/{dag_id}")
        def dag(request: Request, dag_id: str) -> Any:
            visible(request, dag_id)
            return self.dag(dag_id)

        @app.get("/api/v2/dags/{dag_id}/details")
        def details(request: Request, dag_id: str) -> Any:
            visible(request, dag_id)
            return self.dag(dag_id) | {"start_date": self.start_dates.get(dag_id)}

        @app.get("/api/v2/connections/{conn_id}")
        def connection(request: Request, conn_id: str) -> Any:
            if not who(request).variables:
                raise HTTPException(403, "Forbidden")
            if conn_id not in self.connections:
                raise HTTPException(404, "Not found")
            return {"connection_id": conn_id} | self.connections[conn_id]

        @app.get("/api/v2/dags/{dag_id}/tasks")
        def tasks(request: Request, dag_id: str) -> Any:
            visible(request, dag_id)
            return {"tasks": self.tasks.get(dag_id, [])}

        @app.get("/api/v2/dags/{dag_id}/dagRuns/~/taskInstances")
        def instances(request: Request, dag_id: str) -> Any:
            visible(request, dag_id)
            rights, states = who(request), request.query_params.getlist("state")
            rows = [
                instance
                for instance in self.runs
                if instance["dag_id"] in rights.dags and dag_id in ("~", instance["dag_id"])
            ]
            return page(
                request, "task_instances", [instance for instance in rows if not states or instance["state"] in states]
            )

        @app.get("/api/v2/assets/events")
        def events(request: Request) -> Any:
            rights, query = who(request), request.query_params
            rows = [event for event in self.events if event["source_dag_id"] in rights.dags]
            if "source_dag_id" in query:
                rows = [event for event in rows if event["source_dag_id"] == query["source_dag_id"]]
            if "timestamp_gte" in query:
                since = dt.datetime.fromisoformat(query["timestamp_gte"])
                rows = [event for event in rows if dt.datetime.fromisoformat(event["timestamp"]) >= since]
            rows = sorted(rows, key=lambda event: event["timestamp"], reverse=query["order_by"].startswith("-"))
            return page(request, "asset_events", rows)

        @app.get("/api/v2/variables")
        def variables(request: Request) -> Any:
            if not who(request).variables:
                raise HTTPException(403, "Forbidden")
            rows = [{"key": key, "value": value} for key, value in sorted(self.variables.items())]
            return page(request, "variables", rows)

        @app.get("/api/v2/backfills")
        def backfills(request: Request) -> Any:
            who(request)
            return {"backfills": self.backfills, "total_entries": len(self.backfills)}

        @app.post("/api/v2/dags/{dag_id}/clearTaskInstances")
        async def clear(request: Request, dag_id: str) -> Any:
            visible(request, dag_id)
            return await self._post(request, f"clear {dag_id}")

        @app.post("/api/v2/backfills/dry_run")
        async def dry_run(request: Request) -> Any:
            if not who(request).edits:
                raise HTTPException(403, "Forbidden")
            dates = [(await request.json())["from_date"]] if self.dry_runs is None else self.dry_runs
            rows = [{"logical_date": date, "partition_key": None, "partition_date": None} for date in dates]
            return {"backfills": rows, "total_entries": len(rows)}

        @app.post("/api/v2/backfills")
        async def backfill(request: Request) -> Any:
            return await self._post(request, "backfill")

        return app

    async def _post(self, request: Request, action: str) -> Any:
        token = request.headers["authorization"].removeprefix("Bearer ")
        if not self.rights[token].edits:
            raise HTTPException(403, "Forbidden")
        self.posted.append((action, await request.json()))
        return {"task_instances": [], "total_entries": 1}

    def dag(self, dag_id: str) -> dict[str, Any]:
        start, end = self.next_interval or (None, None)
        return {
            "dag_id": dag_id,
            "is_paused": dag_id in self.paused,
            "max_active_runs": 4,
            "next_dagrun_run_after": end,
            "next_dagrun_data_interval_start": start,
            "next_dagrun_data_interval_end": end,
        }
