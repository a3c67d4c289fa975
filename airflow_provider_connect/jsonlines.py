r"""Cuts a byte stream into blocks of whole lines. Only ``\n`` ends a line.

``str.splitlines``, ``requests`` and ``httpx`` also cut at U+2028, U+0085 and others, which stand unescaped
in JSON strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_provider_connect.errors import DataError


class LineTooLongError(DataError):
    """A line never seems to end."""


BLOCK_BYTES = 4 << 20
"""Large enough that the work of a block outweighs its overhead, small enough that a few of them stay small."""


@dataclass(frozen=True)
class Block:
    r"""Whole lines of a stream.

    :param position: where the block starts, in bytes from the start of the stream.
    :param data: ends with ``\n``, except when the stream itself ends without one.
    """

    position: int
    data: bytes


def blocks(chunks: Iterable[bytes], max_line_bytes: int, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Gather ``chunks`` into blocks of whole lines, at least ``block_bytes`` long except the last.

    :raises LineTooLongError: if a line is longer than ``max_line_bytes``.
    """
    position = 0
    parts: list[bytes | memoryview] = []  # what the next block is made of; copied once, by the join
    size = whole = 0  # bytes in parts, and how many of them are whole lines
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        parts.append(chunk)
        whole = size + end if end else whole
        size += len(chunk)
        too_long = size - whole > max_line_bytes
        if whole >= block_bytes or (whole and too_long):  # what is whole is not held back
            rest = _cut(parts, whole)
            yield Block(position, b"".join(parts))
            position += whole
            parts, size, whole = rest, size - whole, 0
        if too_long:
            raise LineTooLongError(
                f"the line at byte {position} of the answer is longer than max_record_bytes={max_line_bytes}"
            )
    if size:
        yield Block(position, b"".join(parts))


def _cut(parts: list[bytes | memoryview], size: int) -> list[bytes | memoryview]:
    """Shorten ``parts`` to ``size`` bytes altogether; return what is left over."""
    rest: list[bytes | memoryview] = []
    excess = sum(map(len, parts)) - size
    while excess:
        last = memoryview(parts.pop())
        kept = max(len(last) - excess, 0)
        rest.insert(0, last[kept:])
        if kept:
            parts.append(last[:kept])
        excess -= len(last) - kept
    return rest
