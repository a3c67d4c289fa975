"""Offset ranges of an increment, and how they are dealt out to Spark tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

MAX_PARTS = 64
"""Most input partitions of an increment: each opens a consumer of its own."""


class OffsetRange(NamedTuple):
    """The records of a partition from one offset up to another, which is not included.

    :param identity: of the topic (:func:`.positions.identity_of`). A topic that is made again has another one.
    """

    topic: str
    identity: str
    partition: int
    begin: int
    end: int

    @property
    def offsets(self) -> int:
        """Number of offsets. Compaction and transactions leave some without a record."""
        return self.end - self.begin


def deal_out(ranges: Iterable[OffsetRange], offsets_per_part: int) -> list[list[OffsetRange]]:
    """Cut long ranges, and put short ones together. Each part has at most about ``offsets_per_part`` offsets.

    The parts are the same whenever the ranges are, in whatever order. With more than :data:`MAX_PARTS` parts, each one
    gets more offsets.
    """
    ordered = sorted(offset_range for offset_range in ranges if offset_range.offsets > 0)
    total = sum(offset_range.offsets for offset_range in ordered)
    size = max(offsets_per_part, -(-total // MAX_PARTS))
    parts: list[list[OffsetRange]] = []
    room = 0
    for offset_range in ordered:
        for cut_range in _cut(offset_range, size):
            if not parts or cut_range.offsets > room or _is_read_by(parts[-1], cut_range):
                parts.append([])
                room = size
            parts[-1].append(cut_range)
            room -= cut_range.offsets
    return parts


def _is_read_by(part: Sequence[OffsetRange], offset_range: OffsetRange) -> bool:
    """Return True if a part reads the same partition: a consumer reads one range of each."""
    last = part[-1]
    return (last.topic, last.partition) == (offset_range.topic, offset_range.partition)


def _cut(offset_range: OffsetRange, size: int) -> Sequence[OffsetRange]:
    starts = range(offset_range.begin, offset_range.end, size)
    return [offset_range._replace(begin=begin, end=min(begin + size, offset_range.end)) for begin in starts]
