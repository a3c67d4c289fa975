"""Rows of PyMySQL that come as they are asked for: those of one text each, many at a time.

PyMySQL reads a row's header, then the row, checks both, and makes a tuple of its texts: four of the six microseconds
that such a row takes on its way. Here, of what has arrived already, whole rows are cut out at once. All else is left to
PyMySQL: the row that has arrived in part, the end, errors, and every row that is longer than 16 MB.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pymysql

_AHEAD_BYTES = 256 << 10
"""How much of what has arrived is looked at at once."""
_HEADER = struct.Struct("<I")
_HEADER_BYTES = 4
_LONGEST = 0xFFFFFF
"""A packet of this length goes on in the next one."""
_LENGTH_BYTES = dict.fromkeys(range(0xFB), 1) | {0xFC: 3, 0xFD: 4}
"""How many bytes say how long a text is, by the first of them; others mean NULL, the end or an error.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_dt_integers.html (2026-11)
"""


def stream(session: pymysql.Connection[Any]) -> Any:
    """Return a cursor whose rows are not kept; it has ``fields``, :meth:`texts` and :meth:`abandon`, too."""
    return _type()(session)


def warnings_raised(rows: Any) -> int:
    """Return the number of warnings of a :func:`stream`'s statement. The server sends it after the last row."""
    return int(rows._result.warning_count)


def whole_rows(ahead: bytes, number: int) -> tuple[list[bytes], int]:
    """Return the rows of one text at the beginning of what has arrived, and how many bytes they take.

    :param number: of the next packet; each counts one more, and 0 comes after 255.
    """
    rows: list[bytes] = []
    at, size = 0, len(ahead)
    while at + _HEADER_BYTES < size:
        (header,) = _HEADER.unpack_from(ahead, at)
        length = header & _LONGEST
        end = at + _HEADER_BYTES + length
        skipped = _LENGTH_BYTES.get(ahead[at + _HEADER_BYTES])
        if end > size or header >> 24 != number or skipped is None or not 0 < length < _LONGEST:
            break
        rows.append(ahead[at + _HEADER_BYTES + skipped : end])
        at, number = end, (number + 1) & 0xFF
    return rows, at


def _read_ahead(session: Any) -> None:
    """Read larger pieces from here on: nothing is on its way yet. Of a closed session, PyMySQL says that it is."""
    if session.open:
        with session._rfile:
            session._rfile = session._sock.makefile("rb", _AHEAD_BYTES)


@lru_cache(maxsize=1)
def _type() -> type[Any]:
    from pymysql.constants import CR
    from pymysql.cursors import SSCursor
    from pymysql.err import OperationalError

    class Stream(SSCursor):
        @property
        def fields(self) -> list[Any]:
            """How the protocol describes the columns; ``description`` tells no sign and no character set."""
            return list(self._result.fields)  # type: ignore[attr-defined]

        def texts(self) -> Iterator[bytes | None]:
            """Yield the rest of the rows, each of which is one text.

            :raises MySQLError: as when PyMySQL reads them.
            """
            session: Any = self.connection
            while (row := self.read_next()) is not None:
                yield row[0]
                while rows := self._arrived(session):
                    yield from rows

        def _arrived(self, session: Any) -> list[bytes]:
            """Take the rows that have arrived whole."""
            try:
                rows, size = whole_rows(session._rfile.peek(), session._next_seq_id)
            except OSError as error:
                session._force_close()
                raise OperationalError(CR.CR_SERVER_LOST, f"Lost connection to MySQL server ({error})") from None
            session._rfile.read(size)
            session._next_seq_id = (session._next_seq_id + len(rows)) % 256
            return rows

        def execute(self, query: Any, args: Any = None) -> int:
            """Send a statement, and read from here on what arrives in larger pieces."""
            _read_ahead(self.connection)
            return super().execute(query, args)

        def abandon(self) -> None:
            """Leave what was not read where it is: the session is of no use then.

            Otherwise PyMySQL reads all the rest as soon as the cursor goes, and complains if that fails.
            """
            if self._result is not None:  # type: ignore[attr-defined]
                self._result.unbuffered_active = False  # type: ignore[attr-defined]
            self.connection = None  # type: ignore[assignment]

    return Stream
