r"""Cuts a byte stream into blocks of whole lines. Only ``\n`` ends a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_provider_connect.errors import DataError


class LineTooLongError(DataError):
    """A line exceeds the limit."""


BLOCK_BYTES = 4 << 20
"""Default block size: several blocks fit in memory."""

_SLICE_BYTES = 64 << 10
_MAX_PARTS = 16 << 10  # a list of tiny chunks would take more memory than their bytes


@dataclass(frozen=True)
class Block:
    r"""Whole lines of a stream.

    :param position: offset in the stream, in bytes.
    :param data: ends with ``\n``, except at the end of a stream without a final newline.
    """

    position: int
    data: bytes


def blocks(chunks: Iterable[bytes], max_line_bytes: int, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Join ``chunks`` to blocks of whole lines, each at least ``block_bytes`` long except the last.

    :raises LineTooLongError: a line exceeds ``max_line_bytes``, after the lines before it. The lines before it were
        yielded.
    """
    position = 0
    parts: list[bytes | memoryview] = []  # of the next block; joined once
    size = whole_bytes = 0  # bytes in parts, and how many of them are whole lines
    for chunk in chunks:
        parts.append(chunk)
        too_long = _start_of_long_line(chunk, size - whole_bytes, max_line_bytes)
        if too_long is not None:
            if size + too_long:  # the whole lines before it
                _shorten(parts, size + too_long)
                yield Block(position, b"".join(parts))
            raise LineTooLongError(
                f"the line at byte {position + size + too_long} of the answer is longer than "
                f"max_record_bytes={max_line_bytes}"
            )
        end = chunk.rfind(b"\n") + 1
        whole_bytes = size + end if end else whole_bytes
        size += len(chunk)
        if whole_bytes >= block_bytes:
            next_parts = _shorten(parts, whole_bytes)
            yield Block(position, b"".join(parts))
            position += whole_bytes
            parts, size, whole_bytes = next_parts, size - whole_bytes, 0
        elif len(parts) > _MAX_PARTS:
            parts = [b"".join(parts)]
    if size:
        yield Block(position, b"".join(parts))


def _start_of_long_line(chunk: bytes, earlier_bytes: int, max_line_bytes: int) -> int | None:
    start = -earlier_bytes
    while len(chunk) - start > max_line_bytes:
        # All lines up to the last newline that one line of full length could reach are short enough.
        last = chunk.rfind(b"\n", max(start, 0), start + max_line_bytes + 1)
        if last < 0:
            return start
        start = last + 1
    return None


def slices(block: Block) -> Iterator[Block]:
    """Cut a block into blocks of about 64 KiB."""
    start = 0
    while start < len(block.data):
        end = block.data.rfind(b"\n", start, start + _SLICE_BYTES) + 1 or block.data.find(b"\n", start) + 1
        end = end or len(block.data)
        yield Block(block.position + start, block.data[start:end])
        start = end


def _shorten(parts: list[bytes | memoryview], size: int) -> list[bytes | memoryview]:
    cut_parts: list[bytes | memoryview] = []
    excess = sum(map(len, parts)) - size
    while excess:
        last = memoryview(parts.pop())
        kept_bytes = max(len(last) - excess, 0)
        cut_parts.insert(0, last[kept_bytes:])
        if kept_bytes:
            parts.append(last[:kept_bytes])
        excess -= len(last) - kept_bytes
    return cut_parts
