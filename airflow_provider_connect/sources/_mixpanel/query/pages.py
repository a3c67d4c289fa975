"""Reads a page of profiles: what it says of itself, and its profiles as records that the export's reader knows.

A profile is written as a line ``{"event":<distinct_id>,"properties":<properties>}``: so ids and promoted properties
are decoded many at once, and the properties' bytes stay what they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from airflow_provider_connect.polling.jsonlines import Block
from airflow_provider_connect.sources._mixpanel.asking import Asking
from airflow_provider_connect.sources._mixpanel.lines import line_bounds
from airflow_provider_connect.sources._mixpanel.query.paging import Page
from airflow_provider_connect.sources._mixpanel.records import (
    NotARecordError,
    Record,
    RecordReader,
    Records,
)
from airflow_provider_connect.stage.rejects import Reject
from airflow_provider_connect.values.json.slices import elements, members

_HEAD = ("page", "page_size", "session_id", "total", "status", "error")
_TOLERANT = json.JSONDecoder(strict=False)
_NOTHING = (b"", b"null")
_NUMBER_STARTS = tuple(b"%c" % byte for byte in b"-0123456789")


class _Profile(NamedTuple):
    """A profile still encoded; b"" where a part is missing."""

    id: bytes
    properties: bytes


class Profiles(NamedTuple):
    """The profiles of a page.

    :param records: in place of an event's name each has its distinct_id.
    :param rejects: profiles that cannot be rows; their position is their number in the session.
    :param notes: names of the counts that they increase.
    """

    records: tuple[Records, ...]
    rejects: tuple[Reject, ...]
    notes: tuple[str, ...]


class PageReader:
    """Reads pages.

    :param promoted: the properties to decode.
    :param of_cohort: whether these are members of a cohort, which Mixpanel lists even if they have no profile.
    """

    def __init__(self, there: Asking, promoted: tuple[str, ...], *, of_cohort: bool = False) -> None:
        import msgspec

        self._there = there
        self._no_properties = b"{}" if of_cohort else b"null"
        self._lines = RecordReader(promoted)
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

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the decoded properties, in the order of the records' values."""
        return self._lines.names

    def read(self, data: bytes) -> tuple[Page, list[Any]]:
        """Return what a page says of itself, and its profiles still encoded.

        :raises RetriableError: it is not a page of profiles, or tells of trouble.
        """
        try:
            page: Any = self._page.decode(data)
        except self._malformed:
            page = self._by_hand(data)
        fits = all(number is None or _is_whole(number) for number in (page.page_size, page.total))
        if page.error or page.results is None or not fits or page.status not in (None, "ok"):
            self._there.parsed(data)
            raise self._there.no_document(len(data))
        mark = hashlib.blake2b(b",".join(bytes(profile.id) for profile in page.results), digest_size=16).digest()
        number = page.page if _is_whole(page.page) else None
        session = "" if page.session_id is None else str(page.session_id)
        return Page(number, session, page.page_size, page.total, len(page.results), mark), page.results

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
            raise self._there.no_document(len(data)) from None
        results = [_Profile(_encoded(each.get("$distinct_id")), _encoded(each.get("$properties"))) for each in found]
        return SimpleNamespace(results=results, **{name: head.get(name) for name in _HEAD})

    def profiles(self, results: list[Any], first: int) -> Profiles:
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
            return self._one_by_one(lines, range(len(lines)), first)
        bounds = line_bounds(block)
        assert bounds is not None
        found = self._lines.read_block(Block(0, block), bounds)
        others = self._one_by_one(lines, (number for number, _ in found.odd), first)
        usual = (found.records,) if found.records is not None else ()
        return others._replace(records=(*usual, *others.records))

    def _properties(self, results: list[Any]) -> Iterator[bytes]:
        texts = (bytes(profile.properties) for profile in results)
        return (self._no_properties if text in _NOTHING else text for text in texts)

    def _one_by_one(self, lines: list[bytes], numbers: Iterable[int], first: int) -> Profiles:
        records: list[Record] = []
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
        return Profiles((Records.from_list(records),) if records else (), tuple(rejects), tuple(notes))


def _encoded(text: str | None) -> bytes:
    return (text or "").encode("utf-8", "surrogateescape")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
