"""Reads the compared columns of Parquet files in large pieces, and skips files and row groups without a given key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._delta.merge.keys import encode_keys, newest_values, plain
from airflow_provider_connect.stage.rows import iterate_batches, open_parquet

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from airflow_provider_connect.sinks._delta.merge_rule import MergeRule
    from airflow_provider_connect.stage.storage import Folder

BUFFER_BYTES = 1 << 20
"""Bytes of each read. Compacted files have row groups of 100 MB and more, too large to read a column at once."""
_PIECE_ROWS = 128 * 1024
_BATCH_BYTES = 64 << 20
"""Bytes of whole rows. The batch itself holds only the compared columns."""


@dataclass(frozen=True)
class KeyPiece:
    """Compared columns of some rows of a file.

    :param positions: number of each row in its file.
    :param keys: one value for each row, NULL if a key column is NULL.
    :param newest: values of ``newest_by``, or None without that option.
    :param columns: the key columns.
    :param others: further columns.
    """

    positions: np.ndarray[Any, Any]
    keys: pa.Array
    newest: pa.Array | None
    columns: Mapping[str, pa.Array]
    others: Mapping[str, pa.Array]


@dataclass(frozen=True)
class KeyReader:
    """Reads compared columns in the table's types.

    :param types: types of the table's columns.
    """

    rule: MergeRule
    types: Mapping[str, pa.DataType]

    def read(
        self, folder: Folder, path: str, bounds: KeyBounds | None = None, others: Sequence[str] = ()
    ) -> Iterator[KeyPiece]:
        """Yield the rows of a file in order.

        :param bounds: skip row groups whose statistics exclude all these keys.
        :param others: further columns to read, in their own types.
        :raises ConfigError: the file lacks a key column.
        """
        import numpy as np

        with open_parquet(folder, path, BUFFER_BYTES) as file:
            names = self._names(folder, path, file.schema_arrow.names, others)
            starts = np.cumsum([0, *(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups))])
            batches: list[pa.RecordBatch] = []
            positions: list[np.ndarray[Any, Any]] = []
            for group in range(file.num_row_groups):
                if bounds is not None and bounds.exclude_group(file, group):
                    continue
                start = int(starts[group])
                for batch in iterate_batches(file, _BATCH_BYTES, names, [group]):
                    batches.append(batch)
                    positions.append(np.arange(start, start + batch.num_rows))
                    start += batch.num_rows
                    if sum(map(len, positions)) >= _PIECE_ROWS:
                        yield self._piece(batches, positions, others)
                        batches, positions = [], []
            if batches:
                yield self._piece(batches, positions, others)

    def _names(self, folder: Folder, path: str, present: Sequence[str], others: Sequence[str]) -> list[str]:
        if missing := [name for name in self.rule.key if name not in present]:
            raise ConfigError(
                f"{folder.url}/{path} has no column {missing[0]!r}, which is in key={self.rule.key!r}: another writer "
                "added its rows. Delete them by hand, or choose another path"
            )
        return [name for name in dict.fromkeys((*self.rule.compared_columns, *others)) if name in present]

    def _piece(
        self, batches: Sequence[pa.RecordBatch], positions: Sequence[np.ndarray[Any, Any]], others: Sequence[str]
    ) -> KeyPiece:
        import numpy as np
        import pyarrow as pa

        table, rule = pa.Table.from_batches(batches).combine_chunks(), self.rule

        def column(name: str) -> pa.Array:
            if name not in table.column_names:  # a file from before the column
                return pa.nulls(table.num_rows, self.types[name])
            values = table[name]
            return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks)

        columns = {name: plain(column(name), self.types[name]) for name in rule.key}
        newest = plain(column(rule.newest_by), self.types[rule.newest_by]) if rule.newest_by else None
        return KeyPiece(
            positions=np.concatenate(positions),
            keys=encode_keys([*columns.values()]),
            newest=None if newest is None else newest_values(newest),
            columns=columns,
            others={name: column(name) for name in others},
        )


class KeyBounds:
    """The key values of a merge, to exclude files and row groups by their statistics.

    :param columns: values of each key column.
    """

    def __init__(self, columns: Mapping[str, pa.Array]) -> None:
        import pyarrow as pa

        self._columns = columns
        # Other writers round the statistics of times down in the log. In Parquet all these are exact. The log's column
        # "a.b" may be a part of a struct "a".
        self._of_log = {
            name: values
            for name, values in columns.items()
            if (pa.types.is_integer(values.type) or pa.types.is_date(values.type)) and "." not in name
        }
        self._of_group = {
            name: values
            for name, values in columns.items()
            if "." not in name
            and (name in self._of_log or pa.types.is_string(values.type) or pa.types.is_timestamp(values.type))
        }

    def exclude_file(self, statistics: Mapping[str, Any]) -> bool:
        """Return whether the statistics in the log exclude all keys.

        :param statistics: values of ``min.<column>`` and ``max.<column>``.
        """
        return any(
            _excludes(values, statistics.get(f"min.{name}"), statistics.get(f"max.{name}"))
            for name, values in self._of_log.items()
        )

    def exclude_group(self, file: pq.ParquetFile, group: int) -> bool:
        """Return whether a row group's statistics exclude all keys."""
        chunks = (file.metadata.row_group(group).column(index) for index in range(file.metadata.num_columns))
        for chunk in chunks:
            values = self._of_group.get(chunk.path_in_schema)
            if values is None or file.schema_arrow.field(chunk.path_in_schema).type != values.type:
                continue
            statistics = chunk.statistics
            if statistics is not None and statistics.has_min_max and _excludes(values, statistics.min, statistics.max):
                return True
        return False


def _excludes(values: pa.Array, low: Any, high: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if low is None or high is None:
        return False
    lowest, highest = (pa.scalar(bound, type=values.type) for bound in (low, high))
    in_bounds = pc.and_(pc.greater_equal(values, lowest), pc.less_equal(values, highest))
    return not pc.any(in_bounds).as_py()
