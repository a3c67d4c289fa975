"""Gzip decoder for answers: every member, checksum and end required, output bounded.

The HTTP clients of Python accept a gzip body that was cut inside intact framing, and one that lacks its
checksum; ``httpx`` and a single ``decompressobj`` drop all members after the first. Each of these would
lose events in silence, so bodies are decoded here, from raw bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from airflow_provider_connect.errors import RetriableError

OUTPUT_BYTES = 1 << 20
"""The most that one step decodes, whatever the input expands to."""

_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW_BITS = 31


def gunzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Decode a gzip stream of one or more members.

    :param chunks: the raw bytes, cut anywhere; empty chunks are allowed.
    :return: pieces of at most :data:`OUTPUT_BYTES`.
    :raises RetriableError: if the stream is cut or has not one byte, its checksum or length is wrong, or something
        that is no gzip member stands in it.
    """
    member: Any = None
    position = 0
    head = b""
    for chunk in chunks:
        data = head + chunk
        head = b""
        while data:
            if member is None:
                if len(data) < len(_MAGIC):
                    head = data
                    break
                member = _open_member(data, position)
            yield from _inflate(member, data, position)
            data = member.unused_data if member.eof else b""
            member = None if member.eof else member
        position += len(chunk)
    if position == 0:
        raise RetriableError("the answer is said to be gzip and has not one byte: it is cut, not empty")
    if head:
        _open_member(head, position)
    if member is not None:
        raise RetriableError(f"the gzip answer is cut: it ends inside a member, after {position} bytes")


def _open_member(data: bytes, position: int) -> Any:
    from isal import isal_zlib

    if data[:2] != _MAGIC:
        raise RetriableError(f"the answer is no gzip near its byte {position}: no member starts there")
    return isal_zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)


def _inflate(member: Any, data: bytes, position: int) -> Iterator[bytes]:
    from isal import isal_zlib

    while True:
        try:
            piece = member.decompress(data, OUTPUT_BYTES)
        except isal_zlib.error as error:  # type: ignore[misc]  # typed as an instance in its stubs
            raise RetriableError(f"the gzip answer is damaged near its byte {position}: {error}") from None
        if piece:
            yield piece
        data = member.unconsumed_tail
        # A full piece may leave output inside the decoder with all input consumed.
        if member.eof or (not data and len(piece) < OUTPUT_BYTES):
            return
