"""One poll of Mixpanel's export: ask, decode, read, and end only where the end was seen."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.http.client import Answer, excerpt, get
from airflow_provider_connect.clients.http.link import Limits
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.inflate import gunzip
from airflow_provider_connect.polling.jsonlines import LineTooLongError, blocks
from airflow_provider_connect.polling.prefetch import prefetch
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition
from airflow_provider_connect.sources._mixpanel.access import Access, refusal
from airflow_provider_connect.sources._mixpanel.export import ExportReader, Tolerance
from airflow_provider_connect.sources._mixpanel.records import ErrorDocumentError, RecordReader
from airflow_provider_connect.sources._mixpanel.rows import RowMaker, RowOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sources.mixpanel import MixpanelSource

_EXPORT_PATH = "/api/2.0/export"
_BLOCKS_AHEAD = 1


def poll_day(
    source: MixpanelSource,
    part: InputPartition,
    connection: Connection,
    tally: Tally,
    *,
    now: Callable[[], dt.datetime],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a day; see :meth:`MixpanelSource.poll`."""
    access = Access.of(connection)
    reader = RecordReader(tuple(source.promote))
    with _ask(source, part, access, tally, now) as answer, KeySet() as keys:
        rows = RowMaker(_row_options(source, part), reader.names, keys, tally)
        tolerance = Tolerance(source.errors_tolerance, source.max_rejects, source.max_record_bytes)
        export = ExportReader(reader, rows, tolerance, tally)
        lines = prefetch(blocks(_decoded(answer, access, tally), source.max_record_bytes), depth=_BLOCKS_AHEAD)
        try:
            for block in lines:
                yield from export.read(block)
            export.end()
        except LineTooLongError:
            if tally.rows == 0:
                raise export.not_an_export() from None
            raise
        except ErrorDocumentError as error:
            raise refusal(answer.status, str(error), access, now=now(), seen=export.seen()) from None
        finally:
            answer.interrupt()  # else an early end would wait for the bytes that the thread waits for
            lines.close()


def _row_options(source: MixpanelSource, part: InputPartition) -> RowOptions:
    return RowOptions(
        regime=part.params["timestamps"],
        zone=source.project_timezone,
        day=part.day,
        only_day=part.params["from_date"] != part.params["to_date"],
        deduplicate=source.deduplicate,
        promote=source.promoted,
    )


def _ask(
    source: MixpanelSource, part: InputPartition, access: Access, tally: Tally, now: Callable[[], dt.datetime]
) -> Answer:
    params = {"from_date": part.params["from_date"], "to_date": part.params["to_date"]}
    if access.project_id is not None:
        params["project_id"] = access.project_id
    if source.event is not None:
        params["event"] = json.dumps(source.event, ensure_ascii=False)
    if source.where is not None:
        params["where"] = source.where
    limits = Limits(
        connect_timeout_seconds=source.connect_timeout_seconds,
        read_timeout_seconds=source.read_timeout_seconds,
        deadline_seconds=source.request_deadline_seconds,
    )
    answer = get(
        access.url + _EXPORT_PATH,
        params,
        access.auth,
        limits,
        proxy=access.proxy,
        ca_bundle=access.ca_bundle,
        sent=tally.request,
    )
    if answer.status != 200:
        with answer:
            said, retry_after = answer.text(), answer.header("Retry-After")
            raise refusal(answer.status, said.text, access, retry_after=retry_after, now=now(), is_cut=said.is_cut)
    return answer


def _decoded(answer: Answer, access: Access, tally: Tally) -> Iterator[bytes]:
    """Yield the export's bytes.

    :raises RetriableError: if the answer is no export by its head, or is cut.
    """
    kind = answer.header("Content-Type").partition(";")[0].strip().lower()
    if kind == "text/html":
        raise RetriableError(
            f"the answer is not an export: {answer.host} sent a web page with status 200; a proxy or a login page may "
            "stand between"
        )
    answer.require_framing()
    encoding = answer.header("Content-Encoding").strip().lower()
    if encoding not in ("", "identity", "gzip"):
        shown = excerpt(answer.header("Content-Encoding"), access.secrets)[:20]
        raise RetriableError(f"{answer.host} sent Content-Encoding {shown!r}; only gzip was asked for")
    wire = _counted(answer, tally)
    return gunzip(wire) if encoding == "gzip" else wire


def _counted(answer: Answer, tally: Tally) -> Iterator[bytes]:
    for chunk in answer.chunks():
        tally.wire_bytes += len(chunk)
        yield chunk
