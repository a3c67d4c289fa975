"""Reads engage sessions into batches, several pages concurrently."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_connect.clients.http.asking.call import Call, Reply
from airflow_provider_connect.clients.http.client import form_body
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.patience import FROM_HALF, Patience, doubling_pauses
from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.keys import keys_as_hex, record_keys
from airflow_provider_connect.polling.prefetch import prefetch
from airflow_provider_connect.sources._mixpanel.columns import schema
from airflow_provider_connect.sources._mixpanel.promoted_values import PromotedColumns
from airflow_provider_connect.sources._mixpanel.query.engage_pages import (
    EngageSession,
    GoneError,
    PageReader,
    is_session_lost,
    session_lost_error,
)
from airflow_provider_connect.sources._mixpanel.records import RecordColumns
from airflow_provider_connect.sources._mixpanel.stream_definition import MixpanelStream
from airflow_provider_connect.stage.rejects import Tolerance
from airflow_provider_connect.values.json.typed import read_instants

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sources._mixpanel.client import MixpanelClient

ENGAGE_PATH = "/api/query/engage"

CONCURRENT_PAGES = 4
"""One less than a project's concurrent queries (https://developer.mixpanel.com/reference/rate-limits, 2026-11)."""

_PAGE_TRIES = 5
_PAGE_PAUSES = doubling_pauses(0.5, 8.0)
_LONGEST_WAIT_SECONDS = 60.0
_LAST_SEEN = "$last_seen"


class ProfileReader:
    """Reader of sessions, one after another. Drops profiles of earlier sessions."""

    def __init__(self, stream: MixpanelStream, client: MixpanelClient) -> None:
        options = client.options
        self._client = client
        self._tally = client.tally
        self._promoted = PromotedColumns(options.promoted, options.null_texts, self._count)
        is_cohort = stream.name == "cohort_members" or options.filter_by_cohort is not None
        self._reader = PageReader(client, (_LAST_SEEN, *options.promote), is_cohort=is_cohort)
        self._index = {name: index for index, name in enumerate(self._reader.field_names)}
        self._schema = schema(options.promoted, stream.columns)
        self._key, self._variant = stream.key, stream.variant(options)
        self._tolerance = Tolerance(options.errors_tolerance, options.max_rejects)
        self._keys = KeySet()

    def __enter__(self) -> Self:
        self._keys.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._keys.__exit__(*exc)

    def read_session(
        self, form: dict[str, str], subject: str = "", **constant_columns: int
    ) -> Iterator[pa.RecordBatch]:
        """Start a session and yield its rows.

        :param constant_columns: equal in all rows.
        :raises RetriableError: the session is lost or inconsistent.
        """
        page, results = self._reader.read_page(
            self._client.fetch(Call(ENGAGE_PATH, body=form_body(form), about=subject))
        )
        session = EngageSession(page)
        if not constant_columns:  # else there are more sessions
            self._tally.announced_rows = session.total
        yield from self._batches(results, constant_columns)
        del results
        with closing(self._later_pages(form, session)) as pages:
            for data in pages:
                page, results = self._reader.read_page(data)
                session.accept(page)
                yield from self._batches(results, constant_columns)

    def _later_pages(self, form: dict[str, str], session: EngageSession) -> Generator[bytes, None, None]:
        lane_count = min(CONCURRENT_PAGES, session.page_count - 1)
        with ExitStack() as stack:
            lanes = []
            for first in range(1, lane_count + 1):
                lane = prefetch(self._load_pages(form, session, range(first, session.page_count, lane_count)), depth=1)
                lanes.append(stack.enter_context(closing(lane)))
                next(lane)  # all begin at once: one that nobody has asked does nothing
            stack.callback(self._close_unless_complete, session)
            for number in range(1, session.page_count):
                yield next(lanes[(number - 1) % lane_count])

    def _load_pages(self, form: dict[str, str], session: EngageSession, numbers: range) -> Iterator[bytes]:
        yield b""  # what begins it, before its first page is wanted
        for number in numbers:
            yield self._page(form, session, number)

    def _close_unless_complete(self, session: EngageSession) -> None:
        if not session.is_complete:  # else closing a lane would wait until its page is there
            self._client.close()

    def _page(self, form: dict[str, str], session: EngageSession, number: int) -> bytes:
        call = Call(ENGAGE_PATH, body=form_body(form | {"session_id": session.id, "page": str(number)}))
        patience = Patience(pauses=_PAGE_PAUSES, jitter=FROM_HALF, tries=_PAGE_TRIES, clock=self._client.clock)

        def refusal(reply: Reply) -> GoneError | None:
            reason = f"no longer exists (status {reply.status})"
            return (
                session_lost_error(number, session.page_count, reason)
                if is_session_lost(reply.status, reply.text)
                else None
            )

        while True:
            try:  # only page 0 counts to the hour's queries
                return self._client.fetch(call, counts_to_limit=False, refusal_error=refusal)
            except RetriableError as error:
                wait = error.retry_after_seconds or 0.0
                if isinstance(error, GoneError) or wait > _LONGEST_WAIT_SECONDS or not patience.wait_and_retry(wait):
                    raise

    def _batches(self, results: list[Any], constant_columns: dict[str, int]) -> Iterator[pa.RecordBatch]:
        profiles = self._reader.read_profiles(results, self._tally.rows)
        self._tally.rows += len(results)
        self._tally.counts.update(profiles.notes)
        for reject in profiles.rejects:
            message = f"profile {reject.position} cannot be a row: {reject.reason}"
            self._tolerance.require(self._tally.counts["rejected"] + 1, message)
            self._tally.reject(reject)
        for records in profiles.records:
            yield self._batch(records, constant_columns)

    def _batch(self, records: RecordColumns, constant_columns: dict[str, int]) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        values = {name: records.field_values[index] for name, index in self._index.items()}
        columns: dict[str, pa.Array] = {
            name: pa.array(np.full(len(records), value, np.int64)) for name, value in constant_columns.items()
        }
        columns["distinct_id"] = records.events
        columns["last_seen"], unreadable = read_instants(values[_LAST_SEEN])
        self._count("last_seen_unreadable", unreadable)
        columns |= self._promoted.build(values, records)
        key_bytes = record_keys(self._variant, [columns[name] for name in self._key])
        columns["record_key"] = keys_as_hex(key_bytes)
        is_new = self._keys.add_keys(key_bytes)
        if "properties" in self._schema.names:
            columns["properties"] = records.properties_of_rows(np.arange(len(records)))
        batch = pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)
        self._count("duplicates", int((~is_new).sum()))
        return batch if is_new.all() else batch.filter(pa.array(is_new))

    def _count(self, name: str, number: int) -> None:
        if number:
            self._tally.counts[name] += number
