"""Compares two states of a day by row keys. Counts added, changed and vanished rows.

Memory does not grow with the day.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.stage.key_digest import RECORD_KEY, key_bytes
from airflow_provider_connect.stage.rows import open_parquet, read_batches
from airflow_provider_connect.stage.soft_deletes import DELETED, deleted_mask
from airflow_provider_connect.stage.storage import Folder, translate_errors
from airflow_provider_connect.wire import Wire

if TYPE_CHECKING:
    import pyarrow as pa

_BUCKET_ROWS = 256 * 1024
_BATCH_BYTES = 16 << 20
_MIX = 0x9E3779B97F4A7C15
"""Odd, so that multiples spread over 64 bits (Fibonacci hashing)."""
_NULL = 0x6A09E667F3BCC909


class Differences(Wire):
    """Number of rows by which a day's later state differs from an earlier state.

    :param added: only the later state has the key.
    :param changed: both have the key, with other values.
    :param vanished: only the earlier state has the key.
    """

    added: int
    changed: int
    vanished: int


def compare_states(
    folder: Folder,
    earlier_paths: Sequence[str],
    later_paths: Sequence[str],
    schema: pa.Schema,
    *,
    live_only: bool = False,
) -> Differences | None:
    """Compare the columns that both states of a day have. Returns None if rows have no key.

    :param earlier_paths: Parquet files, relative to ``folder``, like ``later_paths``.
    :param schema: schema of the later state.
    :param live_only: skip soft-deleted earlier rows.
    :raises ConnectError: as :func:`.translate_errors`. A missing file raises FileNotFoundError.
    """
    names, rows = _survey(folder, [*earlier_paths, *later_paths], schema)
    if RECORD_KEY not in names:
        return None
    columns = [name for name in names if name != RECORD_KEY]
    buckets = 1 + rows // _BUCKET_ROWS
    with FingerprintFile(buckets) as old, FingerprintFile(buckets) as new:
        for side, paths in ((old, earlier_paths), (new, later_paths)):
            for path in paths:
                for batch in _read_live(folder, path, names) if live_only else _read_all(folder, path, names):
                    side.add(_fingerprints(batch, columns, schema))
        same_rows = matched_rows = 0
        for bucket in range(buckets):
            counts = _count_matches(old.read(bucket), new.read(bucket))
            same_rows, matched_rows = same_rows + counts[0], matched_rows + counts[1]
        return Differences(
            added=new.rows - matched_rows, changed=matched_rows - same_rows, vanished=old.rows - matched_rows
        )


def _read_all(folder: Folder, path: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return (batch for _, batch in read_batches(folder.url, path, _BATCH_BYTES, names))


def _read_live(folder: Folder, path: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow.compute as pc

    with open_parquet(folder, path) as file:
        has_marks = DELETED in file.schema_arrow.names
    for batch in _read_all(folder, path, [*names, DELETED] if has_marks else names):
        yield batch.filter(pc.invert(deleted_mask(batch)))


def _survey(folder: Folder, paths: Iterable[str], schema: pa.Schema) -> tuple[list[str], int]:
    names, rows = schema.names, 0
    for path in paths:
        with open_parquet(folder, path) as file:
            file_columns = set(file.schema_arrow.names)
            names, rows = [name for name in names if name in file_columns], rows + file.metadata.num_rows
    return names, rows


@dataclass
class FingerprintFile:
    """Fingerprints of rows in a temporary file, sorted into buckets of keys."""

    buckets: int
    rows: int = 0
    _bucket_ranges: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def __enter__(self) -> FingerprintFile:
        self._folder = tempfile.gettempdir()
        with translate_errors(self._folder):
            self._file = tempfile.TemporaryFile()  # closed when the block ends
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, words: Any) -> None:
        """Add fingerprints. Each row's key chooses its bucket."""
        import numpy as np

        spread = ((words[:, 0] ^ words[:, 1] * np.uint64(_MIX)) * np.uint64(_MIX)) >> np.uint64(32)
        bucket = (spread * np.uint64(self.buckets)) >> np.uint64(32)
        order = np.argsort(bucket, kind="stable")
        counts = np.bincount(bucket.astype(np.int64), minlength=self.buckets)
        offset = self.rows
        for number in np.flatnonzero(counts).tolist():
            self._bucket_ranges.setdefault(number, []).append((offset, int(counts[number])))
            offset += int(counts[number])
        self.rows += len(words)
        with translate_errors(self._folder):
            self._file.write(words[order].data)

    def read(self, bucket: int) -> Any:
        """Return the fingerprints of a bucket."""
        import numpy as np

        parts = [np.zeros((0, 3), dtype=np.uint64)]
        with translate_errors(self._folder):
            for offset, count in self._bucket_ranges.get(bucket, ()):
                self._file.seek(24 * offset)
                parts.append(np.frombuffer(self._file.read(24 * count), dtype=np.uint64).reshape(-1, 3))
        return np.concatenate(parts)


def _count_matches(old: Any, new: Any) -> tuple[int, int]:
    """Return the numbers of rows that are identical in both states, and that pair by key."""
    import numpy as np

    if not len(old) or not len(new):
        return 0, 0
    words = np.concatenate([old, new])
    order = np.lexsort((words[:, 2], words[:, 1], words[:, 0]))
    words, is_new = words[order], order >= len(old)
    differs = words[1:] != words[:-1]
    return _count_pairs(differs.any(axis=1), is_new), _count_pairs(differs[:, :2].any(axis=1), is_new)


def _count_pairs(begins: Any, is_new: Any) -> int:
    import numpy as np

    starts = np.concatenate([[0], np.flatnonzero(begins) + 1])
    group_sizes = np.diff(np.append(starts, len(is_new)))
    later_rows = np.add.reduceat(is_new.astype(np.int64), starts)
    return int(np.minimum(later_rows, group_sizes - later_rows).sum())


def _fingerprints(batch: pa.RecordBatch, columns: Sequence[str], schema: pa.Schema) -> Any:
    import numpy as np
    import pyarrow as pa

    values = np.zeros(len(batch), dtype=np.uint64)
    for name in columns:
        values = (values ^ _hashes(batch.column(name).cast(schema.field(name).type, safe=False))) * np.uint64(_MIX)
        values ^= values >> np.uint64(29)
    keys = np.frombuffer(key_bytes(batch.column(RECORD_KEY).cast(pa.string())), ">u8").reshape(-1, 2)
    return np.column_stack([keys.astype(np.uint64), values])


def _hashes(column: pa.Array) -> Any:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from xxhash import xxh3_64_intdigest

    type_ = column.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_binary(type_):
        texts = column.cast(pa.large_binary()).fill_null(b"").to_pylist()
        hashes = np.fromiter(map(xxh3_64_intdigest, texts), np.uint64, len(texts))
    elif pa.types.is_timestamp(type_) or pa.types.is_integer(type_) or pa.types.is_float64(type_):
        bits = column if pa.types.is_float64(type_) else column.cast(pa.int64(), safe=False)
        hashes = pc.fill_null(bits, 0).to_numpy(zero_copy_only=False).view(np.uint64) * np.uint64(_MIX)
    else:  # rare types, compared by Python
        texts = [repr(value).encode() for value in column.to_pylist()]
        hashes = np.fromiter(map(xxh3_64_intdigest, texts), np.uint64, len(texts))
    if column.null_count:
        hashes = np.where(column.is_null().to_numpy(zero_copy_only=False), np.uint64(_NULL), hashes)
    return hashes
