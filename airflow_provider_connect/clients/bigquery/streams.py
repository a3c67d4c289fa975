"""Appends rows to a BigQuery table through the Storage Write API: PENDING streams, visible only once committed.

Each appender has a stream of its own and gives every request its offset, so that a request sent twice is stored once:
ALREADY_EXISTS then means that it has arrived, OUT_OF_RANGE that one before it has not
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
# Bounds a task's memory: a request is made while two are under way, and a third waits to be sent.
IN_FLIGHT_BYTES = 18_000_000
# A table or a stream made a moment ago may be unknown to the next server asked.
SETTLE_SECONDS = 60.0
_ALREADY_EXISTS, _OUT_OF_RANGE = 6, 11
_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_COLUMN = re.compile(r"(?i)(?:field|column)(?: name)?[ :=]*[`'\"]?([\w.]+)")


@dataclass(frozen=True)
class StreamReceipt:
    """What one appender has stored, to be committed by :func:`~.commit.finalize_and_commit`.

    :param name: the stream; empty without rows, when none is made.
    """

    name: str
    rows: int


@dataclass(frozen=True)
class RefusedRow:
    """A row that BigQuery refuses.

    :param offset: its number among the rows appended, from 0.
    :param column: None if BigQuery names none.
    """

    offset: int
    column: str | None
    reason: str


class RowsError(DataError):
    """BigQuery refuses rows; nothing of their request is stored.

    :param rows: those it names, the first few hundred at most.
    """

    def __init__(self, message: str, rows: Sequence[RefusedRow]) -> None:
        super().__init__(message)
        self.rows = tuple(rows)


@dataclass
class _Sent:
    offset: int
    request: Any
    size: int


class Appender(AbstractContextManager["Appender"]):
    """Appends batches to a new PENDING stream of a table; leaving its ``with`` block early leaves nothing visible.

    Requests of one AppendRows call go into one queue; answers, and at the end an error, come out of another. The
    library's own ``AppendRowsStream`` has no timeout for an answer (600 s to open), hides why a stream did not open,
    bounds nothing in flight and forgets on a reconnect what was not answered. ``client.append_rows`` blocks until the
    first answer, so nothing could cancel it. The stub below it, which both use, can be cancelled.

    :param table: made by this attempt: if it is not found, it is not visible yet, or gone.
    :param arrow_schema: the schema of every batch, columns named as the table's.
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
        self._doing = f"appending to {table.id}"
        self._name = ""
        self._call: Any = None
        self._requests: queue.SimpleQueue[Any]
        self._answers: queue.SimpleQueue[Any]
        self._reader: threading.Thread
        self._unanswered: deque[_Sent] = deque()
        self._next_offset = 0
        self._patience = Patience(api.retry_budget_seconds, _PAUSES, jitter=FROM_HALF)

    def __exit__(self, *exc: object) -> None:
        self._disconnect()

    def append(self, batch: pa.RecordBatch) -> None:
        """Send a batch, in as many requests as its size needs; waits while too much is unanswered.

        :raises RowsError: BigQuery refuses rows of this batch or of one before it.
        :raises DataError: a single row is larger than a request may be.
        :raises ConnectError: as :func:`~.errors.classify` says, after the retry budget.
        """
        from google.cloud.bigquery_storage_v1 import types

        if not batch.schema.equals(self._schema):
            raise DataError(f"{self._doing}: a batch has another schema than the stream")
        for rows, payload in self._payloads(batch):
            if not self._name:
                self._name = self._create()
            if not self._unanswered:
                self._patience.restart()
            # The plain protobuf message: proto-plus would copy the rows once more.
            request = types.AppendRowsRequest.pb()(write_stream=self._name)
            request.offset.value = self._next_offset
            request.arrow_rows.rows.serialized_record_batch = payload
            self._unanswered.append(_Sent(self._next_offset, request, len(payload)))
            self._next_offset += rows
            self._send()
            while sum(one.size for one in self._unanswered) > self._in_flight_bytes:
                self._receive()
            while self._unanswered and self._call is not None and not self._answers.empty():
                self._receive()

    def close(self) -> StreamReceipt:
        """Wait until every row is stored, and say how many there are."""
        while self._unanswered:
            self._receive()
        self._disconnect()
        return StreamReceipt(self._name, self._next_offset)

    def _payloads(self, batch: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
        parts = max(1, -(-batch.nbytes // self._request_bytes))
        step = max(1, -(-batch.num_rows // parts))
        todo = [batch.slice(start, step) for start in range(0, batch.num_rows, step)]
        todo.reverse()
        while todo:
            piece = todo.pop()
            payload = piece.serialize()
            if payload.size <= self._request_bytes:
                yield piece.num_rows, payload.to_pybytes()
            elif piece.num_rows == 1:
                raise DataError(
                    f"{self._doing}: row {self._next_offset} is {payload.size} bytes large, a request takes "
                    f"{self._request_bytes}; BigQuery cannot store it"
                )
            else:
                half = piece.num_rows // 2
                todo += [piece.slice(half), piece.slice(0, half)]

    def _create(self) -> str:
        from google.cloud.bigquery_storage_v1 import types

        doing = f"making a write stream for {self.table.id}"
        with missing_as_gone(doing):
            created = self._api.call(
                doing,
                self._api.write_client.create_write_stream,
                parent=self.table.resource_name,
                write_stream=types.WriteStream(type_=types.WriteStream.Type.PENDING),
                retry_missing_seconds=SETTLE_SECONDS,
            )
        return str(created.name)

    def _send(self) -> None:
        """Send the last request, or in a new call all that are unanswered."""
        if self._call is not None:
            self._requests.put(self._unanswered[-1].request)
            return
        from google.api_core.gapic_v1.routing_header import to_grpc_metadata

        self._requests, self._answers = queue.SimpleQueue(), queue.SimpleQueue()
        first = self._unanswered[0].request
        first.arrow_rows.writer_schema.serialized_schema = self._schema.serialize().to_pybytes()
        for waiting in self._unanswered:
            self._requests.put(waiting.request)
        # The service is routed to the table's region by this header, which is ASCII while a table's name need not be.
        header: Any = to_grpc_metadata
        self._call = self._api.write_client.transport.append_rows(
            iter(self._requests.get, None), metadata=(header({"write_stream": self._name}),)
        )
        self._reader = threading.Thread(
            target=_read, args=(self._call, self._answers), name="bigquery-answers", daemon=True
        )
        self._reader.start()

    def _receive(self) -> None:
        """Take one answer; after an error that may pass, start again from the first unanswered row."""
        if self._call is None:
            self._send()
        try:
            left = min(self._api.timeout_seconds, self._patience.left_seconds)
            answer = self._answers.get(timeout=max(0.1, left))
        except queue.Empty:
            answer = TimeoutError()
        if isinstance(answer, BaseException):
            self._again(classify(answer, self._doing))
        elif answer.row_errors:
            raise self._refused(answer)
        elif answer.error.code in (0, _ALREADY_EXISTS):
            self._unanswered.popleft()
            self._patience.restart()
        else:
            self._again(self._error(answer))

    def _error(self, answer: Any) -> ConnectError:
        from google.api_core.exceptions import from_grpc_status

        if answer.error.code == _OUT_OF_RANGE:
            # Normal behind a request that failed. For the first one of a new connection it means that rows which were
            # answered are gone: then only a new stream helps, and that is a new try of the task.
            return RetriableError(f"{self._doing}: BigQuery has lost rows before row {self._unanswered[0].offset}")
        made: Any = from_grpc_status
        return classify(made(_status(answer.error.code), answer.error.message), self._doing)

    def _again(self, error: ConnectError) -> None:
        self._disconnect()
        may_settle = isinstance(error, (MissingError, HiddenError)) and self._patience.spent_seconds < SETTLE_SECONDS
        if not (is_retried_in_task(error) or may_settle) or not self._patience.wait_and_retry():
            with missing_as_gone(self._doing):
                raise error

    def _refused(self, answer: Any) -> RowsError:
        first = self._unanswered[0].offset
        names = {column.lower(): column for column in self._schema.names}
        bad = []
        for row in answer.row_errors:
            found = _COLUMN.search(row.message)
            column = names.get(found[1].split(".")[0].lower()) if found else None
            bad.append(RefusedRow(first + row.index, column, _why(row)))
        columns = sorted({row.column for row in bad if row.column}) or ["(not named)"]
        return RowsError(
            f"{self._doing}: BigQuery refuses {len(bad)} rows, the first is row {bad[0].offset}; "
            f"columns: {', '.join(columns)}",
            bad,
        )

    def _disconnect(self) -> None:
        if self._call is not None:
            self._requests.put(None)
            self._call.cancel()
            if self._reader.is_alive():
                self._reader.join(timeout=5)
            self._call = None


_WHYS = {
    "required|missing|null": "a value is missing",
    "too long|too large|length": "too long or too large",
    "range|overflow|exceed": "out of range",
    "type|cast|convert|mismatch": "of another type",
    "invalid|parse|malformed|not a valid": "not valid",
}


def _why(row: Any) -> str:
    """Say in our own words why a row is refused: BigQuery's words may hold its values."""
    found = (why for words, why in _WHYS.items() if re.search(rf"(?i)\b(?:{words})\b", row.message))
    return f"{next(found, 'BigQuery does not take it')} ({getattr(row.code, 'name', row.code)})"


def _status(code: int) -> Any:
    import grpc

    return next((status for status in grpc.StatusCode if status.value[0] == code), grpc.StatusCode.UNKNOWN)


def _read(call: Any, answers: queue.SimpleQueue[Any]) -> None:
    """Put a call's answers, and at the end an error, into a queue."""
    try:
        for answer in call:
            answers.put(answer)
        answers.put(ConnectionError("BigQuery has ended the connection"))
    except Exception as error:  # noqa: BLE001 - given to the thread that waits
        answers.put(error)
