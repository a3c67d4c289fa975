"""Writes staged Parquet files, with statistics that let readers skip files."""

from __future__ import annotations

import contextlib
import datetime as dt
import posixpath
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.stage.storage import Folder, translate_errors

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

GROUP_ROWS = 24 * 1024
GROUP_BYTES = 24 * 1024 * 1024


class RowWriter:
    """Writer of batches into one Parquet file, on the disk when the block ends.

    Deletes the file after an error or if it has no row. Only columns with ``few_values`` in their field metadata get a
    dictionary.

    :param key: columns with statistics in the row groups whatever their type. Texts stay out of ``StagedFile.stats``.
    """

    def __init__(self, folder: Folder, path: str, schema: pa.Schema, key: Collection[str] = ()) -> None:
        self._folder = folder
        self._path = path
        self._schema = schema
        self._key = key
        self._pending: list[pa.RecordBatch] = []
        self._rows = self._pending_rows = self._pending_bytes = 0
        self._footers: list[pq.FileMetaData] = []
        self.file: StagedFile | None = None

    def __enter__(self) -> Self:
        import pyarrow.parquet as pq

        self._full_path = f"{self._folder.url}/{self._path}"
        target = self._folder.path_in_filesystem(self._path)
        with translate_errors(self._full_path):
            if self._folder.is_local:
                self._folder.filesystem.create_dir(posixpath.dirname(target), recursive=True)
            self._stream = self._folder.filesystem.open_output_stream(target)
        try:
            with translate_errors(self._full_path):
                self._writer = pq.ParquetWriter(
                    self._stream,
                    self._schema,
                    compression="zstd",
                    compression_level=1,
                    use_dictionary=[field.name for field in self._schema if b"few_values" in (field.metadata or {})],
                    write_statistics=[
                        field.name for field in self._schema if _has_short_order(field.type) or field.name in self._key
                    ],
                    metadata_collector=self._footers,
                )
        except BaseException:
            with contextlib.suppress(OSError):
                self._stream.close()
            self._folder.delete(self._path)
            raise
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch. It is written with its row group."""
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self._pending_bytes += batch.nbytes
        if self._pending_rows >= GROUP_ROWS or self._pending_bytes >= GROUP_BYTES:
            self.flush()

    @property
    def pending_bytes(self) -> int:
        """Bytes of rows that are not yet written."""
        return self._pending_bytes

    @property
    def files(self) -> tuple[StagedFile, ...]:
        """The finished file, or () without rows."""
        return (self.file,) if self.file else ()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        finished = False
        try:
            if kind is None:
                self.flush()
                with translate_errors(self._full_path):
                    self._writer.close()
                    self._stream.close()
                if self._rows > 0:
                    self._folder.sync([self._path])
                finished = self._rows > 0
        finally:
            if not finished:
                self._abandon()
        if finished:
            self.file = StagedFile(
                path=self._path,
                rows=self._rows,
                size_bytes=self._folder.entries([self._path])[self._path].size_bytes,
                stats=delta_statistics(self._footers[0], self._columns_of_log),
            )

    @property
    def _columns_of_log(self) -> set[str] | None:
        if not self._key:
            return None
        return {field.name for field in self._schema if _has_short_order(field.type)}

    def _abandon(self) -> None:
        # On a full disk closing fails too, but the file must go.
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.close()
        with contextlib.suppress(OSError):
            self._stream.close()
        self._folder.delete(self._path)

    def flush(self) -> None:
        """Write the waiting rows as a row group of any size."""
        import pyarrow as pa

        if self._pending_rows:
            table = pa.Table.from_batches(self._pending, self._schema)
            with translate_errors(self._full_path):
                self._writer.write_table(table, row_group_size=table.num_rows)
        self._rows += self._pending_rows
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0


def delta_statistics(footer: pq.FileMetaData, columns: Collection[str] | None = None) -> dict[str, Any]:
    """Return a file's column statistics in the JSON form of Delta's protocol ("Per-file Statistics").

    Leaves out columns without statistics in a row group.
    """
    result: dict[str, Any] = {"numRecords": footer.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for index, column in enumerate(footer.schema.names):
        if columns is not None and column not in columns:
            continue
        groups = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
        if any(group is None or not group.has_null_count for group in groups):
            continue
        result["nullCount"][column] = sum(group.null_count for group in groups)
        with contextlib.suppress(OverflowError, ValueError):  # an instant beyond Python's calendar: no bounds
            bounds = [(group.min, group.max) for group in groups if group.has_min_max]
            if bounds:
                low, high = (
                    _bound(min(b[0] for b in bounds), upper=False),
                    _bound(max(b[1] for b in bounds), upper=True),
                )
                result["minValues"][column], result["maxValues"][column] = low, high
    return result


def _has_short_order(kind: pa.DataType) -> bool:
    import pyarrow as pa

    # Parquet's bounds ignore NaN, which Delta's readers take for the largest value: no bounds for floats.
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _bound(value: Any, *, upper: bool) -> Any:
    if isinstance(value, dt.datetime):
        part = value.microsecond % 1000
        if upper and part:
            value += dt.timedelta(microseconds=1000 - part)
        return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + ("Z" if value.tzinfo else "")
    return value.isoformat() if isinstance(value, dt.date) else value
