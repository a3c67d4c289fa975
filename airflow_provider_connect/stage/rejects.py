"""Rejects: what could not become a row, or a record of the target, each with the reason, and how many there may be.

A source's are pieces of its answer, set aside beside the staged rows. A sink's are staged rows. A person sees both as
:class:`RejectedRecord`, in the words of whatever keeps them.
"""

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
_OF_NOTHING = hashlib.blake2b(b"", digest_size=16).hexdigest()
"""The digest of an empty record: one with another digest is empty because it is not kept."""


RejectsKeep = Literal["record", "digest"]
"""What a source's reject keeps of its record: all of it, or no more than a digest."""


@dataclass(frozen=True)
class Reject:
    """A bad record.

    :param position: a source's: where it starts, in bytes of the decoded answer; a sink's: its row in the staged day.
    :param reason: what is wrong with it, without its values.
    :param record: its bytes, or the row as JSON: for a file, table or topic of rejects alone, never logged. Empty where
        rejects keep a digest alone.
    :param column: the first column that is to blame, as the source calls it; empty where it is the whole record.
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
    """Write a partition's rejects beside the data; None when there are none. Executor."""
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
    """Yield the rejects of a file, as many at a time as make about ``batch_bytes``. Driver and executor."""
    for _, batch in read_batches(stage, file.path, batch_bytes):
        yield [Reject(row["position"], row["reason"], row["record"] or b"") for row in batch.to_pylist()]


@dataclass(frozen=True)
class RejectedRecord:
    """One record that was set aside.

    :param origin: who refused it: the source while it was read, or the sink because the target cannot hold it.
    :param position: a source's: where it starts, in bytes of the decoded answer; a sink's: its row in the staged day.
    :param reason: what is wrong with it, without its values.
    :param column: the column that is to blame; empty where it is the whole record.
    :param digest: BLAKE2b-128 of the record's bytes, in hex; None where nobody noted it and the record was not read.
    :param record: its bytes, or the row as JSON; None where it is not kept, or was not asked for.
    """

    origin: Origin
    position: int
    reason: str
    column: str = ""
    digest: str | None = None
    record: bytes | None = None


@dataclass(frozen=True)
class DayRejects:
    """What was set aside of a published day.

    :param generation: the generation whose answer they are from. An erase makes a newer one without asking the source.
    :param counted: how many the ledger counted; None if it does not tell any more.
    :param where: where they lie, for people.
    :param records: what is still there, in order; read while it is iterated, once.
    """

    day: dt.date
    generation: int
    ledger_count: int | None
    location: str
    records: Iterable[RejectedRecord]


def stored_source_rejects(stage: str, files: Iterable[StagedFile]) -> Iterator[RejectedRecord]:
    """Yield what a source set aside, from the files of a stage; a file that is gone yields nothing."""
    for file in files:
        try:
            for _, batch in read_batches(stage, file.path, _BATCH_BYTES):
                yield from (_read(row) for row in batch.to_pylist())
        except FileNotFoundError:
            continue


def _read(row: dict[str, Any]) -> RejectedRecord:
    record, digest = row["record"], row["digest"]
    if not record and digest != _OF_NOTHING:
        record = None
    return RejectedRecord("source", row["position"], row["reason"], row.get("column") or "", digest, record)


@dataclass(frozen=True)
class Tolerance:
    """What is done about records that are bad.

    :param errors_tolerance: ``none`` lets the first one fail the day; ``all`` sets them aside as rejects.
    :param max_rejects: how many may be set aside.
    """

    errors_tolerance: Literal["none", "all"]
    max_rejects: int

    def allows(self, rejects: int) -> bool:
        """Tell whether there may be so many bad records."""
        return not rejects or (self.errors_tolerance == "all" and rejects <= self.max_rejects)

    def require(self, rejects: int, problem: str) -> None:
        """Refuse more bad records than there may be.

        :param rejects: how many there are by now.
        :param what: what is wrong with the last ones, and where.
        :raises DataError: there are too many.
        """
        if self.allows(rejects):
            return
        if self.errors_tolerance == "none":
            raise DataError(f"{problem}. Mend the source, or set bad records aside with errors_tolerance='all'")
        count = f"{rejects:,} rejects, more than max_rejects={self.max_rejects}"
        raise DataError(f"{count}: {problem}. Mend the source, or raise max_rejects")
