"""Parses and checks the pages of an engage session.

Later pages lack ``total`` (``EngagePaginationStrategy`` of Airbyte and ``source-mixpanel-native`` of Estuary, 2026-11).
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
    """Mixpanel has dropped a session."""


class EngagePage(NamedTuple):
    """Header of a page. Missing fields are None, a missing session "".

    :param number: from 0.
    :param fingerprint: of the page's profiles.
    """

    number: int | None
    session: str
    size: int | None
    total: int | None
    profile_count: int
    fingerprint: bytes


class EngageSession:
    """Check that pages come in order from page 0, without gaps or repeats.

    :raises RetriableError: page 0 contradicts itself.
    """

    def __init__(self, first_page: EngagePage) -> None:
        size, total = first_page.size, first_page.total
        if size is None or total is None or size < 1 or total < 0:
            raise RetriableError(f"page 0 is invalid: page_size {size}, total {total}")
        self.id = first_page.session
        self.total = total
        """Number of profiles on all pages."""
        self.page_count = max(1, -(-total // size))
        if self.page_count > 1 and not self.id:
            raise RetriableError(
                f"page 0 of {self.page_count} has no session_id, so the other pages cannot be requested"
            )
        self._size = size
        self._numbers_by_fingerprint: dict[bytes, int] = {}
        self._next_number = 0
        self.accept(first_page)

    @property
    def is_complete(self) -> bool:
        """True if every page has been accepted."""
        return self._next_number == self.page_count

    def accept(self, page: EngagePage) -> None:
        """Check the next page.

        :raises RetriableError: another number, session or number of profiles.
        """
        number = self._next_number
        subject = f"page {number} of {self.page_count}"
        if page.session not in ("", self.id):
            raise session_lost_error(number, self.page_count, "belongs to another session")
        if page.number not in (None, number):
            raise RetriableError(f"{subject} is invalid: it has the number {page.number}")
        if page.size not in (None, self._size) or page.total not in (None, self.total):
            raise RetriableError(
                f"{subject} contradicts page 0: page_size {page.size} and total {page.total}, not {self._size} and "
                f"{self.total}"
            )
        expected = min(self._size, self.total - number * self._size)
        if page.profile_count != expected:
            problem = "is empty" if page.profile_count == 0 else f"has {page.profile_count} profiles"
            raise RetriableError(
                f"{subject} {problem}, but must have {expected} profiles (total {self.total}, "
                f"{number * self._size} on earlier pages)"
            )
        if page.profile_count and page.fingerprint in self._numbers_by_fingerprint:
            raise RetriableError(f"{subject} repeats page {self._numbers_by_fingerprint[page.fingerprint]}")
        self._numbers_by_fingerprint[page.fingerprint] = number
        self._next_number += 1


def is_session_lost(status: int, text: str) -> bool:
    """Return True if a refusal of a later page means that the session is gone.

    The undocumented wording "request for page in uncached query" has been seen.
    """
    return status >= 400 and status != 429 and _GONE.search(text) is not None


def session_lost_error(page: int, pages: int, reason: str) -> GoneError:
    return GoneError(
        f"page {page} of {pages} {reason}. The pages read so far are dropped, and the next try starts at page 0"
    )


_HEAD = ("page", "page_size", "session_id", "total", "status", "error")
_TOLERANT = json.JSONDecoder(strict=False)
_NOTHING = (b"", b"null")
_NUMBER_STARTS = tuple(b"%c" % byte for byte in b"-0123456789")


class _Profile(NamedTuple):
    """Encoded JSON parts of a profile. A missing part is b""."""

    id: bytes
    properties: bytes


class PageProfiles(NamedTuple):
    """Profiles of a page.

    :param rejects: profiles that cannot be rows. Position: number in the session.
    """

    records: tuple[RecordColumns, ...]
    rejects: tuple[Reject, ...]
    notes: tuple[str, ...]


class PageReader:
    """Parser of pages.

    :param is_cohort: True for members of a cohort, perhaps without profile.
    """

    def __init__(self, client: MixpanelClient, promoted_names: tuple[str, ...], *, is_cohort: bool = False) -> None:
        import msgspec

        self._client = client
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
        """Return the header of a page, and its profiles for :meth:`read_profiles`.

        :raises RetriableError: no page of profiles, or an error.
        """
        try:
            page: Any = self._page.decode(data)
        except self._malformed:
            page = self._decode_tolerantly(data)
        fits = all(number is None or _is_whole(number) for number in (page.page_size, page.total))
        if page.error or page.results is None or not fits or page.status not in (None, "ok"):
            self._client.parse_json(data)
            raise self._client.incomplete_answer_error(len(data))
        fingerprint = hashlib.blake2b(b",".join(bytes(profile.id) for profile in page.results), digest_size=16).digest()
        number = page.page if _is_whole(page.page) else None
        session = "" if page.session_id is None else str(page.session_id)
        return EngagePage(number, session, page.page_size, page.total, len(page.results), fingerprint), page.results

    def _decode_tolerantly(self, data: bytes) -> Any:
        text = data.decode("utf-8", "surrogateescape")
        try:
            page_members = dict(members(text, _TOLERANT))
            profiles = [
                dict(members(profile, _TOLERANT)) for profile in elements(page_members.pop("results", "[]"), _TOLERANT)
            ]
            header_fields = {name: json.loads(value) for name, value in page_members.items()}
        except (ValueError, RecursionError):  # its text would be part of the message
            raise self._client.incomplete_answer_error(len(data)) from None
        results = [
            _Profile(
                _encode_escaped(members_of_profile.get("$distinct_id")),
                _encode_escaped(members_of_profile.get("$properties")),
            )
            for members_of_profile in profiles
        ]
        return SimpleNamespace(results=results, **{name: header_fields.get(name) for name in _HEAD})

    def read_profiles(self, results: list[Any], first_number: int) -> PageProfiles:
        """Parse the profiles of a page."""
        ids = [bytes(profile.id) or b"null" for profile in results]
        if not all(encoded_id[:1] == b'"' for encoded_id in ids):
            ids = [b'"%b"' % encoded_id if encoded_id[:1] in _NUMBER_STARTS else encoded_id for encoded_id in ids]
        lines = [b'{"event":%b,"properties":%b}' % pair for pair in zip(ids, self._properties(results), strict=True)]
        block = b"\n".join(lines)
        if (
            block.count(b"\n") != len(lines) - 1
        ):  # white space of the answer; bytes are kept, so such a page is read slowly
            return self._read_one_by_one(lines, range(len(lines)), first_number)
        bounds = find_line_bounds(block)
        assert bounds is not None
        block_records = self._lines.read_block(Block(0, block), bounds)
        slow_profiles = self._read_one_by_one(lines, (number for number, _ in block_records.odd_lines), first_number)
        usual_records = (block_records.records,) if block_records.records is not None else ()
        return slow_profiles._replace(records=(*usual_records, *slow_profiles.records))

    def _properties(self, results: list[Any]) -> Iterator[bytes]:
        texts = (bytes(profile.properties) for profile in results)
        return (self._no_properties if text in _NOTHING else text for text in texts)

    def _read_one_by_one(self, lines: list[bytes], numbers: Iterable[int], first: int) -> PageProfiles:
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


def _encode_escaped(text: str | None) -> bytes:
    return (text or "").encode("utf-8", "surrogateescape")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
