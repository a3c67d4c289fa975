"""Uploads staged files for one load job, as one Parquet file, in resumable chunks.

Vendor facts: https://cloud.google.com/bigquery/docs/loading-data-local, …/docs/reference/api-uploads (2026-11).
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

CHUNK_BYTES = 16 * 1024 * 1024
"""Size of one request, a multiple of 256 KiB."""
_INCOMPLETE, _GONE = 308, 410


def upload_and_load(api: BigQueryApi, files: Sequence[str], resource: dict[str, Any], action: str) -> Any:
    """Upload files as one. Returns the job that loads them, even if a response was lost.

    :param files: Parquet files of one schema: paths, or URLs that ``pyarrow.fs`` supports.
    :raises RetriableError: a file is gone.
    :raises GoneError: BigQuery has lost the upload, and a repeated request would not help.
    """
    chunks = _chunks(merge_files(files), CHUNK_BYTES)
    chunk, is_last = next(chunks)  # outside of the retries, because a missing file stays missing
    job_id = resource["jobReference"]["jobId"]
    try:
        session = api.call(action, _begin_upload, api, resource, retry_missing_seconds=SETTLE_SECONDS)
    except ExistsError as error:
        return api.start_job(job_id, _raiser(error), action)
    sender = _ChunkSender(api, session)
    while not is_last:
        api.call(action, sender.send(chunk, last=False))
        sender.start += len(chunk)
        chunk, is_last = next(chunks)
    return api.start_job(job_id, sender.send(chunk, last=True), action, retry_missing_seconds=SETTLE_SECONDS)


def merge_files(files: Sequence[str]) -> Iterator[bytes]:
    """Yield the bytes of one Parquet file with all row groups of ``files`` in order."""
    import pyarrow.parquet as pq

    collector = _ByteCollector()
    writer: Any = None
    for path in files:
        with _open_file(path) as source, pq.ParquetFile(source, pre_buffer=False) as file:
            if writer is None:
                writer = pq.ParquetWriter(collector, file.schema_arrow, compression="zstd", compression_level=1)
            for group in range(file.num_row_groups):
                with translate_errors(path):
                    rows = file.read_row_group(group, use_threads=False)
                writer.write_table(rows, row_group_size=max(1, rows.num_rows))
                yield collector.take()
    writer.close()
    yield collector.take()


class _ByteCollector(io.RawIOBase):
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


def _chunks(parts: Iterator[bytes], size: int) -> Iterator[tuple[bytes, bool]]:
    buffer = bytearray()
    for part in parts:
        buffer += part
        while len(buffer) > size:
            yield bytes(buffer[:size]), False
            del buffer[:size]
    yield bytes(buffer), True


def _open_file(path: str) -> Any:
    from pyarrow import fs

    try:
        with translate_errors(path):
            filesystem, inner = fs.FileSystem.from_uri(path) if "://" in path else (fs.LocalFileSystem(), path)
            return filesystem.open_input_file(inner)
    except FileNotFoundError:
        raise RetriableError(f"{path} is gone: the day must be staged again") from None


def _begin_upload(api: BigQueryApi, resource: dict[str, Any], *, timeout: float, retry: None) -> str:
    answer = api.client._http.post(
        f"{api.client._connection.API_BASE_URL}/upload/bigquery/v2/projects/{api.project}/jobs",
        params={"uploadType": "resumable"},
        headers={"X-Upload-Content-Type": "*/*"},
        json=resource,
        timeout=timeout,
    )
    return str(_require_ok(answer).headers["Location"])


class _ChunkSender:
    def __init__(self, api: BigQueryApi, session: str) -> None:
        self._api = api
        self._session = session
        self.start = 0

    def send(self, chunk: bytes, *, last: bool) -> Callable[..., Any]:
        end = self.start + len(chunk)
        total = str(end) if last else "*"
        tried = False

        def send(*, timeout: float, retry: None) -> Any:
            nonlocal tried
            received = self.start
            if tried:
                status = self._put(b"", "bytes */*", timeout)
                if status.status_code != _INCOMPLETE:
                    return self._job(status)
                received = _received_bytes(status)
            tried = True
            if not self.start <= received <= end:
                raise RetriableError("BigQuery has lost the uploaded data: the day must be loaded again")
            if received == end and not last:
                return None
            unsent = chunk[received - self.start :]
            # If all data has arrived but no job began, the service waits for the total size.
            answer = self._put(unsent, f"bytes {received}-{end - 1}/{total}" if unsent else f"bytes */{total}", timeout)
            if answer.status_code != _INCOMPLETE:
                return self._job(answer)
            if last or _received_bytes(answer) != end:
                raise ConnectionError("BigQuery did not receive all data")
            return None

        return send

    def _job(self, answer: Any) -> Any:
        return self._api.client.job_from_resource(_require_ok(answer).json())

    def _put(self, data: bytes, span: str, timeout: float) -> Any:
        headers = {"Content-Range": span, "Content-Type": "*/*"}
        answer = self._api.client._http.put(
            self._session, data=data, headers=headers, timeout=timeout, allow_redirects=False
        )
        if answer.status_code == _GONE:
            raise GoneError("BigQuery has lost an unfinished upload (status 410): the rows must be sent again")
        return answer


def _received_bytes(answer: Any) -> int:
    match = re.fullmatch(r"bytes=0-(\d+)", answer.headers.get("Range", ""))
    return int(match[1]) + 1 if match else 0


def _require_ok(answer: Any) -> Any:
    from google.api_core.exceptions import from_http_response

    if answer.status_code != 200:
        to_error: Any = from_http_response
        raise to_error(answer)
    return answer


def _raiser(error: Exception) -> Callable[..., Any]:
    def fail(**_: Any) -> Any:
        raise error

    return fail
