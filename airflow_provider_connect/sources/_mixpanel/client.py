"""Client of the Query and App APIs. Returns complete answers."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airflow_provider_connect.clients.http.asking.call import Call, Reply
from airflow_provider_connect.errors import ConnectError, SetupError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._mixpanel.access import MixpanelAccess
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.refusals import refusal_error
from airflow_provider_connect.window import Day


def current_time() -> dt.datetime:
    """Return the current time. Tests replace this clock."""
    return dt.datetime.now(dt.UTC)


class MixpanelClient:
    """Sends the requests of one poll. Thread-safe."""

    def __init__(self, options: MixpanelOptions, access: MixpanelAccess, day: Day, tally: Tally) -> None:
        from airflow_provider_connect.clients.http.json_api import JsonApi  # noqa: PLC0415  # DAG files import this

        self.options = options
        self.day = day
        self.tally = tally
        self._access = access
        self._api = JsonApi(access, timeouts=options.timeouts, follows_redirects=False)
        self.clock = self._api.clock
        self.close = self._api.close

    def fetch(
        self,
        call: Call,
        *,
        counts_to_limit: bool = True,
        refusal_error: Callable[[Reply], ConnectError | None] = lambda _: None,
    ) -> bytes:
        """Send a call and return the answer's body.

        :param call: ``{project_id}`` in its path is replaced.
        :param counts_to_limit: the call uses up a query.
        :param refusal_error: returns the error for a refusal, or None.
        :raises ConnectError: Mixpanel refuses, fails, is busy or unreachable, or its answer is incomplete.
        """
        project_id = self._access.project_id
        params, path = dict(call.params), call.url.replace("{project_id}", project_id or "")
        if path == call.url and project_id is not None:
            params["project_id"] = project_id
        reply = self._api.ask(
            replace(call, url=path, params=params, is_repeatable=False),
            on_sent=self.tally.request if counts_to_limit else None,
            on_received=self.tally.received,
            error_of=lambda reply: refusal_error(reply) or self._refusal(reply, call.about),
        )
        return reply.body

    def parse_json(self, data: bytes) -> Any:
        """Parse a JSON document."""
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):  # its text would be part of the message
            raise self.incomplete_answer_error(len(data)) from None
        if isinstance(document, dict) and document.get("error"):
            raise refusal_error(200, data.decode("utf-8", "replace"), self._access, now=current_time())
        return document

    def incomplete_answer_error(self, size_bytes: int) -> SetupError:
        """Return the error for a truncated or misshapen answer."""
        return SetupError(
            f"Mixpanel ({self._access.server_text}) sent an incomplete answer ({size_bytes} bytes). A proxy or a login "
            "page may have answered instead"
        )

    def _refusal(self, reply: Reply, subject: str) -> ConnectError | None:
        if reply.status == 200:
            return None if reply.body else self.incomplete_answer_error(0)
        retry_after, is_cut = reply.header("Retry-After"), reply.is_cut
        return refusal_error(
            reply.status,
            reply.text,
            self._access,
            now=current_time(),
            retry_after=retry_after,
            is_cut=is_cut,
            subject=subject,
        )
