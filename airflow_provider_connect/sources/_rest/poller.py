"""Polls a declared API for a day, a snapshot or a share of the parents."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.capabilities.poller import CountsRows, LimitsPolls
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, QuotaError
from airflow_provider_connect.polling.counted import CountedApi, declared_quota
from airflow_provider_connect.polling.days import require_begun, require_over, require_recent
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, PollContext, Poller
from airflow_provider_connect.sources._rest.building.duplicates import DifferingRecordsError
from airflow_provider_connect.sources._rest.building.version_spool import latest_versions
from airflow_provider_connect.sources._rest.options import RestOptions
from airflow_provider_connect.sources._rest.page_reader import PageReader
from airflow_provider_connect.sources._rest.pages.page_parser import PageParser
from airflow_provider_connect.sources._rest.pages.page_values import whole_number
from airflow_provider_connect.sources._rest.pages.pager import Pager
from airflow_provider_connect.sources._rest.pages.paging import Single
from airflow_provider_connect.sources._rest.parents import ParentReader
from airflow_provider_connect.sources._rest.placeholders import fill_request, require_only_this_day
from airflow_provider_connect.sources._rest.records import row_schema
from airflow_provider_connect.stage.counts import VendorCount
from airflow_provider_connect.values.json.paths import MISSING
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST_PATIENCE_SECONDS = 300.0


def current_time() -> dt.datetime:
    """Return the current time. Tests replace this clock."""
    return dt.datetime.now(dt.UTC)


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
        for declaration in options.levels:
            if declaration.snapshot is None:
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
            reader = PageReader(options, day, api, stack=stack, tally=tally, looks_ahead=self._context.looks_ahead)
            parents = ParentReader(options, day, tally, stack, self._open_api).share(part.params["of"])
            batches = (batch for parent in parents for batch in reader.batches(parent))
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
