"""Asks the Query API: one request, one whole answer, and refusals that say what to do."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airflow_provider_connect.clients.http.client import Answer, form_body, request
from airflow_provider_connect.clients.http.link import Limits
from airflow_provider_connect.clients.http.open_answers import OpenAnswers
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._mixpanel.access import Access, refusal
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.window import Day

_MAX_BYTES = 256 << 20
"""The most that one answer may hold: it is in memory whole."""


def now() -> dt.datetime:
    """Return the present instant; tests replace this clock."""
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True)
class Request:
    """One question to the API.

    :param path: after the host; ``{project_id}`` in it is the connection's. It goes into the query of other paths.
    :param form: of a POST; None makes a GET.
    :param about: what it asks for, and which option names that, for the message of a refusal.
    """

    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] | None = None
    about: str = ""


class Reply(NamedTuple):
    """What came back, whatever its status. A refusal's ``data`` is its beginning only.

    :param is_cut: whether ``data`` lacks its end.
    """

    status: int
    data: bytes
    retry_after: str = ""
    is_cut: bool = False


class Asking:
    """One poll's way to the API; several threads may ask at once."""

    def __init__(self, options: MixpanelOptions, access: Access, day: Day, tally: Tally) -> None:
        self.options = options
        self.day = day
        self.tally = tally
        self._access = access
        self._lock = threading.Lock()
        self._answers = OpenAnswers()

    def document(self, asked: Request) -> Any:
        """Return the JSON document that answers a request.

        :raises RetriableError: the API is away, in trouble or busy, or what it sent is not a whole document.
        :raises ConfigError: it refuses the request, the credentials or the plan.
        """
        return self.parsed(self.whole(asked))

    def whole(self, asked: Request) -> bytes:
        """Return the bytes of the document that answers a request, with the errors of :meth:`document`."""
        reply = self.send(asked)
        if reply.status != 200:
            raise self.refused(reply, asked.about)
        return reply.data

    def send(self, asked: Request, *, is_counted: bool = True) -> Reply:
        """Send a request and read its answer to the end.

        :param is_counted: whether it counts to the project's limit of queries.
        :raises RetriableError: there is no answer, or not a whole one.
        """
        self._answers.require()
        with self._asked(asked, is_counted=is_counted) as answer, self._answers.reading(answer):
            if answer.status != 200:
                said = answer.text()
                return Reply(answer.status, said.text.encode(), answer.header("Retry-After"), said.is_cut)
            data = bytearray()
            try:
                for piece in self._decoded(answer):
                    data += piece
                    if len(data) > _MAX_BYTES:
                        raise ConfigError(
                            f"{answer.host} sent a document of more than {_MAX_BYTES:,} bytes: ask for less"
                        )
            finally:
                with self._lock:
                    self.tally.wire_bytes += answer.wire_bytes
        with self._lock:
            self.tally.raw_bytes += len(data)
        return Reply(200, bytes(data))

    def parsed(self, data: bytes) -> Any:
        """Read a document.

        :raises RetriableError: it is not JSON, or tells of trouble; :class:`ConfigError` if that is a person's.
        """
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):  # its text would be part of the message
            raise self.no_document(len(data)) from None
        if isinstance(document, dict) and document.get("error"):
            raise self.refused(Reply(200, data))
        return document

    def no_document(self, size_bytes: int) -> RetriableError:
        """Return the error for an answer that is not a JSON document of the shape asked for."""
        return RetriableError(
            f"Mixpanel ({self._access.asked}) sent no whole answer ({size_bytes} bytes): a proxy or a login page may "
            "answer in its place"
        )

    def refused(self, reply: Reply, about: str = "") -> ConnectError:
        """Return the error for a refusal."""
        return refusal(
            reply.status,
            reply.data.decode("utf-8", "replace"),
            self._access,
            now=now(),
            retry_after=reply.retry_after,
            is_cut=reply.is_cut,
            about=about,
        )

    def sleep(self, seconds: float) -> None:
        """Pause before asking again; not longer than until :meth:`close`."""
        self._answers.sleep(seconds)

    def close(self) -> None:
        """End what other threads still read or wait for, with an error."""
        self._answers.end()

    def _asked(self, asked: Request, *, is_counted: bool) -> Answer:
        options, access = self.options, self._access
        params, path = dict(asked.params), asked.path
        if "{project_id}" in path:
            path = path.replace("{project_id}", access.project_id or "")
        elif access.project_id is not None:
            params["project_id"] = access.project_id
        return request(
            access.url + path,
            params,
            access.auth,
            Limits(
                read_timeout_seconds=options.read_timeout_seconds,
                deadline_seconds=options.request_deadline_seconds,
            ),
            body=None if asked.form is None else form_body(asked.form),
            headers={"Accept": "application/json"},
            proxy=access.proxy,
            ca_bundle=access.ca_bundle,
            sent=self.tally.request if is_counted else None,
        )

    @staticmethod
    def _decoded(answer: Answer) -> Iterator[bytes]:
        from airflow_provider_connect.polling.inflate import decoded  # noqa: PLC0415  # too heavy for a DAG file

        if answer.header("Content-Type").partition(";")[0].strip().lower() == "text/html":
            raise RetriableError(
                f"{answer.host} sent a web page with status 200 in place of an answer; it may come from a proxy or a "
                "login"
            )
        return decoded(answer)
