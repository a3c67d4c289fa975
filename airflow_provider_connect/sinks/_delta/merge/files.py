"""Writes the files of a merge: the day's winning rows sorted by key, and published files without their dropped rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.sinks._delta.attempt_files import merged_suffix
from airflow_provider_connect.sinks._delta.merge.matching import Decision, PublishedFile
from airflow_provider_connect.sinks._delta.merge.row_source import BUFFER_BYTES
from airflow_provider_connect.sinks._delta.soft_deletes import columns_of_files
from airflow_provider_connect.stage.manifest import StagedFile, data_file
from airflow_provider_connect.stage.parquet import GROUP_BYTES, GROUP_ROWS, RowWriter
from airflow_provider_connect.stage.rows import iterate_batches, open_parquet
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from airflow_provider_connect.sinks._delta.ledger import LedgerView

FILE_BYTES = 128 << 20
"""Bytes of rows in memory after which the day's rows go on in another file, so that later merges rewrite less."""
_BATCH_BYTES = 2 << 20


@dataclass
class MergedFiles:
    """Writes the files of one try of a merge.

    :param number: of the try, above 0. It is part of the files' names and of the ledger.
    :param key: columns by which rows are sorted, and whose statistics let later merges skip row groups.
    """

    view: LedgerView
    attempt: str
    number: int
    key: Sequence[str]
    added: list[tuple[dt.date, StagedFile]] = field(default_factory=list)

    @property
    def _folder(self) -> Folder:
        return self.view.folder

    def _next_path(self, day: dt.date) -> str:
        return data_file(Day(date=day), self.attempt, len(self.added), merged_suffix(self.number))

    def write_added(self, day: dt.date, schema: pa.Schema, paths: Sequence[str], decision: Decision) -> None:
        """Write the staged rows that the table gets."""
        chunks = _chunks(_kept_batches(self._folder, paths, decision.added, schema))
        chunk = next(chunks, None)
        while chunk is not None:
            written = 0
            with RowWriter(self._folder, self._next_path(day), schema, self.key) as writer:
                while chunk is not None and written < FILE_BYTES:
                    written += chunk.nbytes
                    for batch in chunk.sort_by([(name, "ascending") for name in self.key]).to_batches():
                        writer.write(batch)
                    writer.flush()
                    chunk = next(chunks, None)
            self._add(day, writer)

    def rewrite(self, file: PublishedFile, dropped: np.ndarray[Any, Any]) -> None:
        """Write a published file again without its dropped rows. Writes no file if all rows are dropped."""
        import numpy as np

        schema = columns_of_files(self.view, [file.path])
        with open_parquet(self._folder, file.path) as source:
            rows = source.metadata.num_rows
        keep = ~np.unpackbits(dropped, count=rows).astype(bool)
        with RowWriter(self._folder, self._next_path(file.day), schema, self.key) as writer:
            for batch in _kept_batches(self._folder, [file.path], keep, schema):
                writer.write(batch)
        self._add(file.day, writer)

    def _add(self, day: dt.date, writer: RowWriter) -> None:
        if writer.file is not None:
            self.added.append((day, writer.file))

    def delete(self) -> None:
        """Delete the files, which no commit names."""
        for _, file in self.added:
            self._folder.delete(file.path)


def _kept_batches(
    folder: Folder, paths: Sequence[str], keep: np.ndarray[Any, Any], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield rows of files.

    :param keep: a flag for each row of all files.
    """
    import pyarrow as pa

    start = 0
    for path in paths:
        with open_parquet(folder, path, BUFFER_BYTES) as file:
            names = [name for name in schema.names if name in file.schema_arrow.names]
            for batch in iterate_batches(file, _BATCH_BYTES, names):
                mask = keep[start : start + batch.num_rows]
                start += batch.num_rows
                if mask.any():
                    kept = batch if mask.all() else batch.filter(pa.array(mask))
                    yield _typed(kept, schema)


def _typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    columns: Mapping[str, pa.Array] = dict(zip(batch.schema.names, batch.columns, strict=True))
    arrays = [
        columns[name].cast(kind) if name in columns else pa.nulls(batch.num_rows, kind)
        for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield rows as tables of about a row group."""
    import pyarrow as pa

    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(b.nbytes for b in pending) >= GROUP_BYTES or sum(b.num_rows for b in pending) >= GROUP_ROWS:
            yield pa.Table.from_batches(pending)
            pending = []
    if pending:
        yield pa.Table.from_batches(pending)
