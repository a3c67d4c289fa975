"""Which types of a Delta column hold every value of another type, so that a column can grow."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltalake import Field as DeltaField

_DECIMAL = re.compile(r"decimal\((?P<precision>\d+),\s*(?P<scale>-?\d+)\)")
_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_INTEGERS = tuple(_INTEGER_DIGITS)
# A date has no zone, so it is the midnight of a local time, but of no instant.
_OTHERS = {("float", "double"), ("date", "timestamp_ntz")}


def type_name(field: DeltaField) -> str:
    """Return the name of a column's type."""
    return str(getattr(field.type, "type", field.type))


def is_wider(narrow: str, wide: str) -> bool:
    """Return True if a type holds every value of another type exactly, and is not the same.

    :param narrow: name of the type of the values.
    :param wide: name of the type that may hold them.
    """
    if narrow == wide:
        return False
    if narrow in _INTEGERS and wide in _INTEGERS:
        return _INTEGERS.index(narrow) < _INTEGERS.index(wide)
    wide_digits = _decimal_digits(wide)
    narrow_digits = (_INTEGER_DIGITS[narrow], 0) if narrow in _INTEGERS else _decimal_digits(narrow)
    if wide_digits is not None and narrow_digits is not None:
        return all(
            narrow_count <= wide_count for narrow_count, wide_count in zip(narrow_digits, wide_digits, strict=True)
        )
    return (narrow, wide) in _OTHERS


def _decimal_digits(name: str) -> tuple[int, int] | None:
    """Return a decimal's digits before and after the point. None for other types."""
    match = _DECIMAL.fullmatch(name)
    return None if match is None else (int(match["precision"]) - int(match["scale"]), int(match["scale"]))
