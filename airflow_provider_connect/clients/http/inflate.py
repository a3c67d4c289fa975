"""Decompresses gzip answers. Requires every member's checksum and end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import RetriableError, SetupError

if TYPE_CHECKING:
    from airflow_provider_connect.clients.http.client import HttpResponse

OUTPUT_BYTES = 1 << 20
"""Greatest size of an output chunk."""

_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW_BITS = 31


def gunzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Decompress a gzip stream of one or more members, into chunks of at most :data:`OUTPUT_BYTES`.

    :param chunks: compressed bytes, cut anywhere.
    :raises RetriableError: the stream is empty, cut, or damaged.
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
        raise RetriableError("the answer is declared as gzip and has no bytes: it was cut")
    if head:
        _open_member(head, position)
    if member is not None:
        raise RetriableError(f"the gzip answer is cut inside a member, after {position} bytes")


def decoded_body(answer: HttpResponse) -> Iterator[bytes]:
    """Yield a response's decompressed body.

    :raises RetriableError: a cut could go unnoticed, or the encoding is neither gzip nor identity.
    """
    answer.require_framing()
    encoding = answer.header("Content-Encoding").strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise SetupError(f"{answer.host} sent an unknown Content-Encoding. Only gzip was requested")
    return gunzip(answer.chunks()) if encoding == "gzip" else answer.chunks()


def _open_member(data: bytes, position: int) -> Any:
    from isal import isal_zlib

    if data[:2] != _MAGIC:
        raise RetriableError(f"the answer is not gzip near byte {position}: no member starts there")
    return isal_zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)


def _inflate(member: Any, data: bytes, position: int) -> Iterator[bytes]:
    from isal import isal_zlib

    while True:
        try:
            output = member.decompress(data, OUTPUT_BYTES)
        except isal_zlib.error as error:  # type: ignore[misc]  # typed as an instance in its stubs
            raise RetriableError(f"the gzip answer is damaged near byte {position}: {error}") from None
        if output:
            yield output
        data = member.unconsumed_tail
        # A full piece may leave output inside the decoder with all input consumed.
        if member.eof or (not data and len(output) < OUTPUT_BYTES):
            return
