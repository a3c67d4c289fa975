"""Finds the published rows that a snapshot lacks, and writes them as soft-deleted rows.

Each published row takes one bit of memory.
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
    """Comparison of the published rows with a snapshot.

    :param file: all rows that the snapshot lacks.
    :param vanished: those that were live.
    :param restored: deleted rows that are back.
    """

    file: StagedFile | None
    vanished: int
    restored: int

    @property
    def counts(self) -> dict[str, int]:
        """The counts for report and ledger."""
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
    """Write the published rows that a snapshot lacks, by key, into the file ``path`` as soft-deleted rows.

    Rows that were deleted earlier keep their ``__deleted_at``.

    :param published_paths: relative to ``folder``, like ``snapshot_paths``.
    :param schema: schema of the published rows, without the mark columns. Values are cast to its types.
    :param polled_at: time of the snapshot's poll.
    :param erase_list: people whose rows are left out.
    :raises ConfigError: published rows have no key.
    """
    missing_rows, vanished = _MissingRows(folder, published_paths, snapshot_paths), 0
    eraser = Eraser(erase_list.for_columns(schema.names), schema)
    with RowWriter(folder, path, with_mark_columns(schema)) as writer:
        for batch, keep in missing_rows.batches(published_paths):
            deleted_rows = _with_schema(batch.filter(keep), with_mark_columns(schema))
            deleted_rows = eraser.remove_rows(deleted_rows)
            vanished += deleted_rows.num_rows - deleted_mask(deleted_rows).true_count
            writer.write(_as_deleted(deleted_rows, polled_at))
    return SoftDeleteResult(writer.file, vanished, missing_rows.restored)


class _MissingRows:
    """One bit for each published row, in the order of files and rows."""

    def __init__(self, folder: Folder, published_paths: Sequence[str], snapshot_paths: Sequence[str]) -> None:
        import numpy as np

        self._folder = folder
        self.restored = 0
        rows = _count_rows(folder, published_paths)
        self._bits = np.zeros((rows + 7) // 8, np.uint8)
        if not rows:
            return
        buckets = 1 + (rows + _count_rows(folder, snapshot_paths)) // _BUCKET_ROWS
        with FingerprintFile(buckets) as old, FingerprintFile(buckets) as new:
            for path in snapshot_paths:
                for batch in self._read_columns(path, [RECORD_KEY]):
                    new.add(_key_words(batch, 0))
            for path in published_paths:
                for batch in self._read_columns(path, [RECORD_KEY, DELETED]):
                    # The third word: the row's position, and whether it was deleted before.
                    old.add(_key_words(batch, old.rows))
            for bucket in range(buckets):
                self._compare(old.read(bucket), new.read(bucket))

    def batches(self, paths: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, pa.BooleanArray]]:
        import pyarrow as pa

        position = 0
        for path in paths:
            with open_parquet(self._folder, path) as file:
                for group in range(file.num_row_groups):
                    rows = file.metadata.row_group(group).num_rows
                    if self._missing_mask(position, rows).any():
                        start = position
                        for batch in iterate_batches(file, _BATCH_BYTES, groups=[group]):
                            yield batch, pa.array(self._missing_mask(start, batch.num_rows))
                            start += batch.num_rows
                    position += rows

    def _read_columns(self, path: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with open_parquet(self._folder, path) as file:
            column_names = [name for name in names if name in file.schema_arrow.names]
            if RECORD_KEY not in column_names:
                raise ConfigError(
                    f"{self._folder.url}/{path} has no column {RECORD_KEY}, so deletes='soft' cannot find the "
                    "vanished rows. Publish one snapshot with deletes='hard' first"
                )
            yield from iterate_batches(file, _BATCH_BYTES, column_names)

    def _compare(self, old: Any, new: Any) -> None:
        import numpy as np

        keys = [np.ascontiguousarray(words[:, :2]).view("S16").ravel() for words in (old, new)]
        is_missing = ~np.isin(keys[0], keys[1])
        was_deleted = (old[:, 2] & np.uint64(1)).astype(bool)
        self.restored += int((was_deleted & ~is_missing).sum())
        positions = (old[is_missing, 2] >> np.uint64(1)).astype(np.int64)
        np.bitwise_or.at(self._bits, positions >> 3, np.left_shift(1, 7 - (positions & 7)).astype(np.uint8))

    def _missing_mask(self, start: int, rows: int) -> np.ndarray[Any, Any]:
        import numpy as np

        first = start // 8
        bits = np.unpackbits(self._bits[first : (start + rows + 7) // 8])
        return bits[start - 8 * first :][:rows].astype(bool)


def _key_words(batch: pa.RecordBatch, start: int) -> Any:
    import numpy as np
    import pyarrow as pa

    keys = np.frombuffer(key_bytes(batch.column(RECORD_KEY).cast(pa.string())), np.uint64).reshape(-1, 2)
    positions = np.arange(start, start + batch.num_rows, dtype=np.uint64) << np.uint64(1)
    return np.column_stack([keys, positions | deleted_mask(batch).to_numpy(zero_copy_only=False).astype(np.uint64)])


def _with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    rows, column_names = batch.num_rows, set(batch.schema.names)
    columns = [
        batch.column(field.name).cast(field.type) if field.name in column_names else pa.nulls(rows, field.type)
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


def _count_rows(folder: Folder, paths: Sequence[str]) -> int:
    total = 0
    for path in paths:
        with open_parquet(folder, path) as file:
            total += file.metadata.num_rows
    return total
