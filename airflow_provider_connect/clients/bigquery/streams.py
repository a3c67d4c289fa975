"""Appends rows through PENDING streams of the Storage Write API.

ALREADY_EXISTS means that the request has arrived, OUT_OF_RANGE that an earlier one has not
(https://cloud.google.com/bigquery/docs/reference/storage/rpc/google.cloud.bigquery.storage.v1, 2026-11).
"""

from __future__ import annotations

import queue
import re
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.bigquery.api import BigQueryApi, is_retried_in_task
from airflow_provider_connect.clients.bigquery.errors import HiddenError, MissingError, classify, missing_as_gone
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.errors import ConnectError, DataError, RetriableError
from airflow_provider_connect.patience import FROM_HALF, Patience

if TYPE_CHECKING:
    import pyarrow as pa

# The reference allows 20 MB a request, other pages and older servers 10 MB. Nine leave room for names and schema.
REQUEST_BYTES = 9_000_000
# Bounds a task's memory: two requests in flight, a third queued, and a fourth being built.
IN_FLIGHT_BYTES = 18_000_000
# Another server may not know a table or a stream that was created a moment ago.
SETTLE_SECONDS = 60.0
_ALREADY_EXISTS, _OUT_OF_RANGE = 6, 11
_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_COLUMN = re.compile(r"(?i)(?:field|column)(?: name)?[ :=]*[`'\"]?([\w.]+)")


@dataclass(frozen=True)
class StreamReceipt:
    """Name of a write stream (empty without rows), and number of rows stored in it."""

    name: str
    rows: int


@dataclass(frozen=True)
class RefusedRow:
    """Row that BigQuery refused.

    :param offset: number in the stream, from 0.
    :param column: None if BigQuery names none.
    """

    offset: int
    column: str | None
    reason: str


class RowsError(DataError):
    """BigQuery refused rows of a request, and stored nothing of it.

    :param rows: the refused rows that BigQuery's answer names, at most a few hundred.
    """

    def __init__(self, message: str, rows: Sequence[RefusedRow]) -> None:
        super().__init__(message)
        self.rows = tuple(rows)


@dataclass
class _SentRequest:
    offset: int
    request: Any
    size: int


