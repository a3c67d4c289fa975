"""A request to an API, and its whole answer."""

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
"""``rows``: the body has rows. ``empty``: no rows. ``ignored``: by a rule or ``allowed``."""


@dataclass(frozen=True)
class Call:
    """One request.

    :param url: path below the connection's base URL, or a full URL such as a next link.
    :param method: defaults to GET, or POST with a body.
    :param params: added to the query in order.
    :param spaces: how ``params`` write a space: as + or as %20.
    :param headers: credentials take precedence.
    :param allowed: statuses with the verdict ``ignored``.
    :param is_repeatable: True to repeat this call alone after a temporary failure. Defaults to True for GET and HEAD.
    :param about: description for messages.
    """

    url: str
    method: str | None = None
    params: Mapping[str, str] | Sequence[tuple[str, str]] = ()
    spaces: Literal["plus", "percent"] = "plus"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Body | None = field(default=None, repr=False)
    allowed: Collection[int] = ()
    is_repeatable: bool | None = None
    about: str = ""

    @property
    def verb(self) -> str:
        """HTTP method, after defaults."""
        return self.method or ("GET" if self.body is None else "POST")

    @property
    def may_repeat(self) -> bool:
        """True if the call may be sent twice."""
        return self.verb in ("GET", "HEAD") if self.is_repeatable is None else self.is_repeatable


@dataclass(frozen=True)
class Reply:
    """One whole answer.

    :param headers: by lower-case name.
    :param body: decompressed. Only the beginning unless the status is 2xx.
    :param url: final URL, base of relative links.
    :param is_cut: True if the body may end inside a secret.
    :param tries: number of times that the call was sent.
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
        """Name and port of the server that answered."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @property
    def is_success(self) -> bool:
        """True for 2xx."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """Body as text, with U+FFFD for invalid UTF-8."""
        return self.body.decode("utf-8", "replace")

    @property
    def document(self) -> Any:
        """JSON document in the body. Raises SetupError if there is none."""
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
        """Return the value at a path of the JSON body, or ``MISSING``."""
        try:
            if len(self.body) <= ERROR_TEXT_BYTES:
                return value_at(json.loads(self.body), path)
            value = JsonSlicer().value_at(self.body.strip(), path_steps(path))
            return value if value is MISSING else _decode(bytes(value))
        except (ValueError, RecursionError):
            return MISSING


def _decode(value: bytes) -> Any:
    return json.loads(value) if len(value) <= _MOST_JSON_BYTES else value[:1]
