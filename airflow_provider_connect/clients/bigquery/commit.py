"""Commits PENDING streams to a staging table, up to :data:`STREAMS_PER_COMMIT` at a time."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from airflow_provider_connect.clients.bigquery.api import SETTLE_SECONDS, BigQueryApi
from airflow_provider_connect.clients.bigquery.errors import HiddenError, MissingError, missing_as_gone
from airflow_provider_connect.clients.bigquery.messages import printable_message
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.clients.bigquery.streams import StreamReceipt
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError

STREAMS_PER_COMMIT = 10_000  # https://cloud.google.com/bigquery/quotas#write-api-limits (2026-11)
_FINALIZING_THREADS = 16
_ALREADY_COMMITTED = "STREAM_ALREADY_COMMITTED"


def finalize_and_commit(api: BigQueryApi, table: TableRef, receipts: Sequence[StreamReceipt]) -> None:
    """Finalize the streams, compare their row counts with the receipts, and commit them. Safe to repeat.

    :raises RetriableError: a stream is gone or lacks rows.
    """
    non_empty = [receipt for receipt in receipts if receipt.rows]
    commits = [non_empty[start : start + STREAMS_PER_COMMIT] for start in range(0, len(non_empty), STREAMS_PER_COMMIT)]
    open_commits = [streams for streams in commits if not _is_committed(api, table, streams)]
    with ThreadPoolExecutor(_FINALIZING_THREADS, "bigquery-seal") as threads:
        list(
            threads.map(
                functools.partial(_finalize, api, table), [stream for streams in open_commits for stream in streams]
            )
        )
    for streams in open_commits:
        _commit(api, table, streams)


def _finalize(api: BigQueryApi, table: TableRef, receipt: StreamReceipt) -> None:
    action = f"sealing a write stream of {table.id}"
    with missing_as_gone(action):
        finalized_stream = api.call(
            action, api.write_client.finalize_write_stream, name=receipt.name, retry_missing_seconds=SETTLE_SECONDS
        )
    if finalized_stream.row_count != receipt.rows:
        raise RetriableError(
            f"{action}: BigQuery has {finalized_stream.row_count} rows, but {receipt.rows} were appended. Nothing is "
            "committed. The next try appends them again"
        )


def _is_committed(api: BigQueryApi, table: TableRef, receipts: Sequence[StreamReceipt]) -> bool:
    try:
        stream = api.call(
            f"asking for a write stream of {table.id}", api.write_client.get_write_stream, name=receipts[0].name
        )
    except (MissingError, HiddenError):
        return False
    return bool(type(stream).pb(stream).HasField("commit_time"))


def _commit(api: BigQueryApi, table: TableRef, receipts: Sequence[StreamReceipt]) -> None:
    action = f"committing {len(receipts)} write streams of {table.id}"
    is_first = True

    def commit_once(*, timeout: float, retry: None) -> Any:
        nonlocal is_first
        if not is_first and _is_committed(api, table, receipts):
            return None
        is_first = False
        request = {"parent": table.resource_name, "write_streams": [receipt.name for receipt in receipts]}
        return api.write_client.batch_commit_write_streams(request=request, timeout=timeout, retry=retry)

    with missing_as_gone(action):
        answer = api.call(action, commit_once, retry_missing_seconds=SETTLE_SECONDS)
    if answer is None or type(answer).pb(answer).HasField("commit_time"):
        return
    codes = {error.code.name for error in answer.stream_errors}
    if codes == {_ALREADY_COMMITTED} and len(answer.stream_errors) == len(receipts):
        return
    first = printable_message(answer.stream_errors[0].error_message) if answer.stream_errors else "no commit time"
    codes_text = ", ".join(sorted(codes)) or "no reason given"
    text = f"{action}: nothing is committed: {codes_text}" + (f": {first}" if first else "")
    if any(code.startswith(("CMEK", "INVALID_CMEK", "KMS_PERMISSION")) for code in codes):
        raise ConfigError(f"{text}. Allow BigQuery's service account to use the table's key")
    raise DataError(text) if "SCHEMA_MISMATCH_EXTRA_FIELDS" in codes else RetriableError(text)
