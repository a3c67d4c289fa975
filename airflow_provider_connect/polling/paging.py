"""Reads pages one after another, by page token, next link or offset."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from airflow_provider_connect.errors import ConfigError, SetupError

PageT = TypeVar("PageT")
TokenT = TypeVar("TokenT", str, int)

_NAMED_TWICE = "named the same next page twice, the second time on"


class SeenRows:
    """Fingerprints of the pages read so far."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._pages = 0

    def require_new(self, fingerprint: bytes | None) -> None:
        """Refuse a page that repeats an earlier one.

        :param fingerprint: of the page's rows. None without rows.
        :raises SetupError: the page is repeated.
        """
        self._pages += 1
        if fingerprint in self._seen:
            raise SetupError(
                f"the service sent the same rows twice, the second time on page {self._pages}. The next try starts at "
                "the first page. If it fails again, choose another end rule, or check the paging parameters, which "
                "the service may ignore"
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
    """Yield pages, empty ones too, until a page has no next token.

    :param fetch: returns the page with this token, or the first page for None.
    :param next_of: returns the next page's token, None or "" after the last.
    :param content_of: returns an identifier of the page, for a service that may repeat a token.
    :param rows_of: returns a fingerprint of the page's rows, None without rows.
    :raises SetupError: a token, a page or its rows occur twice.
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
        fingerprint = _fingerprint(str(token), content_of(page) if content_of else "")
        del page  # it may be large, and the next one is read while others work on it
        if fingerprint in fingerprints:
            repeat = "sent the same page twice, the second time as" if content_of else _NAMED_TWICE
            raise SetupError(
                f"the service {repeat} page {len(fingerprints) + 1}, so reading would never end. The next try starts "
                "at the first page. If it fails again, report it to the service"
            )
        fingerprints.add(fingerprint)
        if max_pages is not None and len(fingerprints) >= max_pages:
            raise ConfigError(
                f"there are more than max_pages={max_pages:,} pages. Raise it if this is right. Otherwise the "
                "service's paging never ends"
            )


def _fingerprint(token: str, content: str | bytes) -> bytes:
    text = content.encode() if isinstance(content, str) else content
    return hashlib.blake2b(token.encode() + b"\0" + text, digest_size=16).digest()
