"""HTTP/1.1 over one connection with h11's parser.

Unlike httpcore's ``HTTP11Connection``, refuses bytes after an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import h11
import httpcore

from airflow_provider_connect.errors import ConfigError

READ_BYTES = 128 << 10
MAX_HEAD_BYTES = 64 << 10
_HEAD_READ_BYTES = 4 << 10  # limit for an error's body read with the head
_MAX_INTERIM_ANSWERS = 10
_BAD_FRAMING = (  # h11's texts, which quote nothing
    "bad Content-Length",
    "conflicting Content-Length headers",
    "multiple Transfer-Encoding headers",
    "Only Transfer-Encoding: chunked is supported",
)


UNFRAMED_TEXT = (
    "sent a body with neither Content-Length nor chunks, or with contradictory ones, so a cut would go unnoticed. If "
    "there is a proxy in between, it breaks the answer"
)


class BrokenAnswerError(Exception):
    """An answer is incomplete or malformed."""


class ResponseHead(NamedTuple):
    """Status and headers of a response, in order."""

    status: int
    fields: tuple[tuple[str, str], ...]

    def values_of(self, name: str) -> list[str]:
        """Return every value of a header."""
        return [value for field, value in self.fields if field == name.lower()]

    @property
    def is_framed(self) -> bool:
        """True if either chunks or a length mark the body's end, but not both."""
        return bool(self.values_of("Transfer-Encoding")) != bool(self.values_of("Content-Length"))


class Exchange:
    """Requests and responses over one connection, in turn.

    :ivar has_received: True once a byte of the current response has arrived.

    :param timeout_seconds: longest time without a byte.
    """

    def __init__(self, stream: httpcore.NetworkStream, timeout_seconds: float) -> None:
        self._stream = stream
        self.timeout_seconds = timeout_seconds
        self.has_received = self._has_ended = False
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> None:
        """Send a request.

        :raises ConfigError: a header is invalid.
        """
        try:
            data = self._state.send(h11.Request(method=method, target=target, headers=list(headers.items())))
            if body:
                data += self._state.send(h11.Data(data=body))
            data += self._state.send(h11.EndOfMessage())
        except h11.LocalProtocolError:  # its text would quote a header
            raise ConfigError("the request cannot be sent: one of its headers is invalid in HTTP/1.1") from None
        self._stream.write(data, self.timeout_seconds)

    def read_head(self) -> ResponseHead:
        """Read status and headers. Skips interim responses such as ``100 Continue``.

        :raises BrokenAnswerError: bad headers.
        """
        for _ in range(_MAX_INTERIM_ANSWERS + 1):
            try:
                while (event := self._state.next_event()) is h11.NEED_DATA:
                    self._receive(_HEAD_READ_BYTES)
            except h11.RemoteProtocolError as error:  # its text quotes the answer
                raise BrokenAnswerError(self._head_problem(error)) from None
            if isinstance(event, h11.Response):
                if event.http_version not in (b"1.0", b"1.1"):
                    raise BrokenAnswerError("sent an answer that is not HTTP/1.1")
                fields = ((name.decode("ascii"), value.decode("latin-1")) for name, value in event.headers)
                return ResponseHead(event.status_code, tuple(fields))
        raise BrokenAnswerError(f"sent {_MAX_INTERIM_ANSWERS} interim answers and no final one")

    def read_body(self, read_bytes: int) -> Iterator[bytes]:
        """Yield the body in pieces as read.

        :raises BrokenAnswerError: the body ends before its announced end.
        """
        chunk, problem = bytearray(), ""
        try:
            while True:
                event = self._state.next_event()
                if type(event) is h11.Data:
                    chunk += event.data
                elif event is h11.NEED_DATA:
                    if chunk:
                        yield bytes(chunk)
                        chunk.clear()
                    self._receive(read_bytes)
                else:
                    break
        except h11.RemoteProtocolError:
            broken_end = "closed the connection before the announced end"
            problem = broken_end if self._has_ended else "sent malformed chunks"
        if chunk:
            yield bytes(chunk)
        if problem:
            raise BrokenAnswerError(problem)

    def start_next_cycle(self) -> bool:
        """Prepare for another request. Returns False if the connection cannot carry one."""
        states = self._state.our_state, self._state.their_state
        if states != (h11.DONE, h11.DONE) or self._state.trailing_data != (b"", False):
            return False
        self._state.start_next_cycle()
        self.has_received = False
        return True

    def _receive(self, read_bytes: int) -> None:
        data = self._stream.read(read_bytes, self.timeout_seconds)
        self.has_received = self.has_received or bool(data)
        self._has_ended = not data
        self._state.receive_data(data)

    def _head_problem(self, error: h11.RemoteProtocolError) -> str:
        if self._has_ended:
            return "broke off inside the headers" if self.has_received else "closed the connection without an answer"
        if error.error_status_hint == 431:
            return f"sent headers of more than {MAX_HEAD_BYTES} bytes"
        return UNFRAMED_TEXT if str(error) in _BAD_FRAMING else "sent a malformed header, or not HTTP/1.1"
