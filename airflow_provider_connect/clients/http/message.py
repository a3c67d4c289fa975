"""An HTTP/1.1 answer as it comes over a connection, read strictly: what may be cut is refused.

Python's own clients take a head that breaks off for a whole one, ``notchunked``, ``+5`` and ``0x10`` for framing, and a
chunk's size that was cut after its first zeros for the end of the body. Each of these could make a part of a day pass
for the whole day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BufferedReader
from typing import Literal, NamedTuple

READ_BYTES = 256 << 10
MAX_HEAD_BYTES = 64 << 10
_MAX_INTERIM_ANSWERS = 10
_MAX_CHUNK_LINE_BYTES = 4 << 10

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?\r?\n")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\r\n]*?)[ \t]*\r?\n")
_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")

Framing = Literal["chunked"] | int | None
"""How the end of a body is told: by chunks, by a length, or by nothing but the end of the connection."""


class BrokenAnswerError(Exception):
    """An answer is not whole; the text says what the server did."""


class Head(NamedTuple):
    """Status and header fields of an answer, in their order.

    :param minor: of the version: 1 in HTTP/1.1.
    """

    status: int
    fields: tuple[tuple[str, str], ...]
    minor: int = 1

    def all(self, name: str) -> list[str]:
        """Return every value of a header."""
        return [value for field, value in self.fields if field == name.lower()]

    @property
    def keeps_open(self) -> bool:
        """Whether the connection stays open behind the body's end."""
        options = ",".join(self.all("Connection")).lower().split(",")
        return self.minor == 1 and self.framing is not None and "close" not in [option.strip() for option in options]

    @property
    def framing(self) -> Framing:
        """How the body's end is told; None also where the headers contradict each other."""
        codings, lengths = self.all("Transfer-Encoding"), self.all("Content-Length")
        if codings:
            return "chunked" if [coding.lower() for coding in codings] == ["chunked"] and not lengths else None
        return int(lengths[0]) if len(lengths) == 1 and _LENGTH.fullmatch(lengths[0]) else None


def read_head(stream: BufferedReader) -> Head:
    """Read up to the body, past interim answers such as ``100 Continue``.

    :raises BrokenAnswerError: it breaks off, is too long, or is not HTTP.
    """
    left = MAX_HEAD_BYTES
    for _ in range(_MAX_INTERIM_ANSWERS + 1):
        head, left = _one_head(stream, left)
        if not 100 <= head.status < 200 or head.status == 101:
            return head
    raise BrokenAnswerError(f"sent {_MAX_INTERIM_ANSWERS} interim answers and no final one")


def _one_head(stream: BufferedReader, left: int) -> tuple[Head, int]:
    line = _head_line(stream, left)
    left -= len(line)
    status = _STATUS.fullmatch(line)
    if status is None:
        raise BrokenAnswerError("sent an answer that is not HTTP/1.1")
    fields: list[tuple[str, str]] = []
    while (line := _head_line(stream, left)) not in (b"\r\n", b"\n"):
        left -= len(line)
        field = _FIELD.fullmatch(line)
        if field is None:
            raise BrokenAnswerError("sent a malformed header")
        fields.append((field[1].decode("ascii").lower(), field[2].decode("latin-1")))
    return Head(int(status[2]), tuple(fields), int(status[1])), left - len(line)


def _head_line(stream: BufferedReader, left: int) -> bytes:
    line = stream.readline(max(left, 0) + 1)
    if len(line) > left:
        raise BrokenAnswerError(f"sent headers of more than {MAX_HEAD_BYTES} bytes")
    if not line.endswith(b"\n"):
        began = line or left < MAX_HEAD_BYTES
        raise BrokenAnswerError("broke off inside the headers" if began else "closed the connection without an answer")
    return line


def read_body(stream: BufferedReader, framing: Framing, read_bytes: int = READ_BYTES) -> Iterator[bytes]:
    """Yield the body in the pieces in which it arrives.

    :param read_bytes: the most of one piece.
    :raises BrokenAnswerError: it ends before the end that was announced.
    """
    if framing == "chunked":
        yield from _chunked(stream, read_bytes)
    elif framing is None:
        while piece := stream.read1(read_bytes):
            yield piece
    else:
        yield from _exactly(stream, framing, read_bytes)


def _exactly(stream: BufferedReader, size: int, read_bytes: int) -> Iterator[bytes]:
    while size:
        piece = stream.read1(min(size, read_bytes))
        if not piece:
            raise BrokenAnswerError("closed the connection before the end it had announced")
        size -= len(piece)
        yield piece


def _chunked(stream: BufferedReader, read_bytes: int) -> Iterator[bytes]:
    while size := _chunk_size(stream):
        yield from _exactly(stream, size, read_bytes)
        if stream.read(2) != b"\r\n":
            raise BrokenAnswerError("broke off inside a chunk, or sent malformed chunks")
    _skip_trailers(stream)


def _skip_trailers(stream: BufferedReader) -> None:
    """Read past what may follow the last chunk; if the connection ends here, nothing of the body is missing."""
    left = MAX_HEAD_BYTES
    while (line := stream.readline(left)) not in (b"\r\n", b"\n", b""):
        left -= len(line)
        if left <= 0:
            raise BrokenAnswerError(f"sent trailers of more than {MAX_HEAD_BYTES} bytes")


def _chunk_size(stream: BufferedReader) -> int:
    line = stream.readline(_MAX_CHUNK_LINE_BYTES)
    size = _CHUNK_SIZE.fullmatch(line)
    if size is None:
        is_cut = not line.endswith(b"\n") and len(line) < _MAX_CHUNK_LINE_BYTES
        raise BrokenAnswerError(
            "closed the connection before the last chunk it had announced" if is_cut else "sent malformed chunks"
        )
    return int(size[1], 16)
