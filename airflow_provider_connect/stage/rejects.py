"""Rejects: what could not become a row, or a record of the target, each with the reason.

A source's are pieces of its answer, set aside beside the staged rows. A sink's are staged rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.stage.rows import batches

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.stage.storage import Folder


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


def write_rejects(folder: Folder, path: str, rejects: list[Reject], keep: RejectsKeep = "record") -> StagedFile | None:
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
            [reject.record if keep == "record" else None for reject in rejects],
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
    for _, batch in batches(stage, file.path, batch_bytes):
        yield [Reject(row["position"], row["reason"], row["record"] or b"") for row in batch.to_pylist()]
