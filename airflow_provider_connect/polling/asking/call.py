"""What is asked, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from airflow_provider_connect.clients.http.client import Body

Verdict = Literal["rows", "empty", "ignored"]
"""What an answer is: rows to read; known to be none; or nothing to be had for this parent, by a declared rule."""


@dataclass(frozen=True)
class Call:
    """One request.

    :param url: a path under the connection's base URL; or an address, such as a next link, which has to lie on the
        connection's own host or on one that it names.
    :param params: added to the query, in this order; a name may come more than once.
    :param headers: beside those of the credentials, which win.
    :param body: of a POST, PUT or PATCH: see ``json_body`` and ``form_body``.
    :param is_repeatable: whether it may be asked again alone after a failure that may pass; else such a failure is
        raised, and the poll begins again.
    :param about: what it asks for, for messages: no secret and no record's value.
    :param sent: called when it is on its way, each time that it is sent.
    """

    url: str
    method: str = "GET"
    params: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Body | None = field(default=None, repr=False)
    is_repeatable: bool = True
    about: str = ""
    sent: Callable[[], None] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Reply:
    """One whole answer.

    :param url: where it came from at last: what a relative link in it is relative to.
    :param headers: their names in small letters.
    :param body: inflated, and seen to its end; b"" unless the verdict is ``rows``.
    """

    url: str
    status: int
    verdict: Verdict = "rows"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)

    @property
    def host(self) -> str:
        """Who answered, as messages name it."""
        return urlsplit(self.url).netloc.rpartition("@")[2]
