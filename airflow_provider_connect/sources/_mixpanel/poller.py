"""Pollers of the export, the Query API and the App API."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from airflow_provider_connect.capabilities.poller import (
    AcceptsParts,
    CountsRows,
    SeveralDaysARequest,
    Sizes,
    Splits,
    Together,
)
from airflow_provider_connect.clients.http.client import HttpResponse, excerpt
from airflow_provider_connect.clients.http.http_connection import SilenceError
from airflow_provider_connect.clients.http.inflate import gunzip
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import DeadlineError, RetriableError
from airflow_provider_connect.polling.days import require_begun, require_over
from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.jsonlines import LineTooLongError, blocks
from airflow_provider_connect.polling.prefetch import prefetch
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, Poller
from airflow_provider_connect.sources._mixpanel import client
from airflow_provider_connect.sources._mixpanel.access import MixpanelAccess
from airflow_provider_connect.sources._mixpanel.columns import Regime, schema
from airflow_provider_connect.sources._mixpanel.day_cutter import row_maker_for
from airflow_provider_connect.sources._mixpanel.export_reader import ExportReader
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.query.segmentation import (
    count_events,
    count_events_by_hour,
    fetch_frequent_events,
)
from airflow_provider_connect.sources._mixpanel.records import ErrorDocumentError, RecordReader
from airflow_provider_connect.sources._mixpanel.refusals import refusal_error
from airflow_provider_connect.sources._mixpanel.request_planning import choose_days_together, max_days_per_request
from airflow_provider_connect.sources._mixpanel.splitting import find_cut_times, join_expressions, part_conditions
from airflow_provider_connect.sources._mixpanel.stream_definition import MixpanelStream
from airflow_provider_connect.stage.counts import VendorCount
from airflow_provider_connect.stage.rejects import Tolerance
from airflow_provider_connect.window import Day, group_days

if TYPE_CHECKING:
    import pyarrow as pa

_EXPORT_PATH = "/api/2.0/export"
_BLOCKS_AHEAD = 1


class ExportPoller(Poller, SeveralDaysARequest, CountsRows, Splits, AcceptsParts):
    """Poller of the raw export: consecutive days in one request, or a large day in several."""

    def __init__(self, options: MixpanelOptions, connection: Connection) -> None:
        self._options = options
        self._connection = connection
        self.days_per_plan = max_days_per_request(options)
        self._events: list[str] | None = None
        self._hours: dict[Day, Mapping[str, int]] = {}
        self._more_than: dict[Day, int] = {}

    def schema(self) -> pa.Schema:
        return schema(self._options.promoted)

    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        """Return one partition for each request: up to ``days_per_request`` days, or a part of a large day.

        :raises ConnectError: as :meth:`.Poller.plan`.
        """
        regime = self._options.require_regime(self._connection)
        for day in days:
            require_over(day, self._options.zone, client.current_time())
        groups_of_days = group_days(days, self.days_per_plan)
        requests = [(group, params) for group in groups_of_days for params in self._requests(group, regime)]
        return [
            InputPartition(days=group, index=index, params=params) for index, (group, params) in enumerate(requests)
        ]

    def days_together(self, days: Sequence[Day], sizes: Sizes) -> Together:
        return choose_days_together(self._options, days, sizes)

    def _requests(self, days: Sequence[Day], regime: Regime) -> list[dict[str, str]]:
        first, last = days[0].date, days[-1].date
        if regime == "utc":
            first, last = days[0].start.date(), (days[-1].end - dt.timedelta(microseconds=1)).date()
        params = {"from_date": first.isoformat(), "to_date": last.isoformat(), "timestamps": regime}
        if not self._is_split(days[0]):
            return [params]
        (day,) = days  # the options allow no more
        if day not in self._hours:  # who plans without a job has counted nothing
            self.count(day, Tally())
        cuts = find_cut_times(day, regime, self._hours[day], self._options.split_rows, self._more_than.get(day, 0))
        return [params | {"condition": condition} for condition in part_conditions(cuts)] or [params]

    def _is_split(self, day: Day) -> bool:
        return self._options.split_rows is not None or day in self._more_than

    def split(self, day: Day, more_than: int) -> None:
        """Let :meth:`plan` split a day into more than ``more_than`` exports, at most one an hour. 0 undoes this."""
        self._more_than.pop(day, None)
        if more_than:
            self._more_than[day] = more_than

    def count(self, day: Day, tally: Tally) -> VendorCount:
        """Return Mixpanel's count of a day's events in the project's zone, without duplicates.

        Without the option ``event`` a lower bound: only the most frequent names of the last 31 days count.

        :raises ConnectError: as :meth:`.MixpanelClient.fetch`.
        """
        options = self._options
        require_over(day, options.zone, client.current_time())
        access = MixpanelAccess.from_connection(self._connection, "query")
        with closing(client.MixpanelClient(options, access, day, tally)) as api_client:
            names = options.event or self._events
            if names is None:
                names = self._events = fetch_frequent_events(api_client)
            names, expression = list(dict.fromkeys(names)), options.where_expression
            if not self._is_split(day):
                rows = sum(count_events(api_client, names, expression).values())
            else:
                hours = self._hours[day] = count_events_by_hour(api_client, names, expression)
                rows = hours.total()
        return VendorCount(rows, is_least=options.event is None or options.deduplicate == "off")

    def accept(self, day: Day, counts: Mapping[str, int]) -> None:
        """Apply ``max_rejects`` to all exports of a split day together."""
        options = self._options
        tolerance = Tolerance(options.errors_tolerance, options.max_rejects)
        tolerance.require(counts.get("rejected", 0), f"day {day}: its exports contain lines that are not records")

    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield the rows of one request in batches with their days.

        :raises ConnectError: as :meth:`.Poller.poll`. RetriableError also if the answer is not an export.
        """
        try:
            yield from self._poll(part, tally)
        except SilenceError as error:
            # A large export is prepared for minutes before its first byte is sent
            # (https://github.com/keolo/mixpanel_client/issues/49), so the same request would be as silent next time.
            raise DeadlineError(f"{error}: Mixpanel prepares large exports for minutes") from None

    def _poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        options = self._options
        access = MixpanelAccess.from_connection(self._connection)
        reader = RecordReader(tuple(options.promote))
        with _send_export_request(options, part, access, tally) as answer, KeySet() as keys:
            rows = row_maker_for(part, options, reader.field_names, keys, tally)
            tolerance = Tolerance(options.errors_tolerance, options.max_rejects)
            stray_tally = tally.for_day(part.days[0])
            export = ExportReader(reader, rows, tolerance, tally, options.max_record_bytes, stray_tally=stray_tally)
            lines = prefetch(blocks(_decompress(answer, access, tally), options.max_record_bytes), depth=_BLOCKS_AHEAD)
            try:
                for block in lines:
                    yield from export.read_block(block)
                export.finish()
            except LineTooLongError:
                if tally.rows_of_all_days == 0:
                    raise export.not_an_export_error() from None
                raise
            except ErrorDocumentError as error:
                raise refusal_error(
                    answer.status, str(error), access, now=client.current_time(), progress=export.progress_text()
                ) from None
            finally:
                answer.interrupt()  # else close() would wait until the thread gets its next bytes
                lines.close()


