"""Makes names that a target accepts from any text.

A legal text stays. Any other becomes ``<legal part>_x<10 hex digits of its hash>``, so no two texts share a name.
"""

from __future__ import annotations

import hashlib
import re

HASH_DIGITS = 10
HASH_SUFFIX_CHARS = HASH_DIGITS + 2
"""Length of ``_x`` and the digits."""
_MARKED = re.compile(rf".*_x[0-9a-f]{{{HASH_DIGITS}}}", re.DOTALL)
_MARKED_IN_ANY_CASE = re.compile(_MARKED.pattern, re.DOTALL | re.IGNORECASE)


def name_with_hash(
    text: str, hash_digits: str, *, legal_chars: str = "A-Za-z0-9_", max_chars: int | None = None
) -> str:
    """Return a text with ``_`` for every illegal character, and a hash at the end.

    :param hash_digits: :func:`name_hash` of everything that distinguishes names.
    :param legal_chars: as in a regular expression.
    :param max_chars: before the suffix.
    """
    return f"{re.sub(f'[^{legal_chars}]', '_', text)[:max_chars]}_x{hash_digits}"


def has_hash(name: str, *, any_case: bool = False) -> bool:
    """Return True if a name ends like a hash suffix."""
    return (_MARKED_IN_ANY_CASE if any_case else _MARKED).fullmatch(name) is not None


def name_hash(data: str | bytes) -> str:
    """Return a hash that distinguishes names. Not for secrets."""
    data_bytes = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return hashlib.blake2b(data_bytes).hexdigest()[:HASH_DIGITS]


def value_hash(value: str | None) -> str:
    """Return the hash of a column's value, for None another than of any text."""
    return name_hash(b"\x00null" if value is None else b"\x01" + value.encode("utf-8", "surrogatepass"))
