"""The pages of one engage session: what page 0 promises, and whether those after it keep it. No network here.

A session is an answer that Mixpanel keeps for a while, so its pages fit together and pages of two do not. Page 0 says
how many profiles there are in all and on a page. So the content of every page is known from page 0, and a page that is
missing, doubled or short is found. Later pages of the real API have no ``total`` (``EngagePaginationStrategy`` of
Airbyte and ``source-mixpanel-native`` of Estuary, 2026-11).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from airflow_provider_connect.errors import RetriableError

_GONE = re.compile(r"cache|expired|session", re.IGNORECASE)


class GoneError(RetriableError):
    """A session is no longer kept."""


class Page(NamedTuple):
    """What a page says of itself.

    :param number: 0-based; None if it does not say.
    :param session: "" if it does not say.
    :param size: the most profiles of a page; None if it does not say.
    :param total: of the profiles on all pages; None if it does not say.
    :param profiles: how many are on this one.
    :param mark: the same for two pages with the same profiles only.
    """

    number: int | None
    session: str
    size: int | None
    total: int | None
    profiles: int
    mark: bytes


class Session:
    """Checks the pages of a session, which come in order, page 0 first.

    :raises RetriableError: page 0 contradicts itself.
    """

    def __init__(self, first: Page) -> None:
        size, total = first.size, first.total
        if size is None or total is None or size < 1 or total < 0:
            raise RetriableError(f"page 0 is wrong: it says page_size {size} and total {total}")
        self.id = first.session
        self.total = total
        """How many profiles all pages have."""
        self.pages = max(1, -(-total // size))
        """How many there are."""
        if self.pages > 1 and not self.id:
            raise RetriableError(f"page 0 of {self.pages} names no session_id, so the others cannot be asked for")
        self._size = size
        self._marks: dict[bytes, int] = {}
        self._next = 0
        self.take(first)

    @property
    def is_whole(self) -> bool:
        """Whether every page has been taken."""
        return self._next == self.pages

    def take(self, page: Page) -> None:
        """Take the next page.

        :raises RetriableError: it is another page than the next, or not of this session, or does not hold what it must.
        """
        asked = self._next
        where = f"page {asked} of {self.pages}"
        if page.session not in ("", self.id):
            raise gone(asked, self.pages, "came from another session")
        if page.number not in (None, asked):
            raise RetriableError(f"{where} is wrong: it says that it is page {page.number}")
        if page.size not in (None, self._size) or page.total not in (None, self.total):
            raise RetriableError(
                f"{where} contradicts page 0: page_size {page.size} and total {page.total}, not {self._size} and "
                f"{self.total}"
            )
        due = min(self._size, self.total - asked * self._size)
        if page.profiles != due:
            has = "is empty" if page.profiles == 0 else f"has {page.profiles} profiles"
            raise RetriableError(
                f"{where} {has}, where the total of {self.total} leaves {due} for it; {asked * self._size} came before"
            )
        if page.profiles and page.mark in self._marks:
            raise RetriableError(f"{where} came twice: it is page {self._marks[page.mark]} again")
        self._marks[page.mark] = asked
        self._next += 1


def is_gone(status: int, text: str) -> bool:
    """Tell whether a refusal of a later page says that its session is no longer kept.

    What an expired session answers is not documented; "request for page in uncached query" has been seen.
    """
    return status >= 400 and status != 429 and _GONE.search(text) is not None


def gone(page: int, pages: int, why: str) -> GoneError:
    """Return the error for a session that is lost; another one begins at page 0, as its pages fit no others."""
    return GoneError(f"page {page} of {pages} {why}: the pages read so far are dropped, and page 0 is asked anew")
