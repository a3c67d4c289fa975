"""Keeps the last or the newest of several records with the same key."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._rest.building.duplicates import (
    DIFFERING_DUPLICATES,
    DifferingRecordsError,
    content_hashes,
)
from airflow_provider_connect.sources._rest.records import RECORD_KEY, NewestBy, Records
from airflow_provider_connect.stage.storage import translate_errors

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


def latest_versions(batches: Iterator[pa.RecordBatch], records: Records, tally: Tally) -> Iterator[pa.RecordBatch]:
    """Yield the rows that ``records.on_duplicate`` keeps. If it keeps the first of each key, batches pass unchanged.

    Otherwise all batches go through a temporary file. Memory holds about 120 bytes for each row.

    :param tally: counts the dropped rows that differ from the kept one.
    :raises DifferingRecordsError: the newest records of a key are equally new and differ.
    """
    import pyarrow as pa

    if not records.keeps_later_version:
        yield from batches
        return
    index = _VersionIndex(records)
    # A file without a name: the system deletes it when the process ends, however that happens.
    with translate_errors(tempfile.gettempdir()), tempfile.TemporaryFile() as file:
        writer: Any = None
        for batch in batches:
            writer = writer or pa.ipc.new_stream(file, batch.schema)
            writer.write_batch(batch)
            index.add(batch)
        if writer is None:
            return
        writer.close()
        is_kept = index.kept_rows(tally)
        file.seek(0)
        first_row = 0
        for batch in pa.ipc.open_stream(file):
            yield batch.filter(pa.array(is_kept[first_row : first_row + batch.num_rows]))
            first_row += batch.num_rows


class _VersionIndex:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._keys = bytearray()
        self._contents = bytearray()
        self._ages: list[NDArray[np.int64]] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._keys += bytes.fromhex("".join(batch.column(RECORD_KEY).to_pylist()))
        columns = {name: batch.column(name) for name in (RECORD_KEY, *self._records.columns)}
        self._contents += content_hashes(self._records, columns)
        if isinstance(self._records.on_duplicate, NewestBy):
            self._ages.append(_as_integers(columns[self._records.on_duplicate.newest_by]))

    def kept_rows(self, tally: Tally) -> NDArray[np.bool_]:
        """Return the mask of the rows to keep, one of each key."""
        import numpy as np

        keys, contents = _halves(self._keys), _halves(self._contents)
        count = len(keys)
        ages = np.concatenate(self._ages) if self._ages else np.arange(count)
        order = np.lexsort((np.arange(count), ages, keys[:, 1], keys[:, 0]))
        keys, contents, ages = keys[order], contents[order], ages[order]
        is_last = np.append((keys[1:] != keys[:-1]).any(axis=1), True) if count else np.ones(0, dtype=bool)
        # For each row, the position of the kept row with its key.
        last = np.flatnonzero(is_last)[np.searchsorted(np.flatnonzero(is_last), np.arange(count))]
        differs = (contents != contents[last]).any(axis=1)
        if equally_new := int((differs & (ages == ages[last])).sum()):
            raise DifferingRecordsError(
                f"{equally_new:,} records have the key of another record, are equally new by "
                f"{getattr(self._records.on_duplicate, 'newest_by', '')!r}, and differ from it in a declared column. "
                "Add the column that tells them apart to records.key, or set records.on_duplicate to 'last'"
            )
        if differs.any():
            tally.counts[DIFFERING_DUPLICATES] += int(differs.sum())
        is_kept = np.zeros(count, dtype=bool)
        is_kept[order[is_last]] = True
        return is_kept


def _as_integers(column: pa.Array) -> NDArray[np.int64]:
    """Return sortable numbers. Null is the smallest."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = column.cast(pa.int32()) if pa.types.is_date(column.type) else column
    filled = pc.fill_null(numbers.cast(pa.int64()), int(np.iinfo(np.int64).min))
    integers: NDArray[np.int64] = filled.to_numpy(zero_copy_only=False)
    return integers


def _halves(concatenated: bytearray) -> NDArray[np.uint64]:
    import numpy as np

    return np.frombuffer(concatenated, np.uint64).reshape(-1, 2)