class Appender(AbstractContextManager["Appender"]):
    """Appender of batches to a new PENDING stream of a table.

    If its ``with`` block ends early, nothing becomes visible.

    :param arrow_schema: schema of every batch, with the table's column names.
    """

    def __init__(
        self,
        api: BigQueryApi,
        table: TableRef,
        arrow_schema: pa.Schema,
        *,
        request_bytes: int = REQUEST_BYTES,
        in_flight_bytes: int = IN_FLIGHT_BYTES,
    ) -> None:
        self.table = table
        self._api = api
        self._schema = arrow_schema
        self._request_bytes = request_bytes
        self._in_flight_bytes = in_flight_bytes
        self._action = f"appending to {table.id}"
        self._name = ""
        self._call: Any = None
        self._requests: queue.SimpleQueue[Any]
        self._answers: queue.SimpleQueue[Any]
        self._reader: threading.Thread
        self._unanswered: deque[_SentRequest] = deque()
        self._next_offset = 0
        self._patience = Patience(api.retry_budget_seconds, _PAUSES, jitter=FROM_HALF)

    def __exit__(self, *exc: object) -> None:
        self._disconnect()

    def append(self, batch: pa.RecordBatch) -> None:
        """Send a batch, in several requests if it is large. Waits while too many bytes are unanswered.

        :raises RowsError: BigQuery refuses rows of this or an earlier batch.
        :raises DataError: a single row is larger than a request may be.
        """
        from google.cloud.bigquery_storage_v1 import types

        if not batch.schema.equals(self._schema):
            raise DataError(f"{self._action}: a batch has another schema than the stream")
        for rows, payload in self._split_batch(batch):
            if not self._name:
                self._name = self._create_stream()
            if not self._unanswered:
                self._patience.restart()
            # The plain protobuf message: proto-plus would copy the rows once more.
            request = types.AppendRowsRequest.pb()(write_stream=self._name)
            request.offset.value = self._next_offset
            request.arrow_rows.rows.serialized_record_batch = payload
            self._unanswered.append(_SentRequest(self._next_offset, request, len(payload)))
            self._next_offset += rows
            self._send()
            while sum(unanswered_request.size for unanswered_request in self._unanswered) > self._in_flight_bytes:
                self._receive()
            while self._unanswered and self._call is not None and not self._answers.empty():
                self._receive()

    def close(self) -> StreamReceipt:
        """Wait until every row is stored, and return the receipt."""
        while self._unanswered:
            self._receive()
        self._disconnect()
        return StreamReceipt(self._name, self._next_offset)

    def _split_batch(self, batch: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
        part_count = max(1, -(-batch.nbytes // self._request_bytes))
        step = max(1, -(-batch.num_rows // part_count))
        parts = [batch.slice(start, step) for start in range(0, batch.num_rows, step)]
        parts.reverse()
        while parts:
            part = parts.pop()
            payload = part.serialize()
            if payload.size <= self._request_bytes:
                yield part.num_rows, payload.to_pybytes()
            elif part.num_rows == 1:
                raise DataError(
                    f"{self._action}: row {self._next_offset} has {payload.size} bytes, but a request may have "
                    f"{self._request_bytes}. BigQuery cannot store the row"
                )
            else:
                half = part.num_rows // 2
                parts += [part.slice(half), part.slice(0, half)]

    def _create_stream(self) -> str:
        from google.cloud.bigquery_storage_v1 import types

        action = f"creating a write stream for {self.table.id}"
        with missing_as_gone(action):
            stream = self._api.call(
                action,
                self._api.write_client.create_write_stream,
                parent=self.table.resource_name,
                write_stream=types.WriteStream(type_=types.WriteStream.Type.PENDING),
                retry_missing_seconds=SETTLE_SECONDS,
            )
        return str(stream.name)

    def _send(self) -> None:
        if self._call is not None:
            self._requests.put(self._unanswered[-1].request)
            return
        from google.api_core.gapic_v1.routing_header import to_grpc_metadata

        self._requests, self._answers = queue.SimpleQueue(), queue.SimpleQueue()
        first = self._unanswered[0].request
        first.arrow_rows.writer_schema.serialized_schema = self._schema.serialize().to_pybytes()
        for unanswered_request in self._unanswered:
            self._requests.put(unanswered_request.request)
        # This header routes the request to the table's region. It is encoded as ASCII, but a table's name need not be.
        header: Any = to_grpc_metadata
        self._call = self._api.write_client.transport.append_rows(
            iter(self._requests.get, None), metadata=(header({"write_stream": self._name}),)
        )
        self._reader = threading.Thread(
            target=_read_responses, args=(self._call, self._answers), name="bigquery-answers", daemon=True
        )
        self._reader.start()

    def _receive(self) -> None:
        if self._call is None:
            self._send()
        try:
            timeout = min(self._api.timeout_seconds, self._patience.left_seconds)
            answer = self._answers.get(timeout=max(0.1, timeout))
        except queue.Empty:
            answer = TimeoutError()
        if isinstance(answer, BaseException):
            self._reconnect_or_raise(classify(answer, self._action))
        elif answer.row_errors:
            raise self._rows_error(answer)
        elif answer.error.code in (0, _ALREADY_EXISTS):
            self._unanswered.popleft()
            self._patience.restart()
        else:
            self._reconnect_or_raise(self._response_error(answer))

    def _response_error(self, answer: Any) -> ConnectError:
        from google.api_core.exceptions import from_grpc_status

        if answer.error.code == _OUT_OF_RANGE:
            # Normal after a failed request. On the first request of a new connection it means that confirmed rows are
            # lost. Then only a new stream helps, which takes a new try of the task.
            return RetriableError(f"{self._action}: BigQuery has lost rows before row {self._unanswered[0].offset}")
        status_to_error: Any = from_grpc_status
        return classify(status_to_error(_grpc_status(answer.error.code), answer.error.message), self._action)

    def _reconnect_or_raise(self, error: ConnectError) -> None:
        self._disconnect()
        may_settle = isinstance(error, (MissingError, HiddenError)) and self._patience.spent_seconds < SETTLE_SECONDS
        if not (is_retried_in_task(error) or may_settle) or not self._patience.wait_and_retry():
            with missing_as_gone(self._action):
                raise error

    def _rows_error(self, answer: Any) -> RowsError:
        first = self._unanswered[0].offset
        names = {column.lower(): column for column in self._schema.names}
        refused_rows = []
        for row in answer.row_errors:
            match = _COLUMN.search(row.message)
            column = names.get(match[1].split(".")[0].lower()) if match else None
            refused_rows.append(RefusedRow(first + row.index, column, _refusal_reason(row)))
        columns = sorted({row.column for row in refused_rows if row.column}) or ["(not named)"]
        return RowsError(
            f"{self._action}: BigQuery refuses {len(refused_rows)} rows (columns: {', '.join(columns)}). The first "
            f"is row {refused_rows[0].offset}",
            refused_rows,
        )

    def _disconnect(self) -> None:
        if self._call is not None:
            self._requests.put(None)
            self._call.cancel()
            if self._reader.is_alive():
                self._reader.join(timeout=5)
            self._call = None


_REFUSAL_REASONS = {
    "required|missing|null": "a value is missing",
    "too long|too large|length": "too long or too large",
    "range|overflow|exceed": "out of range",
    "type|cast|convert|mismatch": "of another type",
    "invalid|parse|malformed|not a valid": "not valid",
}


def _refusal_reason(row: Any) -> str:
    reasons = (reason for words, reason in _REFUSAL_REASONS.items() if re.search(rf"(?i)\b(?:{words})\b", row.message))
    return f"{next(reasons, 'not accepted by BigQuery')} ({getattr(row.code, 'name', row.code)})"


def _grpc_status(code: int) -> Any:
    import grpc

    return next((status for status in grpc.StatusCode if status.value[0] == code), grpc.StatusCode.UNKNOWN)


def _read_responses(call: Any, answers: queue.SimpleQueue[Any]) -> None:
    try:
        for answer in call:
            answers.put(answer)
        answers.put(ConnectionError("BigQuery has ended the connection"))
    except Exception as error:  # noqa: BLE001 - given to the thread that waits
        answers.put(error)
