"""Client of Airflow's REST API that sends the viewer's token."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any
from urllib.parse import quote

import httpx

API = "/api/v2"
PAGE_ROWS = 100  # Airflow's default limit of a page
_PARALLEL_CALLS = 6
_TIMEOUT_SECONDS = 20.0

Params = Mapping[str, Any]


class RefusedError(Exception):
    """A request that cannot be answered.

    :param status: HTTP status for the viewer.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class AirflowApi:
    """Airflow's API with the rights of one viewer.

    :param app: Airflow's own ASGI app.
    """

    def __init__(self, app: Any, token: str) -> None:
        headers = {"authorization": f"Bearer {token}", "accept-encoding": "identity"}
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://airflow", headers=headers)
        self._semaphore = asyncio.Semaphore(_PARALLEL_CALLS)

    async def get(self, path: str, params: Params | None = None) -> Any:
        """Return the JSON answer to a GET request.

        :param path: quoted, under ``/api/v2``.
        :raises RefusedError: Airflow refused or did not answer.
        """
        return await self._send("GET", path, params=params)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Do :meth:`get` with a POST request."""
        return await self._send("POST", path, json=body)

    async def get_if_allowed(self, path: str, params: Params | None = None) -> Any:
        """Do :meth:`get`. Returns None without the object or the right."""
        return await _unless_refused(self.get(path, params))

    async def list_rows(self, path: str, key: str, params: Params | None = None, *, max_rows: int = 5000) -> list[Any]:
        """Return the rows of a paged listing, up to ``max_rows``. Raises like :meth:`get`.

        :param key: of the rows in each answer.
        """
        page_params = {"limit": min(PAGE_ROWS, max_rows), **(params or {})}
        first = await self.get(path, page_params)
        rows = list(first[key])
        total = min(int(first["total_entries"] or 0), max_rows)
        if not rows or len(rows) >= total:
            return rows[:max_rows]
        size = len(rows)
        pages = await asyncio.gather(
            *(self.get(path, page_params | {"limit": size, "offset": offset}) for offset in range(size, total, size))
        )
        return [*rows, *(row for page in pages for row in page[key])][:max_rows]

    async def list_rows_if_allowed(
        self, path: str, key: str, params: Params | None = None, *, max_rows: int = 5000
    ) -> Any:
        """Do :meth:`list_rows`. Returns None without the listing or the right."""
        return await _unless_refused(self.list_rows(path, key, params, max_rows=max_rows))

    async def close(self) -> None:
        """Close the HTTP client."""
        await self._client.aclose()

    async def _send(self, method: str, path: str, **options: Any) -> Any:
        async with self._semaphore:
            try:
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    answer = await self._client.request(method, f"{API}/{path}", **options)
            except TimeoutError:
                raise RefusedError(502, f"Airflow's API did not answer within {_TIMEOUT_SECONDS:g} s") from None
        if answer.is_success:
            return answer.json() if answer.content else None
        reason = _refusal_text(answer)
        if answer.status_code == 401 or (answer.status_code == 403 and reason == "Invalid JWT token"):
            raise RefusedError(401, "Sign in to Airflow")
        if answer.status_code in (400, 403, 404, 409, 422):
            raise RefusedError(answer.status_code, reason)
        raise RefusedError(502, f"Airflow's API answered with {answer.status_code}: {reason}")


async def _unless_refused(answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except RefusedError as error:
        if error.status in (403, 404):
            return None
        raise


def quote_path(*parts: str) -> str:
    """Join the parts, which may contain any character, of a URL path."""
    # A part of dots would point to a parent path.
    return "/".join(quote(part, safe="").replace(".", "%2E") for part in parts)


def _refusal_text(answer: httpx.Response) -> str:
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return answer.reason_phrase
    if isinstance(detail, Mapping):
        detail = detail.get("reason") or detail.get("message") or "refused"
    return str(detail)[:500]
