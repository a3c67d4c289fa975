"""Reads page after page, by page token, next link or offset."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from airflow_provider_connect.errors import ConfigError, RetriableError

PageT = TypeVar("PageT")
TokenT = TypeVar("TokenT", str, int)

_NAMED_TWICE = "named the same next page twice, the second time on"


class SeenRows:
    """The rows of the pages so far, by what tells them from all others: a service has to go on."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._pages = 0

    def require_new(self, fingerprint: bytes | None) -> None:
        """Make sure that the next page is no earlier one.

        :param fingerprint: what tells its rows from all others; None for a page without rows.
        :raises RetriableError: it is one.
        """
        self._pages += 1
        if fingerprint in self._seen:
            raise RetriableError(
                f"the service sent the same rows twice, the second time on page {self._pages}: it does not go on. The "
                "next try begins at the first page; if it happens again, another rule tells the last page, or the "
                "service ignores how it is asked for the next one"
            )
        if fingerprint is not None:
            self._seen.add(fingerprint)


def pages(
    fetch: Callable[[TokenT | None], PageT],
    next_of: Callable[[PageT], TokenT | None],
    *,
    content_of: Callable[[PageT], str | bytes] | None = None,
    rows_of: Callable[[PageT], bytes | None] | None = None,
    max_pages: int | None = None,
) -> Iterator[PageT]:
    """Yield every page, empty ones too, until one names no next page.

    :param fetch: returns the page that a token names; None names the first.
    :param next_of: returns the token of the page after this one; None or "" after the last.
    :param content_of: for a service that may name the same token on every page, such as a scroll id: returns what tells
        a page from all others, such as the id of its last record. There ``next_of`` finds the end by the page.
    :param rows_of: for a service that may send the same page whatever it is asked for: returns what tells the rows of a
        page from all others; None for a page without rows.
    :param max_pages: how many pages there may be.
    :raises RetriableError: a token comes a second time, or, with ``content_of``, a page, or, with ``rows_of``, the same
        rows: reading would never end.
    :raises ConfigError: there are more than ``max_pages``.
    """
    fingerprints: set[bytes] = set()
    seen_rows = SeenRows()
    token: TokenT | None = None
    while True:
        page = fetch(token)
        if rows_of is not None:
            seen_rows.require_new(rows_of(page))
        yield page
        token = next_of(page)
        if token is None or token == "":
            return
        mark = _fingerprint(str(token), content_of(page) if content_of else "")
        del page  # it may be large, and the next one is read while others work on it
        if mark in fingerprints:
            again = "sent the same page twice, the second time as" if content_of else _NAMED_TWICE
            raise RetriableError(
                f"the service {again} page {len(fingerprints) + 1}: reading would never end. The next try begins at the first "
                "page; if it happens again, report it to the service"
            )
        fingerprints.add(mark)
        if max_pages is not None and len(fingerprints) >= max_pages:
            raise ConfigError(
                f"there are more than max_pages={max_pages:,} pages: raise it if that is right; else the service never "
                "comes to an end"
            )


def _fingerprint(token: str, content: str | bytes) -> bytes:
    """Return what is kept of a page: a token or a content may be long."""
    text = content.encode() if isinstance(content, str) else content
    return hashlib.blake2b(token.encode() + b"\0" + text, digest_size=16).digest()
