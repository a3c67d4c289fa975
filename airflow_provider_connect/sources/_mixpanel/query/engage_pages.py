"""The pages of an engage session: what one says of itself, its profiles, and whether they fit together. No network.

A session is an answer that Mixpanel keeps for a while, so its pages fit together and pages of two do not. Page 0 says
how many profiles there are in all and on a page. So the content of every page is known from page 0, and a page that is
missing, doubled or short is found. Later pages of the real API have no ``total`` (``EngagePaginationStrategy`` of
Airbyte and ``source-mixpanel-native`` of Estuary, 2026-11).

A profile is written as a line ``{"event":<distinct_id>,"properties":<properties>}``: so ids and promoted properties
are decoded many at once, and the properties' bytes stay what they are.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.polling.jsonlines import Block
from airflow_provider_connect.sources._mixpanel.lines import find_line_bounds
from airflow_provider_connect.sources._mixpanel.records import (
    NotARecordError,
    ParsedRecord,
    RecordColumns,
    RecordReader,
)
from airflow_provider_connect.stage.rejects import Reject
from airflow_provider_connect.values.json.slices import elements, members

if TYPE_CHECKING:
    from airflow_provider_connect.sources._mixpanel.client import MixpanelClient

_GONE = re.compile(r"cache|expired|session", re.IGNORECASE)


class GoneError(RetriableError):
    """A session is no longer kept."""


class EngagePage(NamedTuple):
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
    profile_count: int
    fingerprint: bytes


class EngageSession:
    """Checks the pages of a session, which come in order, page 0 first.

    :raises RetriableError: page 0 contradicts itself.
    """

    def __init__(self, first_page: EngagePage) -> None:
        size, total = first_page.size, first_page.total
        if size is None or total is None or size < 1 or total < 0:
            raise RetriableError(f"page 0 is wrong: it says page_size {size} and total {total}")
        self.id = first_page.session
        self.total = total
        """How many profiles all pages have."""
        self.page_count = max(1, -(-total // size))
        """How many there are."""
        if self.page_count > 1 and not self.id:
            raise RetriableError(f"page 0 of {self.page_count} names no session_id, so the others cannot be asked for")
        self._size = size
        self._marks: dict[bytes, int] = {}
        self._next = 0
        self.accept(first_page)

    @property
    def is_complete(self) -> bool:
        """Whether every page has been taken."""
        return self._next == self.page_count

    def accept(self, page: EngagePage) -> None:
        """Take the next page.

        :raises RetriableError: it is another page than the next, or not of this session, or does not hold what it must.
        """
        asked = self._next
        where = f"page {asked} of {self.page_count}"
        if page.session not in ("", self.id):
            raise session_lost_error(asked, self.page_count, "came from another session")
        if page.number not in (None, asked):
            raise RetriableError(f"{where} is wrong: it says that it is page {page.number}")
        if page.size not in (None, self._size) or page.total not in (None, self.total):
            raise RetriableError(
                f"{where} contradicts page 0: page_size {page.size} and total {page.total}, not {self._size} and "
                f"{self.total}"
            )
        due = min(self._size, self.total - asked * self._size)
        if page.profile_count != due:
            has = "is empty" if page.profile_count == 0 else f"has {page.profile_count} profiles"
            raise RetriableError(
                f"{where} {has}, where the total of {self.total} leaves {due} for it; {asked * self._size} came before"
            )
        if page.profile_count and page.fingerprint in self._marks:
            raise RetriableError(f"{where} came twice: it is page {self._marks[page.fingerprint]} again")
        self._marks[page.fingerprint] = asked
        self._next += 1


def is_session_lost(status: int, text: str) -> bool:
    """Tell whether a refusal of a later page says that its session is no longer kept.

    What an expired session answers is not documented; "request for page in uncached query" has been seen.
    """
    return status >= 400 and status != 429 and _GONE.search(text) is not None


def session_lost_error(page: int, pages: int, reason: str) -> GoneError:
    """Return the error for a session that is lost; another one begins at page 0, as its pages fit no others."""
    return GoneError(f"page {page} of {pages} {reason}: the pages read so far are dropped, and page 0 is asked anew")


_HEAD = ("page", "page_size", "session_id", "total", "status", "error")
_TOLERANT = json.JSONDecoder(strict=False)
_NOTHING = (b"", b"null")
_NUMBER_STARTS = tuple(b"%c" % byte for byte in b"-0123456789")


class _Profile(NamedTuple):
    """A profile still encoded; b"" where a part is missing."""

    id: bytes
    properties: bytes


class PageProfiles(NamedTuple):
    """The profiles of a page.

    :param records: in place of an event's name each has its distinct_id.
    :param rejects: profiles that cannot be rows; their position is their number in the session.
    :param notes: names of the counts that they increase.
    """

    records: tuple[RecordColumns, ...]
    rejects: tuple[Reject, ...]
    notes: tuple[str, ...]


class PageReader:
    """Reads pages.

    :param promoted: the properties to decode.
    :param of_cohort: whether these are members of a cohort, which Mixpanel lists even if they have no profile.
    """

    def __init__(self, client: MixpanelClient, promoted_names: tuple[str, ...], *, is_cohort: bool = False) -> None:
        import msgspec

        self._there = client
        self._no_properties = b"{}" if is_cohort else b"null"
        self._lines = RecordReader(promoted_names)
        self.field_names = self._lines.field_names
        profile: Any = msgspec.defstruct(
            "Profile",
            [("id", msgspec.Raw, msgspec.Raw()), ("properties", msgspec.Raw, msgspec.Raw())],
            rename={"id": "$distinct_id", "properties": "$properties"}.get,
            gc=False,
        )
        page = msgspec.defstruct(
            "Page", [("results", list[profile] | None, None), *((name, Any, None) for name in _HEAD)]
        )
        self._page = msgspec.json.Decoder(page)
        self._malformed = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

    def read_page(self, data: bytes) -> tuple[EngagePage, list[Any]]:
        """Return what a page says of itself, and its profiles still encoded.

        :raises RetriableError: it is not a page of profiles, or tells of trouble.
        """
        try:
            page: Any = self._page.decode(data)
        except self._malformed:
            page = self._by_hand(data)
        fits = all(number is None or _is_whole(number) for number in (page.page_size, page.total))
        if page.error or page.results is None or not fits or page.status not in (None, "ok"):
            self._there.parse_json(data)
            raise self._there.incomplete_answer_error(len(data))
        mark = hashlib.blake2b(b",".join(bytes(profile.id) for profile in page.results), digest_size=16).digest()
        number = page.page if _is_whole(page.page) else None
        session = "" if page.session_id is None else str(page.session_id)
        return EngagePage(number, session, page.page_size, page.total, len(page.results), mark), page.results

    def _by_hand(self, data: bytes) -> Any:
        """Read a page that msgspec does not: with lone surrogates, NaN or invalid UTF-8 in some profile.

        Which profiles these are, and what becomes of them, is found when they are read.
        """
        text = data.decode("utf-8", "surrogateescape")
        try:
            top = dict(members(text, _TOLERANT))
            found = [dict(members(profile, _TOLERANT)) for profile in elements(top.pop("results", "[]"), _TOLERANT)]
            head = {name: json.loads(value) for name, value in top.items()}
        except (ValueError, RecursionError):  # its text would be part of the message
            raise self._there.incomplete_answer_error(len(data)) from None
        results = [_Profile(_encoded(each.get("$distinct_id")), _encoded(each.get("$properties"))) for each in found]
        return SimpleNamespace(results=results, **{name: head.get(name) for name in _HEAD})

    def read_profiles(self, results: list[Any], first_number: int) -> PageProfiles:
        """Read the profiles of a page.

        :param first: the number of the page's first profile in the session.
        """
        ids = [bytes(profile.id) or b"null" for profile in results]
        if not all(one[:1] == b'"' for one in ids):
            ids = [b'"%b"' % one if one[:1] in _NUMBER_STARTS else one for one in ids]
        lines = [b'{"event":%b,"properties":%b}' % pair for pair in zip(ids, self._properties(results), strict=True)]
        block = b"\n".join(lines)
        if (
            block.count(b"\n") != len(lines) - 1
        ):  # white space of the answer; bytes are kept, so such a page is read slowly
            return self._one_by_one(lines, range(len(lines)), first_number)
        bounds = find_line_bounds(block)
        assert bounds is not None
        found = self._lines.read_block(Block(0, block), bounds)
        others = self._one_by_one(lines, (number for number, _ in found.odd_lines), first_number)
        usual = (found.records,) if found.records is not None else ()
        return others._replace(records=(*usual, *others.records))

    def _properties(self, results: list[Any]) -> Iterator[bytes]:
        texts = (bytes(profile.properties) for profile in results)
        return (self._no_properties if text in _NOTHING else text for text in texts)

    def _one_by_one(self, lines: list[bytes], numbers: Iterable[int], first: int) -> PageProfiles:
        records: list[ParsedRecord] = []
        rejects: list[Reject] = []
        notes: list[str] = []
        for number in numbers:
            try:
                record = self._lines.read_line(lines[number], 0)
            except NotARecordError as error:
                reason = str(error).replace("event name", "distinct_id")
                rejects.append(Reject(first + number, reason, lines[number]))
            else:
                records.append(record)
                notes += record.notes
        return PageProfiles((RecordColumns.from_list(records),) if records else (), tuple(rejects), tuple(notes))


def _encoded(text: str | None) -> bytes:
    return (text or "").encode("utf-8", "surrogateescape")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
