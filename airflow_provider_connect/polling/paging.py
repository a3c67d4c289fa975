"""Reads page after page, by page token, next link or offset."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

from airflow_provider_connect.errors import ConfigError, RetriableError

Page = TypeVar("Page")
Token = TypeVar("Token", str, int)


def pages(fetch: Callable[[Token | None], Page], next_of: Callable[[Page], Token | None]) -> Iterator[Page]:
    """Yield every page, empty ones too, until one names no next page.

    :param fetch: returns the page that a token names; None names the first.
    :param next_of: returns the token of the page after this one; None or "" after the last.
    :raises RetriableError: a token comes twice: reading would never end.
    """
    seen: set[bytes] = set()
    token: Token | None = None
    while True:
        page = fetch(token)
        yield page
        token = next_of(page)
        if token is None or token == "":
            return
        mark = hashlib.blake2b(str(token).encode(), digest_size=16).digest()  # a token may be long
        if mark in seen:
            raise RetriableError(
                f"the service named the same next page twice, the second time on page {len(seen) + 1}: reading would "
                "never end. The next try begins at the first page; if it happens again, report it to the service"
            )
        seen.add(mark)


def next_link(url: str, link: str) -> str:
    """Return the address that a page at ``url`` links to; the link may be relative.

    :raises ConfigError: it leads to another host, which must not get the credentials.
    """
    address = urljoin(url, link)
    here, there = urlsplit(url), urlsplit(address)
    if (here.scheme, here.netloc) != (there.scheme, there.netloc):
        raise ConfigError(
            f"{here.netloc} links to a next page at another address ({there.scheme}://{there.netloc.rpartition('@')[2]}"
            "), to which no credentials are sent: name the right host in the connection"
        )
    return address
