"""Warnings by which MySQL and MariaDB say that a value was cut or replaced while rows were read.

Numbers: https://dev.mysql.com/doc/mysql-errors/9.4/en/server-error-reference.html and
https://mariadb.com/docs/server/reference/error-codes (2026-11). A warning's text quotes the value, so it is not shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from airflow_provider_connect.errors import DataError

_REFUSED = {
    1260: "GROUP_CONCAT was cut: raise max_allowed_packet, or aggregate less",
    1264: "a number lies outside its type's range: cast it to a wider type",
    1265: "a text is longer than its type, or is no value of it: cast it to a longer one",
    1292: "a text was taken for a number, a date or a shorter text, and is none. Compare texts with texts, cut them "
    "with left(), and convert those alone that can be converted",
    1300: "bytes are no text of their character set: read them with cast(column as binary)",
    1301: "a function's result is longer than max_allowed_packet: raise it, or leave the value out",
    1366: "a value is none of its type or character set: read it with cast(column as binary)",
    1411: "a text does not have the form that a function reads: convert those alone that have it",
    1916: "a number lies outside its type's range: cast it to a wider type",
    1977: "a character has no counterpart in another character set: read it with cast(column as binary)",
}
"""By number, with the remedy: what the server does instead of an error, so that another value is read."""


def require_whole_values(numbers: Sequence[int], count: int, place: str) -> None:
    """Refuse rows of which the server says that a value was cut or replaced.

    :param numbers: of the warnings that the server lists.
    :param count: how many there are.
    :param place: the connection in words.
    :raises DataError: there is one, or the server lists too few to tell.
    """
    refused = Counter(number for number in numbers if number in _REFUSED)
    reasons = [f"{_REFUSED[number]} (warning {number}, {times:,} times)" for number, times in sorted(refused.items())]
    if not reasons and len(numbers) < count:
        reasons = [f"it has {count:,} warnings and lists {len(numbers):,}: raise max_error_count"]
    if reasons:
        raise DataError(
            f"{place}: reading rows: the server warns that values are not as they are stored: {'; '.join(reasons)}"
        )
