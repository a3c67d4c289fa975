"""Names that a target accepts, made from any text.

A text that is legal keeps its form. Any other becomes ``<legal part>_x<10 hex digits of its hash>``, which depends on
nothing but the text. One that is legal and ends like that gets a hash as well, so that no two texts share a name. Which
texts are legal is the target's to say.
"""

from __future__ import annotations

import hashlib
import re

HASH_DIGITS = 10
HASH_SUFFIX_CHARS = HASH_DIGITS + 2
"""How many characters the mark of a hash takes: ``_x`` and the digits."""
_MARKED = re.compile(rf".*_x[0-9a-f]{{{HASH_DIGITS}}}", re.DOTALL)
_MARKED_IN_ANY_CASE = re.compile(_MARKED.pattern, re.DOTALL | re.IGNORECASE)


def name_with_hash(
    text: str, hash_digits: str, *, legal_chars: str = "A-Za-z0-9_", max_chars: int | None = None
) -> str:
    """Return a text with ``_`` for every character that is not legal, and a hash at its end.

    :param digest: of whatever the name must tell apart: :func:`name_hash`.
    :param legal: the characters, as in a class of a regular expression.
    :param room: how many characters the name may have before its mark; None for all.
    """
    return f"{re.sub(f'[^{legal_chars}]', '_', text)[:max_chars]}_x{hash_digits}"


def has_hash(name: str, *, any_case: bool = False) -> bool:
    """Tell whether a name ends as one with a hash does."""
    return (_MARKED_IN_ANY_CASE if any_case else _MARKED).fullmatch(name) is not None


def name_hash(data: str | bytes) -> str:
    """Return the hash that tells names apart; not for secrecy."""
    told = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return hashlib.blake2b(told).hexdigest()[:HASH_DIGITS]


def value_hash(value: str | None) -> str:
    """Return the hash of a column's value; that of None is no text's."""
    return name_hash(b"\x00null" if value is None else b"\x01" + value.encode("utf-8", "surrogatepass"))
