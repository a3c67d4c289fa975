"""The columns of a query, as the protocol describes them, in the words of ``information_schema``.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset_column_definition.html
and https://mariadb.com/docs/server/reference/clientserver-protocol/4-server-response-packets/result-set-packets
(2026-11).
"""

from __future__ import annotations

from typing import Any

_NOT_NULL, _UNSIGNED, _ENUM, _SET = 1, 32, 256, 2048
_BINARY_CHARSET = 63
_INTEGERS = {1: "tinyint", 2: "smallint", 3: "int", 8: "bigint", 9: "mediumint"}
_OTHERS = {
    4: "float", 5: "double", 6: "null", 7: "timestamp", 10: "date", 11: "time", 12: "datetime", 13: "year", 14: "date",
    242: "vector", 245: "json", 255: "geometry",
}  # fmt: skip
_DECIMALS = {0, 246}
_BIT = 16
_CHAR = 254
_UUID_BYTES = 36 * 4
"""Length of a UUID's text in utf8mb4, every session's character set."""
QUERIED_TEXTS = {"longtext", "enum", "set"}
"""Types of a query's texts, which have a character set."""
_TEXTS = {15, 247, 248, 249, 250, 251, 252, 253, 254}


def type_name(field: Any) -> str:
    """Return a field's type, as far as it decides how the column is read.

    :param field: a ``FieldDescriptorPacket`` of PyMySQL.
    """
    code, flags = field.type_code, field.flags
    unsigned = " unsigned" if flags & _UNSIGNED else ""
    if code in _INTEGERS:
        return _INTEGERS[code] + unsigned
    if code in _DECIMALS:
        # The length has room for the point and the sign.
        digits = field.length - (1 if field.scale else 0) - (0 if unsigned else 1)
        return f"decimal({digits},{field.scale}){unsigned}"
    if code == _BIT:
        return f"bit({field.length})"
    return _text_name(field) if code in _TEXTS else _OTHERS.get(code, f"type {code}")


def _text_name(field: Any) -> str:
    flags = field.flags
    if flags & (_ENUM | _SET):
        return "enum" if flags & _ENUM else "set"
    # MariaDB sends UUIDs and addresses as CHAR, and only these are unsigned (10.11.19, 2026-11).
    if field.type_code == _CHAR and flags & _UNSIGNED and field.length == _UUID_BYTES:
        return "uuid"
    return "longblob" if field.charsetnr == _BINARY_CHARSET else "longtext"
