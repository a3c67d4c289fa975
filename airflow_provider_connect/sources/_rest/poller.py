"""Polls a declared API: pages to rows, for a day, a snapshot, or the parents of a partition, whole or not at all."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_connect.capabilities.poller import CountsRows
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, QuotaError
from airflow_provider_connect.polling.counted import CountedApi, declared_quota
from airflow_provider_connect.polling.days import require_begun, require_over, require_recent
from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.paging import SeenRows, pages
from airflow_provider_connect.polling.prefetch import prefetch
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, PollContext, Poller
from airflow_provider_connect.sources._rest.options import RestOptions
from airflow_provider_connect.sources._rest.page_parser import PageParts, PageParser
from airflow_provider_connect.sources._rest.pager import PageFacts, Pager, paging_value_paths, whole_number
from airflow_provider_connect.sources._rest.paging import Single, last_record_place
from airflow_provider_connect.sources._rest.placeholders import fill_request, requested_parent_columns, require_only_this_day
from airflow_provider_connect.sources._rest.records import RECORD_KEY, row_schema
from airflow_provider_connect.sources._rest.rows import RowBuilder, PageRows, SiblingCheck
from airflow_provider_connect.stage.counts import VendorCount
from airflow_provider_connect.stage.rejects import Tolerance
from airflow_provider_connect.values.json.paths import MISSING
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST_PATIENCE_SECONDS = 300.0
_HEAD_START_SECONDS = 0.02
"""How long a page waits at the most for the request of the next one: its rows keep the interpreter busy."""


def now() -> dt.datetime:
    """Return the present instant; tests replace this clock."""
    return dt.datetime.now(dt.UTC)


class _Page(NamedTuple):
    """A page without rows has no cut, and is the last one; ``is_ignored`` by a declared rule."""

    cut: PageParts | None
    facts: PageFacts | None
    about: str
    is_ignored: bool = False


class RestPoller(Poller, CountsRows):
    """Polls one stream. A day is one partition, or, with parents, as many as are declared."""

    def __init__(self, options: RestOptions, connection: Connection, context: PollContext) -> None:
        self._context = context
        self._options = options
        self._connection = connection

    def schema(self) -> pa.Schema:
        """Return the schema of the rows: the declared columns, and ours."""
        return row_schema(self._options.records, self._options.resolved_parent_columns)

    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        """Return one partition for each day; with parents as many as ``partitions`` says.

        :raises ConfigError: if a day is another zone's or lies ahead, or the API cannot be asked for it alone.
        :raises RetriableError: if a day ends within the hour; a snapshot may be taken while its day lasts.
        """
        wanted = [(day, of) for day in days for of in range(self._options.partitions)]
        for day in days:
            self._require_day(day)
        return [InputPartition(days=(day,), index=index, params={"of": of}) for index, (day, of) in enumerate(wanted)]

    def _require_day(self, day: Day) -> None:
        options = self._options
        if options.kind == "snapshot":
            require_begun(day, options.zone, now())
            return
        require_over(day, options.zone, now())
        if options.snapshot == "daily":
            require_recent(day, now(), "the API has")
        for one in (options, options.parent):
            if one is not None and one.snapshot is None:
                require_only_this_day(one.request, day, one.bounds, drops_other_days=one.records.outside == "drop")

    def count(self, day: Day, tally: Tally) -> VendorCount:
        """Return how many records the API says that a day has.

        :raises ConfigError: it does not say so where it is declared.
        :raises RetriableError: it is away, in trouble or busy.
        """
        options, count = self._options, self._options.count
        assert count is not None, "count_problems() says so"
        about = f"{options.stream}: the count of {day}"
        call = Pager(
            Single() if count.request else options.paging,
            fill_request(count.request or options.request, day, options.bounds, {}),
            about,
        ).call_for_page(None)
        with self._asker(options) as asker:
            reply = asker.ask(call, tally)
        told: Any = MISSING
        if reply.verdict != "rows":
            told = 0
        elif count.header is not None:
            told = reply.headers.get(count.header.lower(), MISSING)
        elif count.at is not None:
            told = PageParser(options.records, [count.at]).parse_values(reply.body, about)[count.at]
        number = whole_number(told)
        if number is None:
            raise ConfigError(f"{about}: there is no whole number at {count.at or count.header!r}: correct count")
        return VendorCount(number, is_least=count.is_least)

    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield the rows of a day, of a snapshot taken now, or of those parents that are this partition's.

        :raises RetriableError: if the API is away, in trouble or busy, or pages do not fit together.
        :raises ConfigError: if credentials, rights or the declaration are wrong.
        :raises DataError: if what came is bad, and not tolerated.
        """
        options, (day,) = self._options, part.days
        try:
            yield from self._rows(part, tally)
        except QuotaError as error:
            raise _ran_out(error, options, day, tally) from None

    def _rows(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        options, (day,) = self._options, part.days
        with ExitStack() as stack:
            asker = stack.enter_context(self._asker(options))
            reading = _Reading(options, day, asker, stack=stack, tally=tally, looks_ahead=self._context.looks_ahead)
            for parent in self._parents(stack, part, tally):
                for batch in reading.batches(parent):
                    if batch.num_rows:
                        yield day, batch

    def _asker(self, options: RestOptions) -> CountedApi:
        mine = self._options
        api = JsonApi(
            self._connection,
            errors=options.errors,
            limits=mine.limits,
            share=self._context.polls_at_once or mine.partitions * mine.parallel_days,
            max_bytes=mine.max_page_bytes,
            # The rest of the task's budget is for days that begin again.
            patience_seconds=min(_LONGEST_PATIENCE_SECONDS, mine.retry_budget_seconds / 2),
        )
        return CountedApi(api, declared_quota(mine.limits, self._connection.conn_id))

    def _parents(self, stack: ExitStack, part: InputPartition, tally: Tally) -> Iterator[Mapping[str, Any]]:
        """Yield the parents of a partition as their pages come, each once; without a parent, nothing in its place.

        Every partition reads the parents' pages, and takes its share by their keys: so nobody holds them all, a retry
        finds the same share, and a parent that moves from page to page meanwhile is in one share only.
        """
        options = self._options
        parent = options.parent
        if parent is None:
            yield {}
            return
        (day,) = part.days
        wanted = sorted(requested_parent_columns(options.request) | {one.parent_name for one in options.resolved_parent_columns})
        own = Tally(part.days)
        reading = _Reading(parent, day, stack.enter_context(self._asker(parent)), stack=stack, tally=tally, rows_to=own)
        for batch in reading.batches({}):
            keys = batch.column(RECORD_KEY).to_pylist()
            for key, row in zip(keys, batch.select(wanted).to_pylist(), strict=True):
                if int(key, 16) % options.partitions == part.params["of"]:
                    tally.counts["parents"] += 1
                    yield row
        for name, count in own.counts.items():
            tally.counts[f"parent_{name}"] += count


def _ran_out(error: QuotaError, options: RestOptions, day: Day, tally: Tally) -> ConnectError:
    """Return the error of a poll whose quota ended half way. The next try begins again at the first page."""
    pages = tally.counts["pages"]
    hourly = None if options.limits is None else options.limits.per_hour
    if hourly is not None and pages >= hourly:
        return ConfigError(
            f"{options.stream}: day {day} has more than {pages:,} pages, and limits.per_hour allows {hourly:,} "
            "requests: each try would begin at the first page and never come to the last. Ask for larger pages, or "
            f"raise limits.per_hour if the API allows more. The API said: {error}"
        )
    return QuotaError(
        str(error), said=error.said, retry_after_seconds=error.retry_after_seconds, needs=pages + 1 if pages else 0
    )


class _Reading:
    """Reads all pages of one source, for one parent after the other.

    :param tally: counts bytes, requests and pages.
    :param rows_to: counts rows and what is dropped of them; by default the same.
    :param looks_ahead: whether a page is asked for, in a thread, while rows are made of the one before it.
    """

    def __init__(
        self,
        options: RestOptions,
        day: Day,
        asker: CountedApi,
        *,
        stack: ExitStack,
        tally: Tally,
        rows_to: Tally | None = None,
        looks_ahead: bool = False,
    ) -> None:
        self._options = options
        self._day = day
        self._asker = asker
        self._tally = tally
        self._is_all = rows_to is None and options.parent is None  # one listing has all rows
        self._looks_ahead = looks_ahead
        self._under_way = threading.Event()
        self._cutter = PageParser(options.records, paging_value_paths(options.paging))
        self._siblings = SiblingCheck.for_options(options, stack)
        self._maker = RowBuilder(
            options.records,
            options.resolved_parent_columns,
            day if options.snapshot is None else None,
            seen_keys=stack.enter_context(KeySet()),
            tolerance=Tolerance(options.errors_tolerance, options.max_rejects),
            tally=tally if rows_to is None else rows_to,
            slices=self._cutter.slices,
            sibling_check=self._siblings,
        )

    def batches(self, parent: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each page.

        :raises RetriableError: the pages come to no end, or not to the one that is declared.
        """
        options = self._options
        if self._siblings is not None:
            self._siblings.start_parent()
        walk: Pager | None = Pager(
            options.paging, fill_request(options.request, self._day, options.bounds, parent), options.stream
        )
        while walk is not None:
            yield from self._listed(walk, parent)
            walk = walk.next_listing()

    def _listed(self, walk: Pager, parent: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        marks = SeenRows()
        with self._read(walk) as read:
            for page in read:
                self._under_way.wait(_HEAD_START_SECONDS)
                if self._is_all:
                    self._tally.announced_rows = walk.announced_records
                rows = self._rows(page, parent)
                del page
                marks.require_new(None if rows is None else rows.fingerprint)
                if rows is not None:
                    yield rows.batch

    def _rows(self, page: _Page, parent: Mapping[str, Any]) -> PageRows | None:
        self._tally.counts["pages"] += 1
        if page.is_ignored:
            self._tally.counts["ignored_parents"] += 1
        return None if page.cut is None else self._maker.build_rows(page.cut, parent, page.about)

    @contextmanager
    def _read(self, walk: Pager) -> Iterator[Iterator[_Page]]:
        """Let the block have the pages, each while the next one is asked for, where there may be one."""
        from xxhash import xxh3_128_digest

        paging = self._options.paging
        most = None if isinstance(paging, Single) else paging.max_pages
        seen = SeenRows()

        def fetch(token: str | None) -> _Page:
            return self._page(walk, token)

        def next_of(page: _Page) -> str | None:
            if page.cut is None or page.facts is None:
                return None
            # Whoever makes rows of the page finds out, too; until then the next one would have been asked for.
            seen.require_new(xxh3_128_digest(page.cut.records_json) if page.cut.records else None)
            return walk.next_token(page.facts)

        read = pages(fetch, next_of, max_pages=most)
        if not self._looks_ahead or isinstance(paging, Single):
            self._under_way.set()
            yield read
            return
        ahead = prefetch(self._telling(read), depth=0)
        try:
            yield ahead
        except BaseException:
            self._asker.close()  # nobody waits for the page that is being read
            raise
        finally:
            ahead.close()

    def _telling(self, read: Iterator[_Page]) -> Iterator[_Page]:
        """Yield pages, and set the event when the next one is asked for, or there is none."""
        try:
            for page in read:
                self._under_way.clear()
                yield page
                del page
        finally:
            self._under_way.set()

    def _page(self, walk: Pager, token: str | None) -> _Page:
        call = walk.call_for_page(token)
        reply = self._asker.ask(call, self._tally, on_sent=self._under_way.set)
        if reply.verdict == "ignored":
            walk.require_end(can_run_out=False)  # what came before it would be half of the parent's children
            return _Page(None, None, call.about, is_ignored=True)
        if reply.verdict == "empty":
            walk.require_end(can_run_out=True)
            return _Page(None, None, call.about)
        cut = self._cutter.parse(reply.body, call.about)
        place = last_record_place(self._options.paging)
        last = None if place is None else self._cutter.value_in_last_record(cut, place)
        facts = PageFacts(len(cut.records), cut.page_values, reply.headers, reply.url, last)
        return _Page(cut, facts, call.about)
