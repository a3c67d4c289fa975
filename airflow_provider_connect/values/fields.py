"""Names of fields and records where a schema language takes letters, digits and ``_`` alone."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RECORD = re.compile(rf"{_LEGAL.pattern}(\.{_LEGAL.pattern})*")
_HASHED = re.compile(r".*_x[0-9a-f]{10}")


def legal_name(name: str) -> str:
    """Return a field's name; one that is not legal gets ``_`` for what is not, and always its hash at the end.

    That depends on the name alone, so ``a.b`` never becomes ``a_b``. A legal name that ends as a hash does gets its own
    too, so that no two names become the same.
    """
    if _LEGAL.fullmatch(name) and not _HASHED.fullmatch(name):
        return name
    shown = re.sub(r"[^A-Za-z0-9_]", "_", name)
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{'_' if shown[:1].isdigit() else ''}{shown}_x{digest}"


def inner_name(record: str, field: str) -> str:
    """Return the name of the record that a field of another record holds; both without namespace."""
    return f"{record}_{legal_name(field)}"


def split_name(record_name: str) -> tuple[str, str]:
    """Return namespace and name of a full name; the namespace may be empty."""
    namespace, _, name = record_name.rpartition(".")
    return namespace, name


def name_problems(record_name: str) -> list[str]:
    """Say what is wrong with the full name of a record."""
    if _RECORD.fullmatch(record_name):
        return []
    return [f"record_name {record_name!r} is no full name: words of letters, digits and _, joined by dots"]


def comment(field: pa.Field) -> str:
    """Return what a field's metadata says about it, and its own name where that is not legal."""
    text: str = (field.metadata or {}).get(b"comment", b"").decode()
    renamed = f"Source name: {field.name!r}." if legal_name(field.name) != field.name else ""
    return " ".join(part for part in (text, renamed) if part)
