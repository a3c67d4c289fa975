"""A request to an API, and its whole answer."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from airflow_provider_connect.clients.http.client import ERROR_TEXT_BYTES, Body
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.secrets import Secrets
from airflow_provider_connect.values.json.paths import MISSING, path_steps, value_at
from airflow_provider_connect.values.json.slices import JsonSlicer

_MOST_JSON_BYTES = 1 << 20

Verdict = Literal["rows", "empty", "ignored"]
"""What an answer is: rows to read; known to be none; or nothing to be had, by a declared rule or by ``allowed``."""


@dataclass(frozen=True)
class Call:
    """One request.

    :param url: a path under the connection's base URL; or an address, such as a next link, which has to lie on the
        connection's own host or on one that it names.
    :param method: by default GET, or POST if there is a body.
    :param params: added to the query, in this order; in pairs, a name may come more than once.
    :param headers: beside those of the credentials, which win.
    :param body: of a POST, PUT or PATCH: see ``json_body`` and ``form_body``.
    :param allowed: statuses beside 2xx that are an answer, too: one that is ``ignored``.
    :param is_repeatable: whether it may be asked again alone after a failure that may pass; else such a failure is
        raised, and the poll begins again. By default a GET or HEAD may.
    :param about: what it asks for, for messages: no secret and no record's value.
    """

    url: str
    method: str | None = None
    params: Mapping[str, str] | Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Body | None = field(default=None, repr=False)
    allowed: Collection[int] = ()
    is_repeatable: bool | None = None
    about: str = ""

    @property
    def verb(self) -> str:
        """The method."""
        return self.method or ("GET" if self.body is None else "POST")

    @property
    def may_repeat(self) -> bool:
        """Whether it may be sent twice."""
        return self.verb in ("GET", "HEAD") if self.is_repeatable is None else self.is_repeatable


@dataclass(frozen=True)
class Reply:
    """One whole answer, and who gave it to whom.

    :param headers: their names in small letters.
    :param body: inflated. Of a status 2xx it is whole, else its beginning; b"" if the verdict is not ``rows``.
    :param url: where it came from at last: what a relative link in it is relative to.
    :param is_cut: whether the body is not all of it: then it may end inside a secret.
    :param secrets: the texts that no message may quote.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    url: str = ""
    is_cut: bool = False
    secrets: Secrets = field(default_factory=lambda: Secrets([]), repr=False)
    verdict: Verdict = "rows"

    @property
    def host(self) -> str:
        """Who answered, as messages name it."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @property
    def is_success(self) -> bool:
        """Whether the status says that all is well."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as text; what is not UTF-8 is U+FFFD."""
        return self.body.decode("utf-8", "replace")

    @property
    def document(self) -> Any:
        """The JSON document in the body.

        :raises RetriableError: it is none.
        """
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):  # its text would be part of the message
            raise RetriableError(
                f"{self.host} sent no whole JSON document ({len(self.body)} bytes); a proxy or a login page may answer"
            ) from None

    def header(self, name: str) -> str:
        """Return a header's value; '' if there is none."""
        return self.headers.get(name.lower(), "")

    def at(self, path: str) -> Any:
        """Return what stands at a place in the JSON body; ``MISSING`` if nothing does, or it is no JSON.

        Of a page of rows no more is decoded than what stands there.
        """
        try:
            if len(self.body) <= ERROR_TEXT_BYTES:
                return value_at(json.loads(self.body), path)
            value = JsonSlicer().value_at(self.body.strip(), path_steps(path))
            return value if value is MISSING else _decoded(bytes(value))
        except (ValueError, RecursionError):
            return MISSING


def _decoded(value: bytes) -> Any:
    return json.loads(value) if len(value) <= _MOST_JSON_BYTES else value[:1]
