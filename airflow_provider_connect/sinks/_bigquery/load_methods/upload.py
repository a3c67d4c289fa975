"""Loads staged files by one load job: as one Parquet file, written while one resumable upload sends it.

A job for each file would exceed BigQuery's limit of five changes of a table in ten seconds. So the files' row groups
are rewritten, one after another, into a stream that is sent in pieces of :data:`PIECE_BYTES`: memory holds one row
group and one piece, whatever the day's size. If the answer to a piece is lost, the service is asked what arrived, and
only the rest is sent.

Vendor facts: https://cloud.google.com/bigquery/docs/loading-data-local, …/docs/reference/api-uploads and
https://cloud.google.com/bigquery/quotas#standard_tables (2026-11).
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.bigquery.api import SETTLE_SECONDS
from airflow_provider_connect.clients.bigquery.errors import ExistsError, GoneError
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.stage.storage import translate_errors

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import BigQueryApi

PIECE_BYTES = 16 * 1024 * 1024
"""Size of one request; the service requires a multiple of 256 KiB."""
_INCOMPLETE, _GONE = 308, 410


def upload_and_load(api: BigQueryApi, files: Sequence[str], resource: dict[str, Any], action: str) -> Any:
    """Send files as one, and return the job that loads them, even if an answer was lost.

    :param files: Parquet files of one schema: paths, or URLs that ``pyarrow.fs`` knows.
    :param resource: the job as in the REST API, with its id.
    :raises RetriableError: a file is gone.
    :raises GoneError: the service has lost the upload; another request would get the same answer.
    :raises ConnectError: as :func:`~.errors.classify` says.
    """
    pieces = _pieces(merge_files(files), PIECE_BYTES)
    piece, last = next(pieces)  # here, outside of every retry: a missing file stays missing
    job_id = resource["jobReference"]["jobId"]
    try:
        session = api.call(action, _begin_upload, api, resource, retry_missing_seconds=SETTLE_SECONDS)
    except ExistsError as error:
        return api.start_job(job_id, _raising(error), action)
    sending = _Sending(api, session)
    while not last:
        api.call(action, sending.once(piece, last=False))
        sending.start += len(piece)
        piece, last = next(pieces)
    return api.start_job(job_id, sending.once(piece, last=True), action, retry_missing_seconds=SETTLE_SECONDS)


def merge_files(files: Sequence[str]) -> Iterator[bytes]:
    """Yield the bytes of one Parquet file that holds the row groups of all ``files``, in their order."""
    import pyarrow.parquet as pq

    written = _Written()
    writer: Any = None
    for path in files:
        with _open_file(path) as source, pq.ParquetFile(source, pre_buffer=False) as file:
            if writer is None:
                writer = pq.ParquetWriter(written, file.schema_arrow, compression="zstd", compression_level=1)
            for group in range(file.num_row_groups):
                with translate_errors(path):
                    rows = file.read_row_group(group, use_threads=False)
                writer.write_table(rows, row_group_size=max(1, rows.num_rows))
                yield written.take()
    writer.close()
    yield written.take()


class _Written(io.RawIOBase):
    """Collects written bytes until they are taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._length

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._length += len(part)
        return len(part)

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _pieces(parts: Iterator[bytes], size: int) -> Iterator[tuple[bytes, bool]]:
    """Cut a stream into pieces of one size; the last, marked by True, may be smaller but not empty."""
    held = bytearray()
    for part in parts:
        held += part
        while len(held) > size:
            yield bytes(held[:size]), False
            del held[:size]
    yield bytes(held), True


def _open_file(path: str) -> Any:
    from pyarrow import fs

    try:
        with translate_errors(path):
            filesystem, inner = fs.FileSystem.from_uri(path) if "://" in path else (fs.LocalFileSystem(), path)
            return filesystem.open_input_file(inner)
    except FileNotFoundError:
        raise RetriableError(f"{path} is gone: the day must be staged again") from None


def _begin_upload(api: BigQueryApi, resource: dict[str, Any], *, timeout: float, retry: None) -> str:
    """Begin an upload, and return the URL for its pieces."""
    answer = api.client._http.post(
        f"{api.client._connection.API_BASE_URL}/upload/bigquery/v2/projects/{api.project}/jobs",
        params={"uploadType": "resumable"},
        headers={"X-Upload-Content-Type": "*/*"},
        json=resource,
        timeout=timeout,
    )
    return str(_checked(answer).headers["Location"])


class _Sending:
    """Sends pieces into one upload, in order.

    :param start: position of the next piece.
    """

    def __init__(self, api: BigQueryApi, session: str) -> None:
        self._api = api
        self._session = session
        self.start = 0

    def once(self, piece: bytes, *, last: bool) -> Callable[..., Any]:
        """Return a function that sends a piece, on a retry only the rest of it; for the last it returns the job."""
        end = self.start + len(piece)
        total = str(end) if last else "*"
        tried = False

        def send(*, timeout: float, retry: None) -> Any:
            nonlocal tried
            arrived = self.start
            if tried:
                asked = self._put(b"", "bytes */*", timeout)
                if asked.status_code != _INCOMPLETE:
                    return self._job(asked)
                arrived = _end(asked)
            tried = True
            if not self.start <= arrived <= end:
                raise RetriableError("BigQuery has lost what was uploaded: the day must be loaded again")
            if arrived == end and not last:
                return None
            rest = piece[arrived - self.start :]
            # If all has arrived but no job began, the service waits for the total size.
            answer = self._put(rest, f"bytes {arrived}-{end - 1}/{total}" if rest else f"bytes */{total}", timeout)
            if answer.status_code != _INCOMPLETE:
                return self._job(answer)
            if last or _end(answer) != end:
                raise ConnectionError("BigQuery did not receive all of it")
            return None

        return send

    def _job(self, answer: Any) -> Any:
        return self._api.client.job_from_resource(_checked(answer).json())

    def _put(self, data: bytes, span: str, timeout: float) -> Any:
        headers = {"Content-Range": span, "Content-Type": "*/*"}
        answer = self._api.client._http.put(
            self._session, data=data, headers=headers, timeout=timeout, allow_redirects=False
        )
        if answer.status_code == _GONE:
            raise GoneError("BigQuery has lost an unfinished upload (status 410): the rows must be sent again")
        return answer


def _end(answer: Any) -> int:
    """Return how many bytes have arrived."""
    found = re.fullmatch(r"bytes=0-(\d+)", answer.headers.get("Range", ""))
    return int(found[1]) + 1 if found else 0


def _checked(answer: Any) -> Any:
    from google.api_core.exceptions import from_http_response

    if answer.status_code != 200:
        made: Any = from_http_response
        raise made(answer)
    return answer


def _raising(error: Exception) -> Callable[..., Any]:
    def fail(**_: Any) -> Any:
        raise error

    return fail
