"""Reads links and numbers that decide about paging."""

from __future__ import annotations

import re
from typing import Any

_LINK = re.compile(r'<([^>]*)>((?:\s*;\s*[\w!#$&+\-.^`|~*]+(?:\s*=\s*(?:"[^"]*"|[^\s;,"]+))?)*)')
_REL = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,"]+))', re.IGNORECASE)
_WHOLE_NUMBER = re.compile(r"([0-9]{1,18}|[0-9]{1,3}(?:,[0-9]{3}){1,5})(?:\.0{1,2})?")


def link_with_relation(header: str, rel: str) -> str | None:
    """Return the address with this relation in a header Link (RFC 8288), or None."""
    for address, parameters in _LINK.findall(header):
        match = _REL.search(parameters)
        if match and rel.lower() in (match[1] or match[2]).lower().split():
            return str(address)
    return None


def whole_number(value: Any) -> int | None:
    """Return 60, 60.0, ``60.0`` or ``1,060`` as an int. None if negative or not whole.

    ``1.000`` is None, since it may be a thousand.
    """
    if isinstance(value, str):
        match = _WHOLE_NUMBER.fullmatch(value.strip())
        return None if match is None else int(match[1].replace(",", ""))
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        return None
    return int(value) if isinstance(value, int) or value.is_integer() else None
