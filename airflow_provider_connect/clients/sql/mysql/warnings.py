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
"""Warnings after which the server sent a value other than the stored one, by number, each with its remedy."""


def require_whole_values(numbers: Sequence[int], count: int, place: str) -> None:
    """Refuse rows if the server warned that it cut or replaced a value.

    :param numbers: the numbers of the warnings that the server lists.
    :param count: the number of all warnings.
    :param place: the connection in words.
    :raises DataError: a value was cut or replaced, or the server does not list all warnings.
    """
    refused = Counter(number for number in numbers if number in _REFUSED)
    reasons = [f"{_REFUSED[number]} (warning {number}, {times:,} times)" for number, times in sorted(refused.items())]
    if not reasons and len(numbers) < count:
        reasons = [f"of {count:,} warnings it lists only {len(numbers):,}: raise max_error_count"]
    if reasons:
        raise DataError(f"{place}: reading rows: the server warns that it cut or replaced values: {'; '.join(reasons)}")