def _send_export_request(
    options: MixpanelOptions, partition: InputPartition, access: MixpanelAccess, tally: Tally
) -> HttpResponse:
    params = {"from_date": partition.params["from_date"], "to_date": partition.params["to_date"]}
    if access.project_id is not None:
        params["project_id"] = access.project_id
    if options.event is not None:
        params["event"] = json.dumps(options.event, ensure_ascii=False)
    expression = join_expressions(options.where_expression, partition.params.get("condition"))
    if expression is not None:
        params["where"] = expression
    if "limit" in partition.params:  # of a sample
        params["limit"] = partition.params["limit"]
    answer = access.request(_EXPORT_PATH, params, options.timeouts, tally.request)
    if answer.status != 200:
        with answer:
            body, retry_after = answer.text(), answer.header("Retry-After")
            raise refusal_error(
                answer.status, body.text, access, retry_after=retry_after, now=client.current_time(), is_cut=body.is_cut
            )
    return answer


def _decompress(answer: HttpResponse, access: MixpanelAccess, tally: Tally) -> Iterator[bytes]:
    content_type = answer.header("Content-Type").partition(";")[0].strip().lower()
    if content_type == "text/html":
        raise RetriableError(
            f"the answer is not an export: {answer.host} sent a web page with status 200. It may come from "
            "a proxy or a login page"
        )
    answer.require_framing()
    encoding = answer.header("Content-Encoding").strip().lower()
    if encoding not in ("", "identity", "gzip"):
        encoding_text = excerpt(answer.header("Content-Encoding"), access.secrets)[:20]
        raise RetriableError(f"{answer.host} sent Content-Encoding {encoding_text!r}, but only gzip was requested")
    compressed = _count_bytes(answer, tally)
    return gunzip(compressed) if encoding == "gzip" else compressed


def _count_bytes(answer: HttpResponse, tally: Tally) -> Iterator[bytes]:
    length = answer.header("Content-Length")
    tally.announced_bytes = int(length) if length.isdecimal() else 0
    for chunk in answer.chunks():
        tally.wire_bytes += len(chunk)
        yield chunk


class QueryPoller(Poller):
    """Poller of the Query or App API. Each day or snapshot is one partition."""

    def __init__(self, stream: MixpanelStream, options: MixpanelOptions, connection: Connection) -> None:
        self._stream = stream
        self._options = options
        self._connection = connection

    def schema(self) -> pa.Schema:
        return schema(self._options.promoted, self._stream.columns)

    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        return [self._partition(index, day) for index, day in enumerate(days)]

    def _partition(self, index: int, day: Day) -> InputPartition:
        zone = self._options.zone
        if self._stream.kind == "day":
            require_over(day, zone, client.current_time())
        else:
            require_begun(day, zone, client.current_time())
        return InputPartition(days=(day,), index=index)

    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        (day,) = part.days
        read = self._stream.read_batches
        assert read is not None, "the export has a poller of its own"
        access = MixpanelAccess.from_connection(self._connection, self._stream.api)
        with closing(client.MixpanelClient(self._options, access, day, tally)) as api_client:
            for batch in read(self._stream, api_client):
                if batch.num_rows:
                    yield day, batch
