"""Rows of PyMySQL that come as they are asked for, and what it knows of a result and tells nobody."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pymysql

_ROWS = 1_000


def stream(session: pymysql.Connection[Any]) -> Any:
    """Return a cursor whose rows are not kept; it has ``fields``, :meth:`texts` and :meth:`abandon`, too."""
    return _type()(session)


@lru_cache(maxsize=1)
def _type() -> type[Any]:
    from pymysql.cursors import SSCursor

    class Stream(SSCursor):
        @property
        def fields(self) -> list[Any]:
            """How the protocol describes the columns; ``description`` tells no sign and no character set."""
            return list(self._result.fields)  # type: ignore[attr-defined]

        def texts(self) -> Iterator[bytes | None]:
            """Yield the rows, each of which is one text. Then ``warning_count`` is the server's number of warnings.

            :raises MySQLError: as PyMySQL raises it.
            """
            while rows := self.fetchmany(_ROWS):
                for (text,) in rows:
                    yield text

        def abandon(self) -> None:
            """Leave what was not read where it is: the session is of no use then.

            Otherwise PyMySQL reads all the rest as soon as the cursor goes, and complains if that fails.
            """
            if self._result is not None:  # type: ignore[attr-defined]
                self._result.unbuffered_active = False  # type: ignore[attr-defined]
            self.connection = None  # type: ignore[assignment]

    return Stream
