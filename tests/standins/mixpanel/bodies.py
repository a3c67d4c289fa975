"""Gzipped days for the stand-in: made once, kept in memory or on disk, served without a copy."""

from __future__ import annotations

import datetime as dt
import hashlib
import mmap
import os
import struct
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from tests.standins.mixpanel.events import Project, TimeUnit

# Level 6 compresses these events about 5.8 times, as real exports do.
_LEVEL = 6
_SEGMENT_LINES = 10_000
_SEGMENTS_IN_FLIGHT = 4
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"
TRAILER_BYTES = 8


def gzip_pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Compress to one gzip member, the same bytes on every machine with the same zlib.

    Segments are compressed in parallel while the next lines are made: zlib releases the interpreter lock.
    """
    yield _GZIP_HEADER
    crc = size = 0
    waiting: deque[Future[bytes]] = deque()
    remaining = iter(lines)
    with ThreadPoolExecutor(max_workers=2) as pool:
        while raw := b"".join(islice(remaining, _SEGMENT_LINES)):
            crc, size = zlib.crc32(raw, crc), size + len(raw)
            waiting.append(pool.submit(_deflate, raw))
            if len(waiting) > _SEGMENTS_IN_FLIGHT:
                yield waiting.popleft().result()
        for segment in waiting:
            yield segment.result()
    yield zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS).flush(zlib.Z_FINISH)
    yield struct.pack("<II", crc, size & 0xFFFFFFFF)


def gzip_members(lines: list[bytes], members: int) -> bytes:
    """Compress to ``members`` gzip members in a row, which is one valid gzip file."""
    step = -(-len(lines) // members) or 1
    return b"".join(chain.from_iterable(gzip_pieces(lines[i * step : (i + 1) * step]) for i in range(members)))


def raw_size(body: memoryview) -> int:
    """Return the size of a body of one member before compression, from its trailer (modulo 4 GiB)."""
    return int(struct.unpack("<I", body[-4:])[0])


class Part(NamedTuple):
    """Some of the lines.

    :param name: the same for the same selection.
    """

    name: str
    select: Callable[[Iterable[bytes]], Iterator[bytes]]


class DayStore:
    """The gzipped bodies of a project, each made on its first request.

    :param folder: where bodies are kept for later processes; None keeps them in memory. Any number of processes
        may share a folder: a body appears whole, under a name that changes with the events.
    """

    def __init__(self, project: Project, folder: Path | None = None) -> None:
        self._project = project
        self._folder = folder
        self._bodies: dict[tuple[tuple[dt.date, ...], TimeUnit, str], memoryview] = {}
        self._making: dict[tuple[tuple[dt.date, ...], TimeUnit, str], threading.Lock] = {}
        self._lock = threading.Lock()

    def lines(self, dates: tuple[dt.date, ...], unit: TimeUnit) -> Iterator[bytes]:
        """Yield the lines of all ``dates`` in turn."""
        return chain.from_iterable(self._project.lines(date, unit) for date in dates)

    @property
    def keeps_on_disk(self) -> bool:
        """Whether bodies are kept where they cost no memory."""
        return self._folder is not None

    def gzipped(self, dates: tuple[dt.date, ...], unit: TimeUnit = "s", part: Part | None = None) -> memoryview:
        """Return the body for ``dates``, or for a part of their lines, as one gzip member."""
        key = (dates, unit, part.name if part else "")
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:  # so two requests for a new day do not make it twice
            if key not in self._bodies:
                self._bodies[key] = self._make(dates, unit, part)
            return self._bodies[key]

    def _make(self, dates: tuple[dt.date, ...], unit: TimeUnit, part: Part | None) -> memoryview:
        lines = self.lines(dates, unit)
        pieces = gzip_pieces(part.select(lines) if part else lines)
        if self._folder is None:
            return memoryview(b"".join(pieces))
        which = f"-{hashlib.sha256(part.name.encode()).hexdigest()[:16]}" if part else ""
        path = self._folder / f"{self._project.fingerprint}-{dates[0]}-{dates[-1]}-{unit}{which}.jsonl.gz"
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.tmp")
            with unfinished.open("wb") as file:
                file.writelines(pieces)
            unfinished.replace(path)
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _deflate(raw: bytes) -> bytes:
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    # A full flush ends on a byte and resets the compressor, so segments can be concatenated.
    return compressor.compress(raw) + compressor.flush(zlib.Z_FULL_FLUSH)
