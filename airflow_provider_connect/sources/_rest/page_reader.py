"""Reads the pages of one source, and converts them to rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_connect.clients.http.client import merge_headers
from airflow_provider_connect.errors import DataError
from airflow_provider_connect.polling.counted import CountedApi
from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.paging import SeenRows, pages
from airflow_provider_connect.polling.prefetch import prefetch
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._rest.building.duplicates import DuplicateCheck
from airflow_provider_connect.sources._rest.building.order_check import OrderCheck
from airflow_provider_connect.sources._rest.building.rows import PageRows, RowBuilder
from airflow_provider_connect.sources._rest.listing_check import EdgeCheck, ListingCheck
from airflow_provider_connect.sources._rest.options import RestOptions
from airflow_provider_connect.sources._rest.pages.page_parser import PageParser, PageParts
from airflow_provider_connect.sources._rest.pages.pager import PageFacts, Pager
from airflow_provider_connect.sources._rest.pages.paging import Single, last_record_path, value_paths
from airflow_provider_connect.sources._rest.placeholders import fill_request
from airflow_provider_connect.stage.rejects import Tolerance
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

_HEAD_START_SECONDS = 0.02
"""Longest wait for the next request before a page is converted: conversion blocks the sending thread."""

_ACCEPTED = {"csv": "text/csv, */*;q=0.5", "json_lines": "application/x-ndjson, */*;q=0.5"}


class _Page(NamedTuple):
    """One page. An answer that an error rule calls empty or ignored has no parts."""

    parts: PageParts | None
    facts: PageFacts | None
    label: str
    is_ignored: bool = False


class PageReader:
    """Reads all pages of one source, for one parent after another.

    :param tally: counts bytes, requests and pages.
    :param row_tally: counts rows and dropped rows. Defaults to ``tally``.
    :param looks_ahead: request the next page while a page is converted.
    """

    def __init__(
        self,
        options: RestOptions,
        day: Day,
        api: CountedApi,
        *,
        stack: ExitStack,
        tally: Tally,
        row_tally: Tally | None = None,
        looks_ahead: bool = False,
    ) -> None:
        self._options = options
        self._day = day
        self._api = api
        self._tally = tally
        self._row_tally = tally if row_tally is None else row_tally
        self._has_all_rows = row_tally is None and not options.has_parents  # a single listing has all rows
        self._request_sent = threading.Event()
        self._parser = PageParser(options.records, value_paths(options.paging))
        self._duplicate_check = DuplicateCheck(options, stack)
        self._edge_check = EdgeCheck.for_options(options, stack)
        selected_day = day if options.snapshot is None else None
        self._order_check = OrderCheck.for_records(options.records, selected_day)
        # A page that is requested ahead would lie beyond the day.
        self._looks_ahead = looks_ahead and self._order_check is None
        self._row_builder = RowBuilder(
            options.records,
            options.resolved_parent_columns,
            selected_day,
            seen_keys=stack.enter_context(KeySet()),
            tolerance=Tolerance(options.errors_tolerance, options.max_rejects),
            tally=self._row_tally,
            slices=self._parser.slices,
            duplicate_check=self._duplicate_check,
            order_check=self._order_check,
        )

    def note_absent_columns(self) -> None:
        """Count the columns whose field no record had."""
        self._row_builder.note_absent_columns()

    def require_present_columns(self) -> None:
        """Check that some record has each column's field. For parents, all of which each partition reads.

        :raises DataError: ``records.absent`` is ``fail``, and no record has the field of a column.
        """
        if names := self._row_builder.refused_columns():
            raise DataError(
                f"{self._options.stream}: no record of {self._day} has the field of column "
                f"{', '.join(map(repr, names))}, and records.absent='fail' refuses the day. Correct the place of the "
                "field in records.columns. If such days occur, set records.absent='warn'"
            )

    def batches(self, parent: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each page of a parent."""
        options = self._options
        self._duplicate_check.start_parent()
        if self._edge_check is not None:
            self._edge_check.start_parent()
        request = fill_request(options.request, self._day, options.bounds, parent)
        if accepted := _ACCEPTED.get(options.records.format):
            request = request._replace(headers=merge_headers({"Accept": accepted}, request.headers))
        pager: Pager | None = Pager(options.paging, request, options.stream)
        while pager is not None:
            yield from self._listing_batches(pager, parent)
            if self._is_past_day:
                return
            if (repeated := pager.restarted()) is not None:
                pager = repeated
                self._tally.counts["repeated_listings"] += 1
                yield from self._listing_batches(pager, parent, is_repeated=True)
                if self._is_past_day:
                    return
                if pager.restarted() is not None:
                    raise pager.doubtful_end_error()
            pager = pager.next_listing()

    @property
    def _is_past_day(self) -> bool:
        return self._order_check is not None and self._order_check.is_past_day

    def _listing_batches(
        self, pager: Pager, parent: Mapping[str, Any], *, is_repeated: bool = False
    ) -> Iterator[pa.RecordBatch]:
        if self._edge_check is not None:
            if is_repeated:
                self._edge_check.start_parent()
            self._edge_check.start_listing()
        if self._order_check is not None:
            self._order_check.start_listing()
        with ListingCheck.for_options(self._options, is_repeated=is_repeated) as listing:
            yield from self._announced_batches(pager, parent, listing)
            if not self._is_past_day:
                yield from self._batches_beyond_total(pager, parent, listing)
        if self._edge_check is not None:
            self._edge_check.end_listing(self._options.stream)

    def _announced_batches(
        self, pager: Pager, parent: Mapping[str, Any], listing: ListingCheck
    ) -> Iterator[pa.RecordBatch]:
        seen_rows = SeenRows()
        with self._open_pages(pager) as pages_read:
            for page in pages_read:
                self._request_sent.wait(_HEAD_START_SECONDS)
                if self._has_all_rows:
                    self._tally.announced_rows = pager.announced_records
                label, rows = page.label, self._rows(page, parent)
                del page
                seen_rows.require_new(None if rows is None else rows.fingerprint)
                if rows is not None:
                    self._check(listing, rows, label)
                    yield rows.batch
                if self._is_past_day:
                    return

    def _batches_beyond_total(
        self, pager: Pager, parent: Mapping[str, Any], listing: ListingCheck
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of pages after the announced total. Records that came twice fill the total before the end."""
        while (token := pager.token_beyond_total(listing.different_records)) is not None:
            page = self._page(pager, token)
            if page.facts is not None:
                pager.next_token(page.facts)
            if (rows := self._rows(page, parent)) is not None:
                self._check(listing, rows, page.label)
                yield rows.batch

    def _check(self, listing: ListingCheck, rows: PageRows, label: str) -> None:
        listing.add(rows, label)
        if self._edge_check is not None:
            self._edge_check.add(rows, label)

    def _rows(self, page: _Page, parent: Mapping[str, Any]) -> PageRows | None:
        self._tally.counts["pages"] += 1
        if page.is_ignored:
            self._row_tally.counts["ignored_parents"] += 1
        return None if page.parts is None else self._row_builder.build_rows(page.parts, parent, page.label)

    @contextmanager
    def _open_pages(self, pager: Pager) -> Iterator[Iterator[_Page]]:
        from xxhash import xxh3_128_digest

        paging = self._options.paging
        max_pages = None if isinstance(paging, Single) else paging.max_pages
        seen_rows = SeenRows()

        def fetch(token: str | None) -> _Page:
            return self._page(pager, token)

        def next_of(page: _Page) -> str | None:
            if page.parts is None or page.facts is None:
                return None
            # The row builder would notice a repeated page too, but only after the next request.
            seen_rows.require_new(xxh3_128_digest(page.parts.records_json) if page.parts.records else None)
            return pager.next_token(page.facts)

        pages_read = pages(fetch, next_of, max_pages=max_pages)
        if not self._looks_ahead or isinstance(paging, Single):
            self._request_sent.set()
            yield pages_read
            return
        prefetched = prefetch(self._announce_requests(pages_read), depth=0)
        try:
            yield prefetched
        except BaseException:
            self._api.close()  # the page being read is not needed any more
            raise
        finally:
            prefetched.close()

    def _announce_requests(self, pages_read: Iterator[_Page]) -> Iterator[_Page]:
        """Yield pages. Each request for the next page, and the end, set ``_request_sent``."""
        try:
            for page in pages_read:
                self._request_sent.clear()
                yield page
                del page
        finally:
            self._request_sent.set()

    def _page(self, pager: Pager, token: str | None) -> _Page:
        call = pager.call_for_page(token)
        reply = self._api.ask(call, self._tally, on_sent=self._request_sent.set)
        pager.note_tries(reply.tries)
        if reply.verdict == "ignored":
            pager.require_end(can_run_out=False)  # the earlier pages would be only a part of the parent's children
            return _Page(None, None, call.about, is_ignored=True)
        if reply.verdict == "empty":
            pager.require_end(can_run_out=True)
            return _Page(None, None, call.about)
        page_parts = self._parser.parse(reply.body, call.about, is_announced=pager.has_announced_page)
        last_path = last_record_path(self._options.paging)
        last = None if last_path is None else self._parser.value_in_last_record(page_parts, last_path)
        facts = PageFacts(page_parts.paged_count, page_parts.page_values, reply.headers, reply.url, last)
        return _Page(page_parts, facts, call.about)
