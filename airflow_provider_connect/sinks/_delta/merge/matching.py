"""Decides which staged rows a merge adds, and which published rows it replaces or deletes. Reads key columns only.

The keys of a day are held in memory. A day with more keys than :data:`ROUND_BYTES` is merged in several rounds, each
with a share of the keys. A round reads the key columns again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.sinks._delta.merge.keys import key_rounds, newer_mask, newest_positions
from airflow_provider_connect.sinks._delta.merge.row_source import KeyBounds, KeyPiece, KeyReader
from airflow_provider_connect.stage.rows import open_parquet

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from airflow_provider_connect.sinks._delta.merge_rule import MergeRule
    from airflow_provider_connect.stage.storage import Folder

ROUND_BYTES = 16 << 20
"""Bytes of keys that a round holds, with :data:`_ROW_BYTES` for each row."""
_ROW_BYTES = 40
_READERS = 4
"""Number of published files of an object store that are compared concurrently. A reader mostly waits."""
_MOST_SHARED_KEYS = 100_000
"""Most keys of a round with several readers. Each reader has a hash table of all keys."""


@dataclass(frozen=True)
class PublishedFile:
    """A live file of the table.

    :param statistics: ``min.<column>`` and ``max.<column>`` of the log.
    """

    day: dt.date
    path: str
    statistics: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Decision:
    """Result of comparing a staged day with the table.

    :param added: for each staged row, in the order of files and rows, whether the table gets it.
    :param deletes: for each staged row, whether it is its key's winning row and deletes the key.
    :param dropped: for each file with replaced, deleted or vanished rows, a flag for each of its rows.
    :param vanished: number of published rows whose key the snapshot lacks.
    """

    added: np.ndarray[Any, Any]
    deletes: np.ndarray[Any, Any]
    dropped: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    vanished: int = 0

    def drop(self, folder: Folder, path: str, positions: np.ndarray[Any, Any]) -> None:
        """Mark rows of a published file."""
        import numpy as np

        if not len(positions):
            return
        if path not in self.dropped:
            with open_parquet(folder, path) as file:
                self.dropped[path] = np.zeros((file.metadata.num_rows + 7) // 8, np.uint8)
        bits = np.left_shift(1, 7 - (positions & 7)).astype(np.uint8)
        np.bitwise_or.at(self.dropped[path], positions >> 3, bits)


@dataclass
class _Winners:
    """The winning staged row of each key of a round.

    :param positions: number of each row among all staged rows.
    :param is_open: False once a published row or a tombstone is newer.
    """

    positions: np.ndarray[Any, Any]
    keys: pa.Array
    newest: pa.Array | None
    deletes: np.ndarray[Any, Any]
    bounds: KeyBounds
    is_open: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Matcher:
    """Compares the staged rows of a day with a table's rows and tombstones.

    :param staged_paths: files of the staged day, relative to ``folder``.
    :param tombstones: path of the file of deleted keys, or None.
    :param replaces_whole: published rows whose key is not staged vanish.
    """

    folder: Folder
    reader: KeyReader
    day: dt.date
    staged_paths: Sequence[str]
    published: Sequence[PublishedFile]
    tombstones: str | None = None
    replaces_whole: bool = False

    @property
    def _rule(self) -> MergeRule:
        return self.reader.rule

    def decide(self) -> Decision:
        """Compare all rows.

        :raises DataError: staged rows have NULL in the key.
        """
        import numpy as np

        rows, rounds = self._survey()
        decision = Decision(np.zeros(rows, bool), np.zeros(rows, bool))
        for number in range(rounds):
            winners = self._winners(number, rounds)
            decision.deletes[winners.positions[winners.deletes]] = True
            if self.tombstones is not None:
                self._compare_tombstones(winners)
            compare = partial(self._compare_file, winners, decision, (number, rounds))
            with ThreadPoolExecutor(self._readers(winners)) as pool:
                for _ in pool.map(compare, self.published):
                    pass
            decision.added[winners.positions[winners.is_open & ~winners.deletes]] = True
        return decision

    def _readers(self, winners: _Winners) -> int:
        return 1 if self.folder.is_local or len(winners.positions) > _MOST_SHARED_KEYS else _READERS

    def _survey(self) -> tuple[int, int]:
        """Return the number of staged rows, and of rounds."""
        rows = key_bytes = 0
        for path in self.staged_paths:
            with open_parquet(self.folder, path) as file:
                rows += file.metadata.num_rows
                for group in range(file.num_row_groups):
                    chunks = (file.metadata.row_group(group).column(i) for i in range(file.metadata.num_columns))
                    key_bytes += sum(
                        chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in self._rule.key
                    )
        return rows, 1 + (key_bytes + _ROW_BYTES * rows) // ROUND_BYTES

    def _winners(self, number: int, rounds: int) -> _Winners:
        import numpy as np
        import pyarrow as pa

        pieces = list(self._staged_pieces(number, rounds))
        if not pieces:
            empty = np.zeros(0, np.int64)
            nothing = pa.nulls(0, pa.string())
            return _Winners(empty, nothing, None, empty.astype(bool), KeyBounds({}), empty.astype(bool))
        positions = np.concatenate([piece.positions for piece in pieces])
        keys = pa.concat_arrays([piece.keys for piece in pieces])
        newest = None
        if self._rule.newest_by is not None:
            newest = pa.concat_arrays([piece.newest for piece in pieces])
        won = newest_positions(keys, newest, positions)
        columns = {
            name: pa.concat_arrays([piece.columns[name] for piece in pieces]).take(won) for name in self._rule.key
        }
        deletes = np.zeros(len(won), bool)
        if self._rule.delete_where is not None:
            flags = pa.concat_arrays([piece.others[self._rule.delete_where] for piece in pieces])
            deletes = flags.fill_null(False).to_numpy(zero_copy_only=False)[won]  # noqa: FBT003
        return _Winners(
            positions[won],
            keys.take(won),
            None if newest is None else newest.take(won),
            deletes,
            KeyBounds(columns),
            np.ones(len(won), bool),
        )

    def _staged_pieces(self, number: int, rounds: int) -> Iterator[KeyPiece]:
        """Yield the staged rows of a round, each with its number among all staged rows."""
        others = [self._rule.delete_where] if self._rule.delete_where else []
        start = keyless = 0
        for path in self.staged_paths:
            end = start
            for piece in self.reader.read(self.folder, path, others=others):
                keyless += piece.keys.null_count
                end = start + int(piece.positions[-1]) + 1
                moved = KeyPiece(piece.positions + start, piece.keys, piece.newest, piece.columns, piece.others)
                yield moved if rounds == 1 else _rows_of(moved, key_rounds(piece.keys, rounds) == number)
            start = end
        if keyless:
            raise DataError(
                f"table {self.folder.url}: {keyless:,} rows up to {self.day} have NULL in the key "
                f"({', '.join(self._rule.key)}). Nothing was changed. Correct the source, or choose a key that is "
                "never NULL"
            )

    def _compare_tombstones(self, winners: _Winners) -> None:
        """Close the winners that are older than the delete of their key by another day."""
        assert self.tombstones is not None
        for piece in self.reader.read(self.folder, self.tombstones, winners.bounds, others=["day"]):
            days = piece.others["day"].to_numpy(zero_copy_only=False).astype("datetime64[D]")
            is_earlier = days <= self.day
            # A reload replaces the deletes of its own day.
            matched, rows = _matches(piece, winners)
            other_day = days[rows] != self.day
            matched, rows = matched[other_day], rows[other_day]
            newer = newer_mask(*_newest_pairs(piece, winners, matched, rows), by_day=is_earlier[rows])
            winners.is_open[matched[~newer]] = False

    def _compare_file(
        self,
        winners: _Winners,
        decision: Decision,
        round_of: tuple[int, int],
        file: PublishedFile,
    ) -> None:
        import numpy as np

        bounds = None if self.replaces_whole else winners.bounds
        if bounds is not None and (not len(winners.positions) or bounds.exclude_file(file.statistics)):
            return
        for piece in self.reader.read(self.folder, file.path, bounds):
            matched, rows = _matches(piece, winners)
            by_day = np.full(len(rows), file.day <= self.day)
            newer = newer_mask(*_newest_pairs(piece, winners, matched, rows), by_day=by_day)
            winners.is_open[matched[~newer]] = False
            decision.drop(self.folder, file.path, piece.positions[rows[newer]])
            if self.replaces_whole:
                number, rounds = round_of
                vanished = np.ones(len(piece.keys), bool) if rounds == 1 else key_rounds(piece.keys, rounds) == number
                vanished[rows] = False
                decision.vanished += int(vanished.sum())
                decision.drop(self.folder, file.path, piece.positions[vanished])


def _rows_of(piece: KeyPiece, mask: np.ndarray[Any, Any]) -> KeyPiece:
    import numpy as np

    rows = np.flatnonzero(mask)
    return KeyPiece(
        piece.positions[rows],
        piece.keys.take(rows),
        None if piece.newest is None else piece.newest.take(rows),
        {name: values.take(rows) for name, values in piece.columns.items()},
        {name: values.take(rows) for name, values in piece.others.items()},
    )


def _matches(piece: KeyPiece, winners: _Winners) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the index of the winner and of the row in the piece, for each row whose key was staged."""
    import numpy as np
    import pyarrow.compute as pc

    if not len(winners.keys):
        nothing = np.zeros(0, np.int64)
        return nothing, nothing
    found = pc.index_in(piece.keys, value_set=winners.keys)
    rows = np.flatnonzero(pc.is_valid(found).to_numpy(zero_copy_only=False))
    return found.take(rows).to_numpy(), rows


def _newest_pairs(
    piece: KeyPiece, winners: _Winners, matched: np.ndarray[Any, Any], rows: np.ndarray[Any, Any]
) -> tuple[pa.Array | None, pa.Array | None]:
    if piece.newest is None or winners.newest is None:
        return None, None
    return winners.newest.take(matched), piece.newest.take(rows)
