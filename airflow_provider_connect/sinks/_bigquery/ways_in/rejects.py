"""A day's rejects on their way into their staging table: executors append their own, the driver the source's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.clients.bigquery.commit import finalize_and_commit
from airflow_provider_connect.clients.bigquery.streams import Appender, RowsError, StreamReceipt
from airflow_provider_connect.clients.bigquery.tables import find
from airflow_provider_connect.errors import DataError
from airflow_provider_connect.sinks._bigquery.columns.rows import cut
from airflow_provider_connect.sinks._bigquery.rejects import STAGED_REJECT_FIELDS, Rejects, ensure_rejects
from airflow_provider_connect.stage.rejects import Reject, Tolerance, read_rejects

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.clients.bigquery.api import Api
    from airflow_provider_connect.clients.bigquery.place import Place
    from airflow_provider_connect.sink import Publish
    from airflow_provider_connect.sinks._bigquery.staging import Staging
    from airflow_provider_connect.sinks._bigquery.tables import Tables

BATCH_BYTES = 5_400_000
"""About what one request holds. Full ones (9 MB) cost a task 50 MB more, and are no faster (measured 2026-11)."""


def stage_rejects(
    api: Api, tables: Tables, publish: Publish, made: Staging, sent: Sequence[StreamReceipt]
) -> Rejects | None:
    """Stage what the source set aside beside what executors did; return the day's rejects, None without any. Driver.

    :param sent: what executors appended.
    :raises DataError: in all files together more rows were set aside than ``max_rejects`` allows.
    """
    if made.kept is not None:
        rejected = made.kept.rejects - publish.manifest.polled.counts.get("rejected", 0)
    else:
        rejected = sum(receipt.rows for receipt in sent)
    tolerance = Tolerance(tables.options.errors_tolerance, tables.options.max_rejects)
    tolerance.require(rejected, f"day {publish.day}: BigQuery cannot hold {rejected:,} rows")
    if made.rejects is None:
        # Those of an earlier generation must go with it.
        return Rejects(tables.rejects) if find(api, tables.rejects) is not None else None
    if made.kept is not None:
        return Rejects(tables.rejects, made.rejects, made.kept.rejects)
    streams = [*sent]
    if publish.manifest.polled.rejects:
        streams.append(_append_source_rejects(api, publish, made.rejects))
    finalize_and_commit(api, made.rejects, streams)
    ensure_rejects(api, tables.rejects, tables.target)
    return Rejects(tables.rejects, made.rejects, sum(stream.rows for stream in streams))


def _append_source_rejects(api: Api, publish: Publish, table: Place) -> StreamReceipt:
    with Appender(api, table, reject_schema()) as appender:
        for file in publish.manifest.polled.rejects:
            for rejects in read_rejects(publish.stage, file, BATCH_BYTES):
                bad = [cut(reject.position, reject.reason, reject.record) for reject in rejects]
                append_rejects(appender, "source", bad)
        return appender.close()


def append_rejects(appender: Appender, origin: Literal["source", "sink"], bad: Sequence[Reject]) -> None:
    """Append rejected rows.

    :param origin: who found that they are bad.
    """
    import pyarrow as pa

    rows = [(origin, reject.position, reject.column or None, reject.reason, reject.record) for reject in bad]
    schema = reject_schema()
    try:
        appender.append(pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema))
    except RowsError as error:
        # Not one of the data's own rows, which a restart could leave out.
        raise DataError(str(error)) from None


def reject_schema() -> pa.Schema:
    """Return the Arrow schema of a staging table of rejects."""
    import pyarrow as pa

    types = {"STRING": pa.string(), "INTEGER": pa.int64(), "BYTES": pa.binary()}
    return pa.schema([(field["name"], types[field["type"]]) for field in STAGED_REJECT_FIELDS])
