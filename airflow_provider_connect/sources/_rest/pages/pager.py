"""Computes the request for the next page, or detects the last page. No network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.clients.http.client import form_body, json_body, merge_headers
from airflow_provider_connect.errors import ConfigError, SetupError
from airflow_provider_connect.sources._rest.pages.page_values import link_with_relation, whole_number
from airflow_provider_connect.sources._rest.pages.paging import (
    Cursor,
    Flag,
    LastKey,
    LinkHeader,
    NextLink,
    Offset,
    PageNumber,
    Paging,
    ShortPage,
    Single,
    Total,
)
from airflow_provider_connect.sources._rest.pages.total_check import BeyondTotal
from airflow_provider_connect.sources._rest.placeholders import FilledRequest, fill_page, has_page_value
from airflow_provider_connect.values.json.paths import MISSING, path_steps, put_at

MAX_EMPTY_PAGES = 10
"""Largest number of consecutive pages without records, although more are announced."""
MAX_EMPTY_PAGES_WITH_TOKENS = 100
"""The limit for pages with a token. A search may skip many records before a match."""
_MAY_RUN_OUT = ("empty_page", "short_page")


class PageFacts(NamedTuple):
    """Properties of a page that decide about the next request.

    :param record_count: before duplicates and rejects are dropped. Elements that hold lists of records count instead.
    :param page_values: values at :func:`.value_paths`.
    :param last_key: value in the last record at :func:`.last_record_path`, or None.
    """

    record_count: int
    page_values: Mapping[str, Any]
    headers: Mapping[str, str]
    url: str
    last_key: Any = None


class Pager:
    """Paging state of one listing."""

    def __init__(
        self, paging: Paging, request: FilledRequest, label: str, *, earlier_starts: tuple[str, ...] = ()
    ) -> None:
        """Start before the first page.

        :param earlier_starts: start of each listing after the first, this one included.
        """
        self._earlier_starts = earlier_starts
        self._last_key: Any = None
        self._paging = paging
        self._request = request
        self._fills_page = has_page_value(request)
        self._label = label
        self._page_count = self._record_count = self._largest_page = self._empty_page_count = self._offset = 0
        self._beyond: BeyondTotal | None = None
        self._is_end_doubtful = False
        self._url = ""
        self._token_value: tuple[str, Any] = ("", None)
        self._total = self._total_read = 0

    @property
    def announced_records(self) -> int:
        """Number of records that the API announced, or 0."""
        return 0 if self._earlier_starts else self._total

    @property
    def has_announced_page(self) -> bool:
        """True if the last page announced the next one by a token, a flag or a total."""
        if isinstance(self._paging, Single) or not self._page_count:
            return False
        return isinstance(self._paging, Cursor | NextLink | LinkHeader) or self._paging.ends.rule in ("flag", "total")

    def call_for_page(self, token: str | None) -> Call:
        """Return the request for the page with this token, by default the first page."""
        paging, request = self._paging, self._request
        label = f"{self._label}, page {self._page_count + 1}"
        if token is not None and isinstance(paging, LinkHeader | NextLink):
            # The link has its own query. Our params would be in it twice.
            link = self._resolve_link(token, keeps_host=paging.keep_host)
            return self._build_call(request._replace(path=link, params=()), label)
        if isinstance(paging, Offset | PageNumber):
            token = token or str(paging.first)
            request = request._replace(params=(*request.params, *paging.size_params))
        if self._fills_page and isinstance(paging, Offset | PageNumber | Cursor | LastKey):
            first_value = "" if isinstance(paging, Offset | PageNumber) else paging.first_value
            request = fill_page(request, first_value if token is None else self._typed(token))
        elif token is not None and not isinstance(paging, Single | LinkHeader | NextLink):
            request = self._with_token(request, paging, token)
        return self._build_call(request, label)

    def _with_token(
        self, request: FilledRequest, paging: Offset | PageNumber | Cursor | LastKey, token: str
    ) -> FilledRequest:
        if paging.put is not None and request.form is not None:
            return request._replace(form={**request.form, path_steps(paging.put)[0]: token})
        if paging.put is not None:
            return request._replace(body=put_at(request.body, path_steps(paging.put), self._typed(token)))
        if paging.param is not None:
            return request._replace(params=(*request.params, (paging.param, token)))
        if isinstance(paging, Cursor) and paging.send_header is not None:
            return request._replace(headers=merge_headers(request.headers, {paging.send_header: token}))
        return request

    def _typed(self, token: str) -> Any:
        """Return a token for a JSON body: computed ones as numbers, others as they came."""
        if isinstance(self._paging, Offset | PageNumber):
            return int(token)
        text, value = self._token_value
        return value if text == token else token

    def _resolve_link(self, link: str, *, keeps_host: bool) -> str:
        try:
            address = urlsplit(urljoin(self._url, link))
            if keeps_host:
                page = urlsplit(self._url)
                address = address._replace(scheme=page.scheme, netloc=page.netloc)
            return address.geturl()
        except ValueError:
            raise self._page_error("has a link to a next page with an invalid address") from None

    def _build_call(self, request: FilledRequest, label: str) -> Call:
        body = None if request.body is None else json_body(request.body)
        is_stable = isinstance(self._paging, Single) or self._paging.stable or not self._page_count
        return Call(
            request.path,
            method=request.method,
            params=request.params,
            spaces=request.spaces,
            headers=request.headers,
            body=body if request.form is None else form_body(request.form),
            is_repeatable=is_stable,
            about=label,
        )

    def next_token(self, page: PageFacts) -> str | None:
        """Return the token of the next page, or None after the last page.

        :raises SetupError: the page lacks a value that the paging needs, or contradicts the end rule.
        """
        paging = self._paging
        self._page_count += 1
        self._record_count += page.record_count
        self._offset += self._step(page.record_count)
        self._url = page.url
        self._empty_page_count = 0 if page.record_count else self._empty_page_count + 1
        if isinstance(paging, Single):
            return None
        if self._is_capped:
            self._last_key = page.last_key
            return None
        if self._beyond is not None:
            self._beyond.token = self._token(page)
            return None
        if self._is_last(page):
            self._note_total(page)
            return None
        token = self._token(page)
        if token is None and paging.ends.rule == "no_token":
            return None
        self._require_progress(paging.ends.rule)
        if token is None:
            raise self._page_error(
                f"names no next page, though its end rule {paging.ends.rule!r} announces one. If a missing token "
                "means the end, set ends='no_token'"
            )
        return token

    @property
    def _is_capped(self) -> bool:
        cap = None if isinstance(self._paging, Single | LastKey) else self._paging.cap
        return cap is not None and self._record_count >= cap.records

    def next_listing(self) -> Pager | None:
        """Return a pager that continues where the API's cap ended this listing. None if it is complete.

        :raises ConfigError: the declaration cannot continue the listing.
        :raises SetupError: the last record lacks the start value of the next listing.
        """
        paging = self._paging
        if isinstance(paging, Single | LastKey) or paging.cap is None or not self._is_capped:
            return None
        cap = paging.cap
        cap_text = (
            f"{self._label}: {self._record_count:,} records were received, and the API lists at most {cap.records:,}"
        )
        if cap.param is None or cap.field is None:
            raise ConfigError(
                f"{cap_text}. The other records are missing. Request less at once, or set cap.param and cap.field to "
                "continue the listing"
            )
        if isinstance(self._last_key, bool) or not isinstance(self._last_key, str | int) or self._last_key == "":
            raise self._page_error(
                f"has neither text nor a whole number in its last record at {cap.field!r}, the start of the next "
                "listing"
            )
        start = str(self._last_key)
        if start in self._earlier_starts:
            raise ConfigError(
                f"{cap_text}. The listing ends with the same {cap.field!r} as an earlier one. Either it is not sorted "
                f"by this field, or {cap.param!r} is not its start, or too many records share the value. Request less "
                "at once"
            )
        params = [(name, value) for name, value in self._request.params if name != cap.param]
        request = self._request._replace(params=(*params, (cap.param, start)))
        label = f"{self._label.partition(', listing')[0]}, listing {len(self._earlier_starts) + 2}"
        return Pager(paging, request, label, earlier_starts=(*self._earlier_starts, start))

    def note_tries(self, tries: int) -> None:
        """Note how often the newest page was requested."""
        by_token = isinstance(self._paging, Cursor | NextLink | LinkHeader)
        self._is_end_doubtful = by_token and tries > 1 and self._page_count > 0

    def restarted(self) -> Pager | None:
        """Return a pager for the same listing if its end is doubtful, else None.

        An API whose cursor dies with a failure answers the repeated request like the end of the listing.
        """
        if not self._is_end_doubtful:
            return None
        return Pager(self._paging, self._request, self._label, earlier_starts=self._earlier_starts)

    def doubtful_end_error(self) -> SetupError:
        """Return the error for a listing that ended doubtfully twice."""
        return self._page_error(
            "ended the listing after a failed request, twice. Its token may be valid only once: set stable=False, so "
            "that the day starts again at the first page"
        )

    def require_end(self, *, can_run_out: bool) -> None:
        """Check that the listing may end with an answer that an error rule calls empty.

        :param can_run_out: the rules ``empty_page`` and ``short_page`` accept the answer as the end.
        :raises SetupError: the previous page announced more records.
        """
        if isinstance(self._paging, Single):
            return
        if not self._page_count and (can_run_out or not self._earlier_starts):
            return
        if not can_run_out or self._paging.ends.rule not in _MAY_RUN_OUT:
            self._page_count += 1
            raise self._page_error(
                f"is empty by a rule of errors, though the end rule {self._paging.ends.rule!r} announced more records"
            )

    def _require_progress(self, rule: str) -> None:
        limit = MAX_EMPTY_PAGES_WITH_TOKENS if rule == "no_token" else MAX_EMPTY_PAGES
        if self._empty_page_count >= limit:
            raise self._page_error(
                f"has no records, like the {limit - 1} before it, though the end rule {rule!r} announces more. Reading "
                "would never end. The next try starts at the first page. If it fails again, choose another end rule"
            )

    def _is_last(self, page: PageFacts) -> bool:
        assert not isinstance(self._paging, Single)
        ends = self._paging.ends
        if ends.rule == "empty_page":
            return not page.record_count
        if isinstance(ends, ShortPage):
            return self._is_short(page, ends)
        if isinstance(ends, Flag):
            flag = page.page_values[ends.at]
            if flag is MISSING:
                raise self._page_error(f"has no value at {ends.at!r}, the flag of the last page")
            if isinstance(ends.last, bool) and not isinstance(flag, bool):
                raise self._page_error(f"has neither true nor false at {ends.at!r}, the flag of the last page")
            return type(flag) is type(ends.last) and bool(flag == ends.last)
        return isinstance(ends, Total) and self._is_total_reached(page, ends)

    def _is_short(self, page: PageFacts, ends: ShortPage) -> bool:
        self._largest_page = max(self._largest_page, page.record_count)
        full = ends.serves or self._largest_page
        return page.record_count < min(full, self._requested_size or full) or not page.record_count

    @property
    def _requested_size(self) -> int | None:
        paging = self._paging
        return paging.limit if isinstance(paging, Offset) else paging.size if isinstance(paging, PageNumber) else None

    def _step(self, record_count: int) -> int:
        """Return how far a page moves an offset: records beyond the requested size do not count."""
        return min(record_count, self._requested_size or record_count)

    def _note_total(self, page: PageFacts) -> None:
        paging = self._paging
        if isinstance(paging, Single) or not isinstance(paging.ends, Total):
            return
        names_next = isinstance(paging, LinkHeader | NextLink | Cursor)
        self._beyond = BeyondTotal(self._label, paging.ends.of, self._total_read, self._token(page), names_next)

    def token_beyond_total(self, different_records: int) -> str | None:
        """Return the token of a page to read after the total is reached, or None.

        :param different_records: records with different keys so far.
        :raises SetupError: the total differs from the API's records.
        """
        return None if self._beyond is None else self._beyond.next_token(different_records)

    def _is_total_reached(self, page: PageFacts, ends: Total) -> bool:
        value = (
            page.page_values[ends.at] if ends.at is not None else page.headers.get(str(ends.header).lower(), MISSING)
        )
        total = whole_number(value)
        if total is None:
            raise self._page_error(
                f"has no total in {ends.at or ends.header!r}. If the API may omit it, use another rule"
            )
        self._total_read = total
        self._total = total if ends.of == "records" else 0
        received = self._record_count if ends.of == "records" else self._page_count
        # After an empty page, Offset and LastKey would send the same request again.
        if received < total and (
            self._empty_page_count >= MAX_EMPTY_PAGES
            or (not page.record_count and isinstance(self._paging, Offset | LastKey))
        ):
            raise self._page_error(
                f"has no records, like the {self._empty_page_count - 1} before it. The API announced {total:,} "
                f"{ends.of} and sent {received:,}"
            )
        return received >= total

    def _token(self, page: PageFacts) -> str | None:
        paging = self._paging
        if isinstance(paging, Offset):
            return str(paging.first + self._offset)
        if isinstance(paging, PageNumber):
            return str(paging.first + self._page_count)
        if isinstance(paging, LinkHeader):
            return link_with_relation(page.headers.get("link", ""), paging.rel)
        if isinstance(paging, LastKey):
            value, location = page.last_key, f"its last record at {paging.field!r}"
        elif isinstance(paging, Cursor) and paging.header is not None:
            value, location = page.headers.get(paging.header.lower()), f"header {paging.header!r}"
        else:
            assert isinstance(paging, Cursor | NextLink)
            value, location = page.page_values[paging.at or ""], repr(paging.at)
        if value is None or value is MISSING or value is False or value == "":  # 0 is a token
            return None
        if isinstance(paging, Cursor) and paging.put is not None and isinstance(value, float | list | dict):
            # A JSON body takes any value, as search_after of Elasticsearch does.
            self._token_value = (json.dumps(value), value)
            return self._token_value[0] if value or isinstance(value, float) else None
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self._page_error(f"has neither text nor a whole number as the next page's token: {location}")
        self._token_value = (str(value), value)
        return str(value)

    def _page_error(self, problem: str) -> SetupError:
        return SetupError(f"{self._label}: page {self._page_count} {problem}")
