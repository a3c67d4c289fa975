"""A request to an API, and the whole answer."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from airflow_provider_connect.clients.http.client import ERROR_TEXT_BYTES, Body
from airflow_provider_connect.errors import SetupError
from airflow_provider_connect.secrets import Secrets
from airflow_provider_connect.values.json.paths import MISSING, path_steps, value_at
from airflow_provider_connect.values.json.slices import JsonSlicer

_MOST_JSON_BYTES = 1 << 20

Verdict = Literal["rows", "empty", "ignored"]
"""``rows``: the body has rows. ``empty``: no rows. ``ignored``: a rule or ``allowed`` said to skip the answer."""


@dataclass(frozen=True)
class Call:
    """One request.

    :param url: path below the connection's base URL, or a full URL such as a next link.
    :param method: defaults to GET, or POST with a body.
    :param params: added to the query in this order. As pairs, a name may repeat.
    :param headers: sent too. Those of the credentials take precedence.
    :param allowed: statuses besides 2xx that give the verdict ``ignored`` instead of an error.
    :param is_repeatable: True if the call may be repeated alone after a temporary failure. Otherwise the poll starts
        again. Defaults to True for GET and HEAD only.
    :param about: description for messages, without secrets and record values.
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
        """The HTTP method, after defaults."""
        return self.method or ("GET" if self.body is None else "POST")

    @property
    def may_repeat(self) -> bool:
        """True if the call may be sent twice."""
        return self.verb in ("GET", "HEAD") if self.is_repeatable is None else self.is_repeatable


@dataclass(frozen=True)
class Reply:
    """One whole answer.

    :param headers: by lower-case name.
    :param body: decompressed. Complete for a status 2xx, else only the beginning. b"" if the verdict is not ``rows``.
    :param url: final URL, base of relative links.
    :param is_cut: True if the body is incomplete and may end inside a secret.
    :param secrets: texts that no message may quote.
    :param tries: how often the call was sent until this answer came.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    url: str = ""
    is_cut: bool = False
    secrets: Secrets = field(default_factory=lambda: Secrets([]), repr=False)
    verdict: Verdict = "rows"
    tries: int = 1

    @property
    def host(self) -> str:
        """Name and port of the server that answered, for messages."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @property
    def is_success(self) -> bool:
        """True for a status 2xx."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as text. Bytes that are not UTF-8 become U+FFFD."""
        return self.body.decode("utf-8", "replace")

    @property
    def document(self) -> Any:
        """The JSON document in the body.

        :raises SetupError: the body is not JSON.
        """
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):  # its text would be part of the message
            raise SetupError(
                f"{self.host} sent no complete JSON document ({len(self.body)} bytes). Check for a proxy or a login "
                "page"
            ) from None

    def header(self, name: str) -> str:
        """Return a header's value, or ''."""
        return self.headers.get(name.lower(), "")

    def at(self, path: str) -> Any:
        """Return the value at a path of the JSON body, or ``MISSING``. Decodes only this value of a large body."""
        try:
            if len(self.body) <= ERROR_TEXT_BYTES:
                return value_at(json.loads(self.body), path)
            value = JsonSlicer().value_at(self.body.strip(), path_steps(path))
            return value if value is MISSING else _decoded(bytes(value))
        except (ValueError, RecursionError):
            return MISSING


def _decoded(value: bytes) -> Any:
    return json.loads(value) if len(value) <= _MOST_JSON_BYTES else value[:1]
