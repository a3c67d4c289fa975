"""Names of columns and records for languages whose names are letters, digits and ``_`` alone."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from airflow_provider_connect.values.hashed_names import HASH_DIGITS, has_hash, name_with_hash

if TYPE_CHECKING:
    import pyarrow as pa

_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def legal_name(name: str) -> str:
    """Return a column's name if it is legal; else with ``_`` for each illegal character, and its hash at the end.

    So ``a.b`` never becomes ``a_b``, whatever the other columns are called. A legal name that looks as if it ended with
    a hash gets its own too: no two names become the same.
    """
    if _LEGAL.fullmatch(name) and not has_hash(name):
        return name
    # Another hash than marks.digest(): schemas are registered under these names.
    made = name_with_hash(name, hashlib.sha256(name.encode()).hexdigest()[:HASH_DIGITS])
    return f"_{made}" if made[0].isdigit() else made


def inner_name(record: str, field: str) -> str:
    """Return the name of the record inside a field of another record; both without namespace."""
    return f"{record}_{legal_name(field)}"


def split_name(record_name: str) -> tuple[str, str]:
    """Return namespace and name of a full name; the namespace may be empty."""
    namespace, _, name = record_name.rpartition(".")
    return namespace, name


def children_by_legal_name(array: pa.StructArray) -> dict[str, pa.Array]:
    """Return the columns inside a column of structs, NULL where the struct is."""
    return {legal_name(field.name): child for field, child in zip(array.type, array.flatten(), strict=True)}


def comment(field: pa.Field) -> str:
    """Return what a field's metadata says about it."""
    text: bytes = (field.metadata or {}).get(b"comment", b"")
    return text.decode()


def comment_with_name(field: pa.Field) -> str:
    """Return a field's comment, and its own name where that is not legal."""
    renamed = f"Source name: {field.name!r}." if legal_name(field.name) != field.name else ""
    return " ".join(part for part in (comment(field), renamed) if part)
