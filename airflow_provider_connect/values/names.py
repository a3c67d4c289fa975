"""Names of columns and records for languages with names of letters, digits and ``_``."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from airflow_provider_connect.values.hashed_names import HASH_DIGITS, has_hash, name_with_hash

if TYPE_CHECKING:
    import pyarrow as pa

_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def legal_name(name: str) -> str:
    """Return a legal name unchanged, and another one with ``_`` for each illegal character and a hash.

    A legal name that seems to end with a hash gets one, too.
    """
    if _LEGAL.fullmatch(name) and not has_hash(name):
        return name
    # Another hash than hashed_names.name_hash(): schemas are registered under these names.
    hashed_name = name_with_hash(name, hashlib.sha256(name.encode()).hexdigest()[:HASH_DIGITS])
    return f"_{hashed_name}" if hashed_name[0].isdigit() else hashed_name


def inner_name(record: str, field: str) -> str:
    """Return the name for a record nested in a field of ``record``, without namespace."""
    return f"{record}_{legal_name(field)}"


def split_name(record_name: str) -> tuple[str, str]:
    """Return namespace (may be empty) and name of a full name."""
    namespace, _, name = record_name.rpartition(".")
    return namespace, name


def children_by_legal_name(array: pa.StructArray) -> dict[str, pa.Array]:
    """Return a struct's child columns, with NULL where the struct is NULL."""
    return {legal_name(field.name): child for field, child in zip(array.type, array.flatten(), strict=True)}


def comment(field: pa.Field) -> str:
    """Return the comment in a field's metadata."""
    text: bytes = (field.metadata or {}).get(b"comment", b"")
    return text.decode()


def comment_with_name(field: pa.Field) -> str:
    """Return a field's comment, followed by the field's name if that is not legal."""
    renamed = f"Source name: {field.name!r}." if legal_name(field.name) != field.name else ""
    return " ".join(part for part in (comment(field), renamed) if part)
