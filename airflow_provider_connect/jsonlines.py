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
    position = size = 0
    parts: list[bytes] = []  # whole lines
    rest: list[bytes] = []  # the beginning of a line
    rest_bytes = 0
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if end:
            parts += [*rest, chunk[:end]]
            size += rest_bytes + end
            rest, rest_bytes = [chunk[end:]], len(chunk) - end
        else:
            rest.append(chunk)
            rest_bytes += len(chunk)
        too_long = rest_bytes > max_line_bytes
        if size >= block_bytes or (size and too_long):  # what is whole is not held back
            yield Block(position, b"".join(parts))
            position += size
            parts, size = [], 0
        if too_long:
            raise LineTooLongError(
                f"the line at byte {position} of the answer is longer than max_record_bytes={max_line_bytes}"
            )
    if size or rest_bytes:
        yield Block(position, b"".join(parts + rest))
