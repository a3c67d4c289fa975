"""Compares two states of a day, each in Parquet files, by the keys of their rows: what was added, changed, vanished.

Of a row only its key and a digest of all else are kept, 24 bytes. They go to a file without a name and come back a
bucket of keys at a time, so that memory stays the same however large the day.

A key may stand in several rows (``deduplicate="off"``). Then each row meets one of the other state with the same key,
first of all one that is the same in everything.
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
"""An odd constant that spreads its multiples over 64 bits (Fibonacci hashing)."""
_NULL = 0x6A09E667F3BCC909


class Differences(Wire):
    """How a state of a day differs from the one before it.

    :param added: rows whose key the earlier state lacks.
    :param changed: rows with a key of the earlier state, and other values.
    :param vanished: rows of the earlier state whose key the later one lacks.
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
    """Compare two states of a day, each in Parquet files; None if their rows have no key.

    Values are compared in the columns that both states have: a new column changes no row.

    :param before: paths of the earlier state's files, relative to ``folder``; ``after`` are those of the later one.
    :param schema: of the later state; values of the earlier one are read as its types.
    :param live_only: whether to leave out soft-deleted rows, of which the later state has none.
    :raises FileNotFoundError: a file is gone.
    :raises RetriableError: a file cannot be read now.
    :raises ConfigError: this user may not read it.
    """
    names, rows = _survey(folder, [*earlier_paths, *later_paths], schema)
    if RECORD_KEY not in names:
        return None
    columns = [name for name in names if name != RECORD_KEY]
    buckets = 1 + rows // _BUCKET_ROWS
    with FingerprintFile(buckets) as old, FingerprintFile(buckets) as new:
        for side, paths in ((old, earlier_paths), (new, later_paths)):
            for path in paths:
                for batch in _live(folder, path, names) if live_only else _all(folder, path, names):
                    side.add(_fingerprints(batch, columns, schema))
        same = matched = 0
        for bucket in range(buckets):
            found = _compared(old.read(bucket), new.read(bucket))
            same, matched = same + found[0], matched + found[1]
        return Differences(added=new.rows - matched, changed=matched - same, vanished=old.rows - matched)


def _all(folder: Folder, path: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return (batch for _, batch in read_batches(folder.url, path, _BATCH_BYTES, names))


def _live(folder: Folder, path: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that are not soft-deleted; a file that was there before soft deletes has no others."""
    import pyarrow.compute as pc

    with open_parquet(folder, path) as file:
        marked = DELETED in file.schema_arrow.names
    for batch in _all(folder, path, [*names, DELETED] if marked else names):
        yield batch.filter(pc.invert(deleted_mask(batch)))


def _survey(folder: Folder, paths: Iterable[str], schema: pa.Schema) -> tuple[list[str], int]:
    """Return the columns that all files have, and how many rows they have together."""
    names, rows = schema.names, 0
    for path in paths:
        with open_parquet(folder, path) as file:
            there = set(file.schema_arrow.names)
            names, rows = [name for name in names if name in there], rows + file.metadata.num_rows
    return names, rows


@dataclass
class FingerprintFile:
    """Fingerprints of rows, three words each, in a file from which the rows of one bucket can be read.

    :param buckets: how many there are.
    """

    buckets: int
    rows: int = 0
    _places: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def __enter__(self) -> FingerprintFile:
        self._folder = tempfile.gettempdir()
        with translate_errors(self._folder):
            self._file = tempfile.TemporaryFile()  # closed when the block ends
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, words: Any) -> None:
        """Add rows; their keys say which bucket they belong to."""
        import numpy as np

        spread = ((words[:, 0] ^ words[:, 1] * np.uint64(_MIX)) * np.uint64(_MIX)) >> np.uint64(32)
        bucket = (spread * np.uint64(self.buckets)) >> np.uint64(32)
        order = np.argsort(bucket, kind="stable")
        counts = np.bincount(bucket.astype(np.int64), minlength=self.buckets)
        at = self.rows
        for number in np.flatnonzero(counts).tolist():
            self._places.setdefault(number, []).append((at, int(counts[number])))
            at += int(counts[number])
        self.rows += len(words)
        with translate_errors(self._folder):
            self._file.write(words[order].data)

    def read(self, bucket: int) -> Any:
        """Return the rows of a bucket."""
        import numpy as np

        parts = [np.zeros((0, 3), dtype=np.uint64)]
        with translate_errors(self._folder):
            for at, count in self._places.get(bucket, ()):
                self._file.seek(24 * at)
                parts.append(np.frombuffer(self._file.read(24 * count), dtype=np.uint64).reshape(-1, 3))
        return np.concatenate(parts)


def _compared(old: Any, new: Any) -> tuple[int, int]:
    """Return how many rows are the same in both, and how many keys of both can be matched."""
    import numpy as np

    if not len(old) or not len(new):
        return 0, 0
    words = np.concatenate([old, new])
    order = np.lexsort((words[:, 2], words[:, 1], words[:, 0]))
    words, is_new = words[order], order >= len(old)
    is_other = words[1:] != words[:-1]
    return _pairs(is_other.any(axis=1), is_new), _pairs(is_other[:, :2].any(axis=1), is_new)


def _pairs(begins: Any, is_new: Any) -> int:
    """Return how many rows of one state meet one of the other, where rows that meet stand together.

    :param begins: for each row but the first, whether it meets none of those before it.
    """
    import numpy as np

    starts = np.concatenate([[0], np.flatnonzero(begins) + 1])
    all_ = np.diff(np.append(starts, len(is_new)))
    later = np.add.reduceat(is_new.astype(np.int64), starts)
    return int(np.minimum(later, all_ - later).sum())


def _fingerprints(batch: pa.RecordBatch, columns: Sequence[str], schema: pa.Schema) -> Any:
    """Return for each row its key, in two words, and a digest of its other values."""
    import numpy as np
    import pyarrow as pa

    values = np.zeros(len(batch), dtype=np.uint64)
    for name in columns:
        values = (values ^ _hashes(batch.column(name).cast(schema.field(name).type, safe=False))) * np.uint64(_MIX)
        values ^= values >> np.uint64(29)
    keys = np.frombuffer(key_bytes(batch.column(RECORD_KEY).cast(pa.string())), ">u8").reshape(-1, 2)
    return np.column_stack([keys.astype(np.uint64), values])


def _hashes(column: pa.Array) -> Any:
    """Return a number for each value of a column: equal ones have equal numbers."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from xxhash import xxh3_64_intdigest

    type_ = column.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_binary(type_):
        texts = column.cast(pa.large_binary()).fill_null(b"").to_pylist()
        found = np.fromiter(map(xxh3_64_intdigest, texts), np.uint64, len(texts))
    elif pa.types.is_timestamp(type_) or pa.types.is_integer(type_) or pa.types.is_float64(type_):
        bits = column if pa.types.is_float64(type_) else column.cast(pa.int64(), safe=False)
        found = pc.fill_null(bits, 0).to_numpy(zero_copy_only=False).view(np.uint64) * np.uint64(_MIX)
    else:  # rare: types whose values Python tells apart
        texts = [repr(value).encode() for value in column.to_pylist()]
        found = np.fromiter(map(xxh3_64_intdigest, texts), np.uint64, len(texts))
    if column.null_count:
        found = np.where(column.is_null().to_numpy(zero_copy_only=False), np.uint64(_NULL), found)
    return found
