"""Reads the pages of engage sessions, some at once, into batches of rows."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_connect.clients.http.asking.call import Call, Reply
from airflow_provider_connect.clients.http.client import form_body
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.patience import FROM_HALF, Patience, doubling
from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.keys import as_hex, keys
from airflow_provider_connect.polling.prefetch import prefetch
from airflow_provider_connect.sources._mixpanel.columns import schema
from airflow_provider_connect.sources._mixpanel.query.pages import GoneError, PageReader, Session, gone, is_gone
from airflow_provider_connect.sources._mixpanel.records import Records
from airflow_provider_connect.sources._mixpanel.stream import Stream
from airflow_provider_connect.sources._mixpanel.typed import PromotedColumns
from airflow_provider_connect.stage.rejects import Tolerance
from airflow_provider_connect.values.json.typed import instants

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sources._mixpanel.asking import Asking

PATH = "/api/query/engage"

PAGES_AT_ONCE = 4
"""One less than the queries that a project may run at once (https://developer.mixpanel.com/reference/rate-limits,
2026-11), so that somebody else may ask meanwhile."""

_PAGE_TRIES = 5
_PAGE_PAUSES = doubling(0.5, 8.0)
_LONGEST_WAIT_SECONDS = 60.0
_LAST_SEEN = "$last_seen"


class Profiling:
    """Reads sessions one after the other; a profile that came before, in any of them, is dropped."""

    def __init__(self, stream: Stream, there: Asking) -> None:
        options = there.options
        self._there = there
        self._tally = there.tally
        self._promoted = PromotedColumns(options.promoted, options.null_texts, self._count)
        of_cohort = stream.name == "cohort_members" or options.filter_by_cohort is not None
        self._reader = PageReader(there, (_LAST_SEEN, *options.promote), of_cohort=of_cohort)
        self._index = {name: at for at, name in enumerate(self._reader.names)}
        self._schema = schema(options.promoted, stream.columns)
        self._key, self._variant = stream.key, stream.variant(options)
        self._tolerance = Tolerance(options.errors_tolerance, options.max_rejects)
        self._keys = KeySet()

    def __enter__(self) -> Self:
        self._keys.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._keys.__exit__(*exc)

    def read(self, form: dict[str, str], about: str = "", **constant: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one session, which begins here.

        :param form: what is asked for.
        :param about: the cohort that is asked for, for the message of a refusal; "" for none.
        :param constant: columns that have the same value in every row.
        :raises RetriableError: the session is lost, or its pages do not fit together.
        """
        page, results = self._reader.read(self._there.whole(Call(PATH, body=form_body(form), about=about)))
        session = Session(page)
        if not constant:  # else there are more sessions
            self._tally.announced_rows = session.total
        yield from self._batches(results, constant)
        del results
        with closing(self._later_pages(form, session)) as pages:
            for data in pages:
                page, results = self._reader.read(data)
                session.take(page)
                yield from self._batches(results, constant)

    def _later_pages(self, form: dict[str, str], session: Session) -> Generator[bytes, None, None]:
        """Yield the pages after the first, in order, while the next ones are on their way."""
        lanes = min(PAGES_AT_ONCE, session.pages - 1)
        with ExitStack() as stack:
            running = []
            for first in range(1, lanes + 1):
                lane = prefetch(self._lane(form, session, range(first, session.pages, lanes)), depth=1)
                running.append(stack.enter_context(closing(lane)))
                next(lane)  # all begin at once: one that nobody has asked does nothing
            stack.callback(self._unless_whole, session)
            for number in range(1, session.pages):
                yield next(running[(number - 1) % lanes])

    def _lane(self, form: dict[str, str], session: Session, numbers: range) -> Iterator[bytes]:
        yield b""  # what begins it, before its first page is wanted
        for number in numbers:
            yield self._page(form, session, number)

    def _unless_whole(self, session: Session) -> None:
        if not session.is_whole:  # else closing a lane would wait until its page is there
            self._there.close()

    def _page(self, form: dict[str, str], session: Session, number: int) -> bytes:
        """Return a later page. One that does not come is asked for again: its session is still there."""
        asked = Call(PATH, body=form_body(form | {"session_id": session.id, "page": str(number)}))
        patience = Patience(pauses=_PAGE_PAUSES, jitter=FROM_HALF, tries=_PAGE_TRIES, clock=self._there.clock)

        def refusal(reply: Reply) -> GoneError | None:
            lost = f"is no longer there (status {reply.status})"
            return gone(number, session.pages, lost) if is_gone(reply.status, reply.text) else None

        while True:
            try:  # only page 0 counts to the hour's queries
                return self._there.whole(asked, is_counted=False, refusal=refusal)
            except RetriableError as error:
                wait = error.retry_after_seconds or 0.0
                if isinstance(error, GoneError) or wait > _LONGEST_WAIT_SECONDS or not patience.again(wait):
                    raise

    def _batches(self, results: list[Any], constant: dict[str, int]) -> Iterator[pa.RecordBatch]:
        found = self._reader.profiles(results, self._tally.rows)
        self._tally.rows += len(results)
        self._tally.counts.update(found.notes)
        for reject in found.rejects:
            where = f"profile {reject.position} of those read is no row: {reject.reason}"
            self._tolerance.require(self._tally.counts["rejected"] + 1, where)
            self._tally.reject(reject)
        for records in found.records:
            yield self._batch(records, constant)

    def _batch(self, records: Records, constant: dict[str, int]) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        values = {name: records.values[at] for name, at in self._index.items()}
        columns: dict[str, pa.Array] = {
            name: pa.array(np.full(len(records), value, np.int64)) for name, value in constant.items()
        }
        columns["distinct_id"] = records.event
        columns["last_seen"], unreadable = instants(values[_LAST_SEEN])
        self._count("last_seen_unreadable", unreadable)
        columns |= self._promoted.of(values, records)
        key_bytes = keys(self._variant, [columns[name] for name in self._key])
        columns["record_key"] = as_hex(key_bytes)
        is_new = self._keys.add_keys(key_bytes)
        if "properties" in self._schema.names:
            columns["properties"] = records.properties(np.arange(len(records)))
        batch = pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)
        self._count("duplicates", int((~is_new).sum()))
        return batch if is_new.all() else batch.filter(pa.array(is_new))

    def _count(self, name: str, number: int) -> None:
        if number:
            self._tally.counts[name] += number
