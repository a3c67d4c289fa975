"""PENDING streams become rows of their table: all of them at once, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError
from airflow_provider_connect.sinks._bigquery_access import SETTLE_SECONDS, Api
from airflow_provider_connect.sinks._bigquery_errors import HiddenError, MissingError, made_before, told
from airflow_provider_connect.sinks._bigquery_place import Place
from airflow_provider_connect.sinks._bigquery_streams import StreamReceipt

_ALREADY_COMMITTED = "STREAM_ALREADY_COMMITTED"


def finalize_and_commit(
    api: Api, table: Place, receipts: Sequence[StreamReceipt], labels: dict[str, str] | None = None
) -> None:
    """Seal the streams, compare their rows with the receipts, and show them all in one step.

    May be repeated: streams that are committed already count as done.

    :param table: a table that nothing else writes to; if all else fails its rows are counted.
    :param labels: for that one query.
    :raises RetriableError: a stream is gone or short of rows: the rows must be appended again.
    """
    full = [receipt for receipt in receipts if receipt.rows]
    if not full or _committed(api, table, full):
        return
    for receipt in full:
        _finalize(api, table, receipt)
    _Commit(api, table, full, labels or {}).run()


def _finalize(api: Api, table: Place, receipt: StreamReceipt) -> None:
    doing = f"sealing a write stream of {table.id}"
    with made_before(doing):
        sealed = api.call(doing, api.write.finalize_write_stream, name=receipt.name, missing_seconds=SETTLE_SECONDS)
    if sealed.row_count != receipt.rows:
        raise RetriableError(
            f"{doing}: BigQuery has {sealed.row_count} rows where {receipt.rows} were appended; nothing is committed, "
            "they must be appended again"
        )


def _committed(api: Api, table: Place, receipts: Sequence[StreamReceipt]) -> bool:
    """Ask each stream whether it is committed; they are so together or not at all."""
    doing = f"asking for a write stream of {table.id}"
    for receipt in receipts:
        try:
            stream = api.call(doing, api.write.get_write_stream, name=receipt.name)
        except (MissingError, HiddenError):
            return False
        if not type(stream).pb(stream).HasField("commit_time"):
            return False
    return True


class _Commit:
    def __init__(self, api: Api, table: Place, receipts: Sequence[StreamReceipt], labels: dict[str, str]) -> None:
        self.api = api
        self.table = table
        self.receipts = receipts
        self.labels = labels
        self.tries = 0
        self.doing = f"committing {len(receipts)} write streams of {table.id}"

    def run(self) -> None:
        with made_before(self.doing):
            answer = self.api.call(self.doing, self._once, missing_seconds=SETTLE_SECONDS)
        if answer is None or type(answer).pb(answer).HasField("commit_time"):
            return
        codes = {error.code.name for error in answer.stream_errors}
        if codes == {_ALREADY_COMMITTED} and len(answer.stream_errors) == len(self.receipts):
            return
        # The answer to a try before this one may have been lost. Not every server tells a stream's commit time.
        if self.tries > 1 and self._all_rows_are_there():
            return
        raise self._error(answer, codes)

    def _once(self, *, timeout: float, retry: None) -> Any:
        self.tries += 1
        if self.tries > 1 and _committed(self.api, self.table, self.receipts):
            return None
        return self.api.write.batch_commit_write_streams(
            request={"parent": self.table.path, "write_streams": [receipt.name for receipt in self.receipts]},
            timeout=timeout,
            retry=retry,
        )

    def _all_rows_are_there(self) -> bool:
        doing = f"counting the rows of {self.table.id}"
        sql = f"SELECT COUNT(*) AS found FROM {self.table.sql}"  # noqa: S608 - a checked name
        with made_before(doing):
            found, _ = self.api.query(sql, doing=doing, labels=self.labels)
        return bool(found[0]["found"] == sum(receipt.rows for receipt in self.receipts))

    def _error(self, answer: Any, codes: set[str]) -> ConnectError:
        first = told(answer.stream_errors[0].error_message) if answer.stream_errors else "no commit time"
        why = ", ".join(sorted(codes)) or "no reason given"
        text = f"{self.doing}: nothing is committed: {why}" + (f": {first}" if first else "")
        if any(code.startswith(("CMEK", "INVALID_CMEK", "KMS_PERMISSION")) for code in codes):
            return ConfigError(f"{text}; give BigQuery's service account the use of the table's key")
        if "SCHEMA_MISMATCH_EXTRA_FIELDS" in codes:
            return DataError(text)
        return RetriableError(text)
