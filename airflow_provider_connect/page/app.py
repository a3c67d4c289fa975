"""The page's app: static files, and JSON answers to viewers that Airflow authenticates."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles

from airflow_provider_connect.page import actions, stream_detail, stream_list
from airflow_provider_connect.page.actions import ClearRequest, require_own_page
from airflow_provider_connect.page.airflow_api import AirflowApi, RefusedError
from airflow_provider_connect.page.backfill_cost import preview_backfill
from airflow_provider_connect.page.backfill_target import BackfillRequest
from airflow_provider_connect.page.facts.stream import StreamName
from airflow_provider_connect.page.viewer import FindEditable, Viewer, find_editable_by_airflow, read_token
from airflow_provider_connect.page.viewer_cache import PageCache

STATIC = Path(__file__).parent / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def _stream_name(
    dag_id: str, task_id: str, map_index: Annotated[int, Query(ge=-1)] = -1, stream: str = ""
) -> StreamName:
    return StreamName(dag_id, task_id, map_index, stream)


def _require_own_page(request: Request) -> None:
    require_own_page(request.headers)


Named = Annotated[StreamName, Depends(_stream_name)]


def make_app(find_editable: FindEditable = find_editable_by_airflow) -> FastAPI:
    """Build the app with an empty cache."""
    app = FastAPI(title="Connect", openapi_url=None, docs_url=None, redoc_url=None)
    app.state.page_cache, app.state.find_editable = PageCache(), find_editable
    app.add_exception_handler(RefusedError, _answer_refusal)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(Exception, _answer_fault)

    @app.middleware("http")
    async def guard(request: Request, call_next: Any) -> Response:
        answer: Response = await call_next(request)
        answer.headers.update(_HEADERS)
        # Answers belong to one viewer. Files are revalidated, so that a new version is used immediately.
        is_answer = "/api/" in request.url.path
        answer.headers["cache-control"] = "no-store" if is_answer else "no-cache"
        return answer

    @app.get("/api/streams")
    async def streams(request: Request) -> JSONResponse:
        async with _viewer(request) as viewer:
            return JSONResponse(await stream_list.list_streams(viewer))

    @app.get("/api/streams/{dag_id}/{task_id}")
    async def stream(
        request: Request,
        name: Named,
        first: Annotated[dt.date | None, Query(alias="from")] = None,
        last: Annotated[dt.date | None, Query(alias="to")] = None,
    ) -> JSONResponse:
        async with _viewer(request) as viewer:
            return JSONResponse(await stream_detail.show_stream(viewer, name, first, last))

    @app.get("/api/streams/{dag_id}/{task_id}/days/{day}")
    async def one_day(request: Request, name: Named, day: dt.date) -> JSONResponse:
        async with _viewer(request) as viewer:
            return JSONResponse(await stream_detail.show_day(viewer, name, day))

    @app.get("/api/backfill")
    async def preview(request: Request, order: Annotated[BackfillRequest, Query()]) -> JSONResponse:
        async with _viewer(request) as viewer:
            return JSONResponse(await preview_backfill(viewer, order))

    @app.post("/api/actions/clear", dependencies=[Depends(_require_own_page)])
    async def clear(request: Request, order: ClearRequest) -> JSONResponse:
        async with _viewer(request) as viewer:
            return JSONResponse(await actions.clear_day(viewer, order))

    @app.post("/api/actions/backfill", dependencies=[Depends(_require_own_page)])
    async def backfill(request: Request, order: BackfillRequest) -> JSONResponse:
        async with _viewer(request) as viewer:
            return JSONResponse(await actions.start_backfill(viewer, order))

    app.mount("/", StaticFiles(directory=STATIC, html=True))
    return app


@asynccontextmanager
async def _viewer(request: Request) -> AsyncIterator[Viewer]:
    token = read_token(request.headers, request.cookies)
    if token is None:
        raise RefusedError(401, "Sign in to Airflow")
    state = request.app.state
    airflow = AirflowApi(request.scope["airflow"], token)
    try:
        yield Viewer(
            airflow,
            state.page_cache,
            state.page_cache.cache_of(token),
            token,
            state.find_editable,
            dt.datetime.now(dt.UTC),
            getattr(request.scope["airflow"].state, "dag_bag", None),
        )
    finally:
        await airflow.close()


async def _answer_refusal(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RefusedError)
    if error.status == 401 and (token := read_token(request.headers, request.cookies)) is not None:
        request.app.state.page_cache.forget(token)
    return JSONResponse({"error": error.message}, status_code=error.status)


async def _answer_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = "; ".join(f"{'.'.join(map(str, problem['loc'][1:]))}: {problem['msg']}" for problem in error.errors())
    return JSONResponse({"error": problems}, status_code=422)


async def _answer_fault(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": "The page failed. See the API server's log"}, status_code=500)
