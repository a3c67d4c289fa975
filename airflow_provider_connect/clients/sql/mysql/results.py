"""PyMySQL's results: column types, rows and warnings.

Columns:
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset_column_definition.html
and https://mariadb.com/docs/server/reference/clientserver-protocol/4-server-response-packets/result-set-packets
(2026-11), with the type names of ``information_schema``.

Warnings: https://dev.mysql.com/doc/mysql-errors/9.4/en/server-error-reference.html and
https://mariadb.com/docs/server/reference/error-codes (2026-11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import DataError

if TYPE_CHECKING:
    import pymysql

_NOT_NULL, _UNSIGNED, _ENUM, _SET = 1, 32, 256, 2048
_BINARY_CHARSET = 63
_INTEGERS = {1: "tinyint", 2: "smallint", 3: "int", 8: "bigint", 9: "mediumint"}
_OTHER_TYPES = {
    4: "float", 5: "double", 6: "null", 7: "timestamp", 10: "date", 11: "time", 12: "datetime", 13: "year", 14: "date",
    242: "vector", 245: "json", 255: "geometry",
}  # fmt: skip
_DECIMALS = {0, 246}
_BIT = 16
_CHAR = 254
_UUID_BYTES = 36 * 4
"""Bytes of a UUID's text in utf8mb4."""
QUERIED_TEXTS = {"longtext", "enum", "set"}
"""Types of a query's columns with a character set."""
_TEXTS = {15, 247, 248, 249, 250, 251, 252, 253, 254}


def type_name(field: Any) -> str:
    """Return the type name of a result column, PyMySQL's ``FieldDescriptorPacket``."""
    code, flags = field.type_code, field.flags
    unsigned = " unsigned" if flags & _UNSIGNED else ""
    if code in _INTEGERS:
        return _INTEGERS[code] + unsigned
    if code in _DECIMALS:
        # The length includes the point and the sign.
        digits = field.length - (1 if field.scale else 0) - (0 if unsigned else 1)
        return f"decimal({digits},{field.scale}){unsigned}"
    if code == _BIT:
        return f"bit({field.length})"
    return _text_name(field) if code in _TEXTS else _OTHER_TYPES.get(code, f"type {code}")


def _text_name(field: Any) -> str:
    flags = field.flags
    if flags & (_ENUM | _SET):
        return "enum" if flags & _ENUM else "set"
    # MariaDB sends UUIDs and addresses as CHAR, and only these are unsigned (10.11.19, 2026-11).
    if field.type_code == _CHAR and flags & _UNSIGNED and field.length == _UUID_BYTES:
        return "uuid"
    return "longblob" if field.charsetnr == _BINARY_CHARSET else "longtext"


_FETCHED_ROWS = 1_000


def stream_cursor(session: pymysql.Connection[Any]) -> Any:
    """Return an unbuffered cursor with ``fields``, :meth:`texts` and :meth:`abandon`."""
    return _stream_cursor_class()(session)


@lru_cache(maxsize=1)
def _stream_cursor_class() -> type[Any]:
    from pymysql.cursors import SSCursor

    class Stream(SSCursor):
        @property
        def fields(self) -> list[Any]:
            """Columns as the protocol describes them, with sign and character set."""
            return list(self._result.fields)  # type: ignore[attr-defined]

        def texts(self) -> Iterator[bytes | None]:
            """Yield the rows, one text each, then set ``warning_count``."""
            while rows := self.fetchmany(_FETCHED_ROWS):
                for (text,) in rows:
                    yield text

        def abandon(self) -> None:
            """Leave the remaining rows unread, which makes the session unusable."""
            if self._result is not None:  # type: ignore[attr-defined]
                self._result.unbuffered_active = False  # type: ignore[attr-defined]
            self.connection = None  # type: ignore[assignment]

    return Stream


_LOSSY_WARNINGS = {
    1260: "GROUP_CONCAT was cut: raise max_allowed_packet, or aggregate less",
    1264: "a number lies outside its type's range: cast it to a wider type",
    1265: "a text does not fit its type: cast it to a longer one",
    1292: "a text was converted to a number, a date or a shorter text that it does not fit. Compare texts with texts, "
    "shorten them with left(), and convert only texts that fit",
    1300: "bytes are not valid in their character set: read them with cast(column as binary)",
    1301: "a function's result is longer than max_allowed_packet: raise it, or leave the value out",
    1366: "a value does not fit its type or character set: read it with cast(column as binary)",
    1411: "a function could not parse a text: convert only texts of the form that it reads",
    1916: "a number lies outside its type's range: cast it to a wider type",
    1977: "a character has no counterpart in another character set: read it with cast(column as binary)",
}
"""Warnings, by number, that a sent value differs from the stored value, with remedies."""


def require_unchanged_values(numbers: Sequence[int], count: int, label: str) -> None:
    """Refuse rows if the server warned that it cut or replaced a value.

    :raises DataError: a value was changed, or a warning is unlisted.
    """
    lossy_warnings = Counter(number for number in numbers if number in _LOSSY_WARNINGS)
    reasons = [
        f"{_LOSSY_WARNINGS[number]} (warning {number}, {times:,} times)"
        for number, times in sorted(lossy_warnings.items())
    ]
    if not reasons and len(numbers) < count:
        reasons = [f"of {count:,} warnings it lists only {len(numbers):,}: raise max_error_count"]
    if reasons:
        raise DataError(f"{label}: reading rows: the server warns that it cut or replaced values: {'; '.join(reasons)}")
