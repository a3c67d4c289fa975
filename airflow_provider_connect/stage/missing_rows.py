"""Finds the published rows that a snapshot no longer has, and writes them as deleted.

They are found by ``record_key``, against what the sink shows at the very version that a publish builds on. Keys go
through files, a bucket of them at a time, and one bit stands for a published row: memory stays small.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.differences import FingerprintFile
from airflow_provider_connect.stage.erase_list import EraseList, Eraser
from airflow_provider_connect.stage.key_digest import RECORD_KEY, key_bytes
from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.rows import iterate_batches, open_parquet
from airflow_provider_connect.stage.soft_deletes import (
    DELETED,
    DELETED_AT,
    RESTORED,
    SOFT_DELETED,
    SOFT_DELETED_TOTAL,
    deleted_mask,
    with_mark_columns,
)
from airflow_provider_connect.stage.storage import Folder

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_BUCKET_ROWS = 256 * 1024
_BATCH_BYTES = 8 << 20


@dataclass(frozen=True)
class SoftDeleteResult:
    """What became of the published rows that a snapshot lacks.

    :param file: they, all of them; None if there are none.
    :param vanished: how many of them the snapshot before this one still had.
    :param restored: how many rows were deleted, and are in the snapshot again.
    """

    file: StagedFile | None
    vanished: int
    restored: int

    @property
    def counts(self) -> dict[str, int]:
        """What report and ledger say of them."""
        in_all = 0 if self.file is None else self.file.rows
        return {SOFT_DELETED: self.vanished, RESTORED: self.restored, SOFT_DELETED_TOTAL: in_all}


def write_deleted_rows(
    folder: Folder,
    published_paths: Sequence[str],
    snapshot_paths: Sequence[str],
    *,
    path: str,
    schema: pa.Schema,
    polled_at: dt.datetime,
    erase_list: EraseList,
) -> SoftDeleteResult:
    """Write the published rows whose key a snapshot lacks into a file, as deleted; one that was deleted keeps its time.

    :param before: paths of the published files, relative to ``folder``; ``after`` are those of the snapshot.
    :param path: of the file to write.
    :param schema: of the published rows, without the two columns; they are read as its types.
    :param at: when the source was asked for the snapshot.
    :param erased: whose rows do not stay: an erase may have been killed before it reached them.
    :raises ConfigError: published rows have no key.
    """
    missing, vanished = _MissingRows(folder, published_paths, snapshot_paths), 0
    eraser = Eraser(erase_list.for_columns(schema.names), schema)
    with RowWriter(folder, path, with_mark_columns(schema)) as writer:
        for batch, keep in missing.batches(published_paths):
            kept = _typed(batch.filter(keep), with_mark_columns(schema))
            kept = eraser.remove_rows(kept)
            vanished += kept.num_rows - deleted_mask(kept).true_count
            writer.write(_as_deleted(kept, polled_at))
    return SoftDeleteResult(writer.file, vanished, missing.restored)


class _MissingRows:
    """Which published rows a snapshot lacks: a bit for each, in the order of files and rows."""

    def __init__(self, folder: Folder, before: Sequence[str], after: Sequence[str]) -> None:
        import numpy as np

        self._folder = folder
        self.restored = 0
        rows = _rows(folder, before)
        self._bits = np.zeros((rows + 7) // 8, np.uint8)
        if not rows:
            return
        buckets = 1 + (rows + _rows(folder, after)) // _BUCKET_ROWS
        with FingerprintFile(buckets) as old, FingerprintFile(buckets) as new:
            for path in after:
                for batch in self._columns(path, [RECORD_KEY]):
                    new.add(_words(batch, 0))
            for path in before:
                for batch in self._columns(path, [RECORD_KEY, DELETED]):
                    # The third word: where the row stands, and whether it was deleted before.
                    old.add(_words(batch, old.rows))
            for bucket in range(buckets):
                self._compare(old.read(bucket), new.read(bucket))

    def batches(self, paths: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, pa.BooleanArray]]:
        """Yield batches that hold missing rows, and which of theirs these are; row groups without any are not read."""
        import pyarrow as pa

        at = 0
        for path in paths:
            with open_parquet(self._folder, path) as file:
                for group in range(file.num_row_groups):
                    rows = file.metadata.row_group(group).num_rows
                    if self._marked(at, rows).any():
                        start = at
                        for batch in iterate_batches(file, _BATCH_BYTES, groups=[group]):
                            yield batch, pa.array(self._marked(start, batch.num_rows))
                            start += batch.num_rows
                    at += rows

    def _columns(self, path: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with open_parquet(self._folder, path) as file:
            there = [name for name in names if name in file.schema_arrow.names]
            if RECORD_KEY not in there:
                raise ConfigError(
                    f"{self._folder.url}/{path} has no column {RECORD_KEY}, and deletes='soft' cannot tell which of "
                    "its rows have vanished: publish one snapshot with deletes='hard' first"
                )
            yield from iterate_batches(file, _BATCH_BYTES, there)

    def _compare(self, old: Any, new: Any) -> None:
        import numpy as np

        keys = [np.ascontiguousarray(words[:, :2]).view("S16").ravel() for words in (old, new)]
        gone = ~np.isin(keys[0], keys[1])
        deleted = (old[:, 2] & np.uint64(1)).astype(bool)
        self.restored += int((deleted & ~gone).sum())
        places = (old[gone, 2] >> np.uint64(1)).astype(np.int64)
        np.bitwise_or.at(self._bits, places >> 3, np.left_shift(1, 7 - (places & 7)).astype(np.uint8))

    def _marked(self, start: int, rows: int) -> np.ndarray[Any, Any]:
        """Return for each of some rows in a row whether it is missing."""
        import numpy as np

        first = start // 8
        bits = np.unpackbits(self._bits[first : (start + rows + 7) // 8])
        return bits[start - 8 * first :][:rows].astype(bool)


def _words(batch: pa.RecordBatch, start: int) -> Any:
    """Return for each row its key, in two words, and a third of its place and of whether it was deleted before."""
    import numpy as np
    import pyarrow as pa

    keys = np.frombuffer(key_bytes(batch.column(RECORD_KEY).cast(pa.string())), np.uint64).reshape(-1, 2)
    places = np.arange(start, start + batch.num_rows, dtype=np.uint64) << np.uint64(1)
    return np.column_stack([keys, places | deleted_mask(batch).to_numpy(zero_copy_only=False).astype(np.uint64)])


def _typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with all columns of a schema: a file may be older than some."""
    import pyarrow as pa

    rows, there = batch.num_rows, set(batch.schema.names)
    columns = [
        batch.column(field.name).cast(field.type) if field.name in there else pa.nulls(rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as_deleted(batch: pa.RecordBatch, at: dt.datetime) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns[DELETED_AT] = pc.if_else(deleted_mask(batch), columns[DELETED_AT], pa.scalar(at, columns[DELETED_AT].type))
    columns[DELETED] = pa.repeat(pa.scalar(True), batch.num_rows)  # noqa: FBT003  # pyarrow's own positional
    return pa.RecordBatch.from_arrays([*columns.values()], schema=batch.schema)


def _rows(folder: Folder, paths: Sequence[str]) -> int:
    found = 0
    for path in paths:
        with open_parquet(folder, path) as file:
            found += file.metadata.num_rows
    return found
