"""Polls a declared API for a day, a snapshot or a share of the parents."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_connect.capabilities.poller import CountsRows, LimitsPolls
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, QuotaError
from airflow_provider_connect.polling.counted import CountedApi, declared_quota
from airflow_provider_connect.polling.days import require_begun, require_over, require_recent
from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.paging import SeenRows, pages
from airflow_provider_connect.polling.prefetch import prefetch
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, PollContext, Poller
from airflow_provider_connect.sources._rest.building.duplicates import DifferingRecordsError, DuplicateCheck
from airflow_provider_connect.sources._rest.building.rows import PageRows, RowBuilder
from airflow_provider_connect.sources._rest.building.version_spool import latest_versions
from airflow_provider_connect.sources._rest.listing_check import EdgeCheck, ListingCheck
from airflow_provider_connect.sources._rest.options import RestOptions
from airflow_provider_connect.sources._rest.pages.page_parser import PageParser, PageParts
from airflow_provider_connect.sources._rest.pages.page_values import whole_number
from airflow_provider_connect.sources._rest.pages.pager import PageFacts, Pager, paging_value_paths
from airflow_provider_connect.sources._rest.pages.paging import Single, last_record_path
from airflow_provider_connect.sources._rest.parents import ParentFilter
from airflow_provider_connect.sources._rest.placeholders import fill_request, require_only_this_day
from airflow_provider_connect.sources._rest.records import RECORD_KEY, row_schema
from airflow_provider_connect.stage.counts import VendorCount
from airflow_provider_connect.stage.rejects import Tolerance
from airflow_provider_connect.values.json.paths import MISSING
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST_PATIENCE_SECONDS = 300.0
_HEAD_START_SECONDS = 0.02
"""Longest wait for the next request before a page is converted: conversion blocks the sending thread."""


def current_time() -> dt.datetime:
    """Return the current time. Tests replace this clock."""
    return dt.datetime.now(dt.UTC)


class _Page(NamedTuple):
    """One page. An answer that an error rule calls empty or ignored has no parts."""

    parts: PageParts | None
    facts: PageFacts | None
    label: str
    is_ignored: bool = False


class RestPoller(Poller, CountsRows, LimitsPolls):
    """Polls one stream. A day is one partition, or ``options.partitions`` with parents."""

    def __init__(self, options: RestOptions, connection: Connection, context: PollContext) -> None:
        self._context = context
        self._options = options
        self._connection = connection
        self._polled_again: set[int] = set()
        self.max_polls = None if options.limits is None else options.limits.max_processes

    def schema(self) -> pa.Schema:
        """Return the schema of the rows: columns, ``document`` if kept, and ``record_key``."""
        return row_schema(self._options.records, self._options.resolved_parent_columns)

    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        """Return the partitions of each day.

        :raises ConfigError: a day is in another zone or in the future, or the request cannot select exactly one day.
        :raises RetriableError: a day ends within the hour. For a snapshot, its day must only have begun.
        """
        day_shares = [(day, share_index) for day in days for share_index in range(self._options.partitions)]
        for day in days:
            self._require_day(day)
        return [
            InputPartition(days=(day,), index=index, params={"of": share_index})
            for index, (day, share_index) in enumerate(day_shares)
        ]

    def _require_day(self, day: Day) -> None:
        options = self._options
        if options.kind == "snapshot":
            require_begun(day, options.zone, current_time())
            return
        require_over(day, options.zone, current_time())
        if options.snapshot == "daily":
            require_recent(day, current_time(), "the API has")
        for declaration in (options, options.parent):
            if declaration is not None and declaration.snapshot is None:
                require_only_this_day(
                    declaration.request, day, declaration.bounds, drops_other_days=declaration.records.outside == "drop"
                )

    def count(self, day: Day, tally: Tally) -> VendorCount:
        """Return the API's own count of a day.

        :raises ConfigError: the declared location holds no whole number.
        """
        options, count = self._options, self._options.count
        assert count is not None, "count_problems() checks this"
        label = f"{options.stream}: the count of {day}"
        call = Pager(
            Single() if count.request else options.paging,
            fill_request(count.request or options.request, day, options.bounds, {}),
            label,
        ).call_for_page(None)
        with self._open_api(options) as api:
            reply = api.ask(call, tally)
        value: Any = MISSING
        if reply.verdict != "rows":
            value = 0
        elif count.header is not None:
            value = reply.headers.get(count.header.lower(), MISSING)
        elif count.at is not None:
            value = PageParser(options.records, [count.at]).parse_values(reply.body, label)[count.at]
        number = whole_number(value)
        if number is None:
            raise ConfigError(f"{label}: no whole number at {count.at or count.header!r}. Correct count")
        return VendorCount(number, is_least=count.is_least)

    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield the rows of a partition.

        :raises RetriableError: the pages contradict each other, or records of one key differ.
        :raises DataError: a record is invalid and not tolerated, or records of one key differ for the second time.
        """
        options, (day,) = self._options, part.days
        try:
            yield from self._rows(part, tally)
        except DifferingRecordsError as error:
            if part.index in self._polled_again:
                raise DataError(str(error)) from None
            self._polled_again.add(part.index)
            raise
        except QuotaError as error:
            raise _quota_ended(error, options, day, tally) from None

    def _rows(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        options, (day,) = self._options, part.days
        with ExitStack() as stack:
            api = stack.enter_context(self._open_api(options))
            reader = _PageReader(options, day, api, stack=stack, tally=tally, looks_ahead=self._context.looks_ahead)
            batches = (batch for parent in self._parents(stack, part, tally) for batch in reader.batches(parent))
            for batch in latest_versions(batches, options.records, tally):
                if batch.num_rows:
                    yield day, batch
            reader.note_absent_columns()

    def _open_api(self, options: RestOptions) -> CountedApi:
        own_options = self._options
        json_api = JsonApi(
            self._connection,
            errors=options.errors,
            limits=own_options.limits,
            share=self._context.polls_at_once or own_options.partitions * own_options.parallel_days,
            max_bytes=own_options.max_page_bytes,
            # The other half of the task's budget is for days that start again.
            patience_seconds=min(_LONGEST_PATIENCE_SECONDS, own_options.retry_budget_seconds / 2),
        )
        return CountedApi(json_api, declared_quota(own_options.limits, self._connection.conn_id))

    def _parents(self, stack: ExitStack, part: InputPartition, tally: Tally) -> Iterator[Mapping[str, Any]]:
        """Yield each parent of a partition once, page by page. Without parents, yield one empty mapping.

        Every partition reads all parent pages and keeps its share by hash of the key. So memory holds one page, and a
        parent stays in its share in each retry.
        """
        options = self._options
        parent = options.parent
        if parent is None:
            yield {}
            return
        (day,) = part.days
        parent_filter = ParentFilter(options)
        parent_tally = Tally(part.days)
        reader = _PageReader(
            parent, day, stack.enter_context(self._open_api(parent)), stack=stack, tally=tally, row_tally=parent_tally
        )
        for batch in latest_versions(reader.batches({}), parent.records, parent_tally):
            keys = batch.column(RECORD_KEY).to_pylist()
            for key, row in zip(keys, batch.select(parent_filter.columns).to_pylist(), strict=True):
                if int(key, 16) % options.partitions != part.params["of"]:
                    continue
                if (reason := parent_filter.skip_reason(row)) is not None:
                    tally.counts[reason] += 1
                    continue
                tally.counts["parents"] += 1
                yield row
        reader.require_present_columns()
        for name, count in parent_tally.counts.items():
            tally.counts[f"parent_{name}"] += count


def _quota_ended(error: QuotaError, options: RestOptions, day: Day, tally: Tally) -> ConnectError:
    pages = tally.counts["pages"]
    hourly = None if options.limits is None else options.limits.per_hour
    if hourly is not None and pages >= hourly:
        return ConfigError(
            f"{options.stream}: day {day} has more than {pages:,} pages, and limits.per_hour allows {hourly:,} "
            "requests, so no try could reach the last page. Request larger pages, or raise limits.per_hour if the "
            f"API allows more. The API's answer: {error}"
        )
    return QuotaError(
        str(error), said=error.said, retry_after_seconds=error.retry_after_seconds, needs=pages + 1 if pages else 0
    )


class _PageReader:
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
        self._has_all_rows = row_tally is None and options.parent is None  # a single listing has all rows
        self._looks_ahead = looks_ahead
        self._request_sent = threading.Event()
        self._parser = PageParser(options.records, paging_value_paths(options.paging))
        self._duplicate_check = DuplicateCheck(options, stack)
        self._edge_check = EdgeCheck.for_options(options, stack)
        self._row_builder = RowBuilder(
            options.records,
            options.resolved_parent_columns,
            day if options.snapshot is None else None,
            seen_keys=stack.enter_context(KeySet()),
            tolerance=Tolerance(options.errors_tolerance, options.max_rejects),
            tally=tally if row_tally is None else row_tally,
            slices=self._parser.slices,
            duplicate_check=self._duplicate_check,
        )

    def note_absent_columns(self) -> None:
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
        pager: Pager | None = Pager(
            options.paging, fill_request(options.request, self._day, options.bounds, parent), options.stream
        )
        while pager is not None:
            yield from self._listing_batches(pager, parent)
            if (repeated := pager.restarted()) is not None:
                pager = repeated
                self._tally.counts["repeated_listings"] += 1
                yield from self._listing_batches(pager, parent, is_repeated=True)
                if pager.restarted() is not None:
                    raise pager.doubtful_end_error()
            pager = pager.next_listing()

    def _listing_batches(
        self, pager: Pager, parent: Mapping[str, Any], *, is_repeated: bool = False
    ) -> Iterator[pa.RecordBatch]:
        if self._edge_check is not None:
            if is_repeated:
                self._edge_check.start_parent()
            self._edge_check.start_listing()
        with ListingCheck.for_options(self._options, is_repeated=is_repeated) as listing:
            yield from self._announced_batches(pager, parent, listing)
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
            self._tally.counts["ignored_parents"] += 1
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
