"""The Mixpanel connection: where a project is and who may read it. Its form's Test button asks for one event."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from airflow.sdk import BaseHook

from airflow_provider_connect.clients.http.client import Answer, request
from airflow_provider_connect.clients.http.link import Limits
from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.sources._mixpanel.access import Access, refusal

_LIMITS = Limits(connect_timeout_seconds=10, read_timeout_seconds=30, deadline_seconds=60)


class MixpanelHook(BaseHook):
    """Reads a connection of type ``mixpanel``. Its fields are explained in ``sources/mixpanel.py``.

    :param mixpanel_conn_id: the connection.
    """

    conn_name_attr = "mixpanel_conn_id"
    default_conn_name = "mixpanel_default"
    conn_type = "mixpanel"
    hook_name = "Mixpanel"

    def __init__(self, mixpanel_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.mixpanel_conn_id = mixpanel_conn_id

    def get_conn(self) -> Access:
        """Return which address to ask, and with which credentials.

        :raises ConfigError: if the connection is missing, or with everything that is wrong with it.
        """
        return Access.from_connection(credentials.resolve(self.mixpanel_conn_id))

    def test_connection(self) -> tuple[bool, str]:
        """Ask for at most one event of yesterday. This is one of the 60 queries that a project has in an hour."""
        try:
            access = self.get_conn()
            with _one_event(access) as answer:
                _check(answer, access)
        except ConnectError as error:
            return False, str(error)
        return True, f"Mixpanel ({access.asked}) lets this account export"


def _one_event(access: Access) -> Answer:
    # Yesterday in UTC lies ahead in no zone, and Mixpanel refuses days ahead.
    yesterday = (dt.datetime.now(dt.UTC).date() - dt.timedelta(days=1)).isoformat()
    params = {"from_date": yesterday, "to_date": yesterday, "limit": "1"}
    if access.project_id is not None:
        params["project_id"] = access.project_id
    url = access.url + "/api/2.0/export"
    return request(url, params, access.auth, _LIMITS, proxy=access.proxy, ca_bundle=access.ca_bundle)


def _check(answer: Answer, access: Access) -> None:
    """Require that an answer is an export.

    :raises ConnectError: if it is not, with what it is instead.
    """
    said, retry_after = answer.text(), answer.header("Retry-After")
    if answer.status != 200 or not _is_export(said.text):
        now = dt.datetime.now(dt.UTC)
        raise refusal(answer.status, said.text, access, now=now, retry_after=retry_after, is_cut=said.is_cut)


def _is_export(body: str) -> bool:
    """Tell whether a body begins like an export: with nothing, or with a record, which may be cut."""
    line, is_whole, _ = body.partition("\n")
    if not is_whole:
        return not line.strip() or line.startswith('{"event"')
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and "event" in record
