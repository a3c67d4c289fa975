"""Rejects: records without a row, and rows that the target cannot hold."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.stage.rows import read_batches

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.stage.storage import Folder


Origin = Literal["source", "sink"]
_BATCH_BYTES = 1_000_000
_EMPTY_DIGEST = hashlib.blake2b(b"", digest_size=16).hexdigest()
"""Another digest of an empty record shows that its bytes were not kept."""


RejectsKeep = Literal["record", "digest"]
"""Content of a file of the source's rejects: whole records, or only digests."""


@dataclass(frozen=True)
class Reject:
    """A rejected record of the source, or a rejected row of the sink.

    :param position: a record's first byte in the decoded answer, or a row's position in the staged day.
    :param reason: the problem, without the record's values.
    :param record: the bytes, or the row as JSON. Never for logs. Empty if only digests are kept.
    :param column: the first bad column, by its name in the source. Empty if the whole record is bad.
    """

    position: int
    reason: str
    record: bytes
    column: str = ""


def rejects_schema() -> pa.Schema:
    """Return the schema of a rejects file: ``position BIGINT, reason STRING, digest STRING, record BINARY``."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("position", pa.int64(), metadata={"comment": "where it starts, in bytes of the decoded answer"}),
            pa.field("reason", pa.string()),
            pa.field("digest", pa.string(), metadata={"comment": "BLAKE2b-128 of the record's bytes, hex"}),
            pa.field("record", pa.binary(), metadata={"comment": "NULL where a digest is all that is kept"}),
        ]
    )


def write_rejects(
    folder: Folder, path: str, rejects: list[Reject], kept_content: RejectsKeep = "record"
) -> StagedFile | None:
    """Write a partition's rejects into a file beside its rows, None without rejects."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not rejects:
        return None
    table = pa.table(
        [
            [reject.position for reject in rejects],
            [reject.reason for reject in rejects],
            [hashlib.blake2b(reject.record, digest_size=16).hexdigest() for reject in rejects],
            [reject.record if kept_content == "record" else None for reject in rejects],
        ],
        schema=rejects_schema(),
    )
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd")
    data = buffer.getvalue().to_pybytes()
    folder.write(path, data, durable=True)
    return StagedFile(path=path, rows=table.num_rows, size_bytes=len(data))


def read_rejects(stage: str, file: StagedFile, batch_bytes: int) -> Iterator[list[Reject]]:
    """Yield the rejects of a file, in lists of about ``batch_bytes``."""
    for _, batch in read_batches(stage, file.path, batch_bytes):
        yield [Reject(row["position"], row["reason"], row["record"] or b"") for row in batch.to_pylist()]


@dataclass(frozen=True)
class RejectedRecord:
    """One rejected record, for people.

    :param origin: ``source`` if the poll rejected it, ``sink`` if the target cannot hold it.
    :param position: as in :class:`Reject`, like ``reason`` and ``column``.
    :param digest: BLAKE2b-128 of the record's bytes, in hex. None if neither stored nor computable.
    :param record: as in :class:`Reject`. None if not kept or not requested.
    """

    origin: Origin
    position: int
    reason: str
    column: str = ""
    digest: str | None = None
    record: bytes | None = None


@dataclass(frozen=True)
class DayRejects:
    """The rejects of a published day.

    :param generation: generation that published the polled answer.
    :param ledger_count: number of rejects in the ledger, if still there.
    :param location: where they are stored, for people.
    :param records: the records that still exist, in order. Can be iterated once.
    """

    day: dt.date
    generation: int
    ledger_count: int | None
    location: str
    records: Iterable[RejectedRecord]


def stored_source_rejects(stage: str, files: Iterable[StagedFile]) -> Iterator[RejectedRecord]:
    """Yield a source's rejects from staged files. Skips missing files."""
    for file in files:
        try:
            for _, batch in read_batches(stage, file.path, _BATCH_BYTES):
                yield from (_parse_reject(row) for row in batch.to_pylist())
        except FileNotFoundError:
            continue


def _parse_reject(row: dict[str, Any]) -> RejectedRecord:
    record, digest = row["record"], row["digest"]
    if not record and digest != _EMPTY_DIGEST:
        record = None
    return RejectedRecord("source", row["position"], row["reason"], row.get("column") or "", digest, record)


@dataclass(frozen=True)
class Tolerance:
    """Limit of a day's rejects.

    :param errors_tolerance: ``none`` fails the day at the first bad record. ``all`` keeps bad records.
    """

    errors_tolerance: Literal["none", "all"]
    max_rejects: int

    def allows(self, rejects: int) -> bool:
        """Return whether a day may have this number of bad records."""
        return not rejects or (self.errors_tolerance == "all" and rejects <= self.max_rejects)

    def require(self, rejects: int, problem: str) -> None:
        """Raise DataError if a day has more bad records than allowed.

        :param problem: for the message.
        """
        if self.allows(rejects):
            return
        if self.errors_tolerance == "none":
            raise DataError(f"{problem}. Correct the source, or accept rejects with errors_tolerance='all'")
        count = f"{rejects:,} rejects, more than max_rejects={self.max_rejects}"
        raise DataError(f"{count}: {problem}. Correct the source, or raise max_rejects")
