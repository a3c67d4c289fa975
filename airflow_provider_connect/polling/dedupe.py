"""An exact set of 128-bit keys, which moves to disk beyond a limit."""

from __future__ import annotations

import mmap
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.stage.storage import translate_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Keys = NDArray[np.uint64]
    Mask = NDArray[np.bool_]

DEFAULT_LIMIT_BYTES = 64 << 20
_KEY_BYTES = 16
_FILTER_BITS = 24
_GROWTH = 2
"""Two runs are merged unless the earlier is this many times larger."""
_SMALL_RUN = 1 << 16
_FEW_KEYS = 1 << 13
"""Small batches are collected up to this many keys, then merged together."""


@dataclass(frozen=True)
class _Run:
    """Keys sorted by their upper 64 bits (``hi``). Keys of equal ``hi`` are in any order."""

    hi: Keys
    lo: Keys

    def __len__(self) -> int:
        return len(self.hi)

    def holds(self, hi: Keys, lo: Keys) -> Mask:
        """Return a mask of the keys that this run contains. Fastest if ``hi`` is sorted."""
        import numpy as np

        positions = np.searchsorted(self.hi, hi)
        is_known = np.zeros(len(hi), dtype=bool)
        unresolved = np.arange(len(hi))
        while len(unresolved):
            inside = positions[unresolved] < len(self.hi)
            unresolved = unresolved[inside]
            unresolved = unresolved[self.hi[positions[unresolved]] == hi[unresolved]]
            is_known[unresolved] = self.lo[positions[unresolved]] == lo[unresolved]
            unresolved = unresolved[~is_known[unresolved]]
            positions[unresolved] += 1
        return is_known


class _BloomFilter:
    """Bloom filter with one hash, in 2 MiB."""

    def __init__(self) -> None:
        import numpy as np

        self._bits = np.zeros(1 << (_FILTER_BITS - 3), dtype=np.uint8)

    def may_hold(self, hi: Keys) -> Mask:
        byte, bit = self._byte_and_bit(hi)
        is_known: Mask = (self._bits[byte] & bit) != 0
        return is_known

    def add(self, hi: Keys) -> None:
        import numpy as np

        byte, bit = self._byte_and_bit(hi)
        np.bitwise_or.at(self._bits, byte, bit)

    def _byte_and_bit(self, hi: Keys) -> tuple[Any, Any]:
        import numpy as np

        slot = hi >> np.uint64(64 - _FILTER_BITS)
        return slot >> np.uint64(3), (np.uint8(1) << (slot & np.uint64(7)).astype(np.uint8))


def _merged(large: list[Keys], small: list[Keys]) -> _Run:
    """Merge two runs that share no key. Empties both lists, each ``[hi, lo]``."""
    import numpy as np

    total = len(large[0]) + len(small[0])
    from_small = np.zeros(total, dtype=bool)
    from_small[np.searchsorted(large[0], small[0], side="right") + np.arange(len(small[0]))] = True
    halves = []
    while large:  # one after the other: only one half at a time is in memory twice
        half = np.empty(total, dtype=np.uint64)
        half[from_small] = small.pop(0)
        np.logical_not(from_small, out=from_small)
        half[from_small] = large.pop(0)
        np.logical_not(from_small, out=from_small)
        halves.append(half)
    return _Run(*halves)


def _sorted(runs: list[_Run]) -> _Run:
    import numpy as np

    if len(runs) == 1:
        return runs[0]
    hi, lo = np.concatenate([run.hi for run in runs]), np.concatenate([run.lo for run in runs])
    order = np.argsort(hi, kind="stable")  # fast on sorted runs
    return _Run(hi[order], lo[order])


class KeySet:
    """A set of 128-bit keys. Not thread-safe.

    :param limit_bytes: size at which keys move to files. Memory stays below about 1.5 times this.
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES, folder: Path | None = None) -> None:
        self._limit_bytes = limit_bytes
        self._folder = folder
        self._filter = _BloomFilter()
        self._runs: list[_Run] = []
        self._small_runs: list[_Run] = []
        self._files: list[tuple[_Run, Any]] = []

    def __len__(self) -> int:
        return sum(map(len, [*self._small_runs, *self._runs])) + sum(len(run) for run, _ in self._files)

    def __enter__(self) -> KeySet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, hi: Keys, lo: Keys) -> Mask:
        """Add keys. Returns a mask: True for each new key, at its first occurrence.

        :param hi: upper 64 bits of each key, ``lo`` the lower.
        """
        import numpy as np

        order = np.argsort(hi)
        if (np.diff(hi[order]) == 0).any():  # rare; only then does the order of equal halves matter
            order = np.lexsort((lo, hi))
        hi, lo = hi[order], lo[order]
        new = np.ones(len(hi), dtype=bool)
        new[1:] = (hi[1:] != hi[:-1]) | (lo[1:] != lo[:-1])
        doubtful = np.flatnonzero(new & self._filter.may_hold(hi))
        for run, mapping in [*((run, None) for run in [*self._small_runs, *self._runs]), *self._files]:
            if not len(doubtful):
                break
            new[doubtful[run.holds(hi[doubtful], lo[doubtful])]] = False
            if mapping is not None:
                mapping.madvise(mmap.MADV_DONTNEED)
        self._filter.add(hi)
        if new.any():
            self._add_run(_Run(hi[new], lo[new]))
        first = np.empty(len(hi), dtype=bool)
        first[order] = new
        return first

    def add_keys(self, key_bytes: bytes, selected: Mask | None = None) -> Mask:
        """Add concatenated 16-byte keys. Returns a mask: True for each new key.

        :param selected: mask of the keys to add. The result covers only these.
        """
        import numpy as np

        halves = np.frombuffer(key_bytes, ">u8").reshape(-1, 2).astype(np.uint64)
        halves = halves if selected is None else halves[selected]
        return self.add(halves[:, 0], halves[:, 1])

    def close(self) -> None:
        """Drop all keys and release the files."""
        self._runs.clear()
        self._small_runs.clear()
        self._files.clear()

    def _add_run(self, run: _Run) -> None:
        self._small_runs.append(run)
        if sum(map(len, self._small_runs)) < min(_FEW_KEYS, self._limit_bytes // _KEY_BYTES):
            return
        self._runs.append(_sorted(self._small_runs))
        self._small_runs.clear()
        total = sum(map(len, self._runs))
        while self._may_merge(total):
            small, large = self._runs.pop(), self._runs.pop()
            halves = [large.hi, large.lo], [small.hi, small.lo]
            del small, large
            self._runs.append(_merged(*halves))
        if total * _KEY_BYTES > self._limit_bytes:
            for spilled in self._runs:
                self._spill(spilled)
            self._runs.clear()

    def _may_merge(self, total: int) -> bool:
        """Return True if the last two runs are of similar size and hold at most half of all keys."""
        if len(self._runs) < 2:
            return False
        large, small = map(len, self._runs[-2:])
        return large < _GROWTH * small and large + small <= max(total // 2, _SMALL_RUN)

    def _spill(self, run: _Run) -> None:
        import numpy as np

        # A file without a name: the system deletes it when the process ends, however that happens.
        with (
            translate_errors(str(self._folder or tempfile.gettempdir())),
            tempfile.TemporaryFile(dir=self._folder) as file,
        ):
            file.write(run.hi.data)
            file.write(run.lo.data)
            file.flush()
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        keys = np.frombuffer(mapping, dtype=np.uint64)
        self._files.append((_Run(keys[: len(run)], keys[len(run) :]), mapping))
