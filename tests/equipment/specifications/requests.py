"""Records the requests that the package sends over HTTP, as they go onto the wire."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

import pytest

from airflow_provider_connect.clients.http.http_connection import HttpConnection

FORM = "application/x-www-form-urlencoded"


class SentRequest(NamedTuple):
    """One request.

    :param headers: with their names in small letters.
    """

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> list[tuple[str, str]]:
        """The fields of the body; [] if it is no form."""
        is_form = self.headers.get("content-type", "").partition(";")[0] == FORM
        return parse_qsl(self.body.decode(), keep_blank_values=True, strict_parsing=bool(self.body)) if is_form else []


@contextmanager
def recorded_requests() -> Iterator[list[SentRequest]]:
    """Yield the list of all requests that are sent within the block."""
    sent: list[SentRequest] = []
    send = HttpConnection.send

    def record(link: HttpConnection, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        parts = urlsplit(target)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        names = {name.lower(): value for name, value in headers.items()}
        sent.append(SentRequest(method, parts.path, query, names, body))
        send(link, method, target, headers, body)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HttpConnection, "send", record)
        yield sent
