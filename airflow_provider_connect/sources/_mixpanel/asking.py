"""Asks the Query API: one request, one whole answer, and refusals that say what to do."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airflow_provider_connect.clients.http.asking.call import Call, Reply
from airflow_provider_connect.errors import ConnectError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._mixpanel.access import Access
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.refusals import refusal
from airflow_provider_connect.window import Day


def now() -> dt.datetime:
    """Return the present instant; tests replace this clock."""
    return dt.datetime.now(dt.UTC)


class Asking:
    """One poll's way to the API; several threads may ask at once."""

    def __init__(self, options: MixpanelOptions, access: Access, day: Day, tally: Tally) -> None:
        from airflow_provider_connect.clients.http.json_api import JsonApi  # noqa: PLC0415  # DAG files import this

        self.options = options
        self.day = day
        self.tally = tally
        self._access = access
        self._api = JsonApi(access, times=options.times, follows_redirects=False)
        self.clock = self._api.clock
        self.close = self._api.close

    def whole(
        self,
        call: Call,
        *,
        is_counted: bool = True,
        refusal: Callable[[Reply], ConnectError | None] = lambda _: None,
    ) -> bytes:
        """Return the bytes of the document that answers a call.

        :param call: ``{project_id}`` in its path is the connection's, which goes into the query of other paths.
        :param is_counted: whether it counts to the project's limit of queries.
        :param refusal: returns the error that a refusal is; None for what it means to every call.
        :raises RetriableError: the API is away, in trouble or busy, or what it sent is not a whole document.
        :raises ConfigError: it refuses the request, the credentials or the plan.
        """
        project_id = self._access.project_id
        params, path = dict(call.params), call.url.replace("{project_id}", project_id or "")
        if path == call.url and project_id is not None:
            params["project_id"] = project_id
        reply = self._api.ask(
            replace(call, url=path, params=params, is_repeatable=False),
            sent=self.tally.request if is_counted else None,
            received=self.tally.received,
            refusal=lambda reply: refusal(reply) or self._refusal(reply, call.about),
        )
        return reply.body

    def parsed(self, data: bytes) -> Any:
        """Read a document.

        :raises RetriableError: it is not JSON, or tells of trouble; :class:`ConfigError` if that is a person's.
        """
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):  # its text would be part of the message
            raise self.no_document(len(data)) from None
        if isinstance(document, dict) and document.get("error"):
            raise refusal(200, data.decode("utf-8", "replace"), self._access, now=now())
        return document

    def no_document(self, size_bytes: int) -> RetriableError:
        """Return the error for an answer that is not a JSON document of the shape asked for."""
        return RetriableError(
            f"Mixpanel ({self._access.asked}) sent no whole answer ({size_bytes} bytes): a proxy or a login page may "
            "answer in its place"
        )

    def _refusal(self, reply: Reply, about: str) -> ConnectError | None:
        if reply.status == 200:
            return None if reply.body else self.no_document(0)
        after, cut = reply.header("Retry-After"), reply.is_cut
        return refusal(reply.status, reply.text, self._access, now=now(), retry_after=after, is_cut=cut, about=about)
