"""What does not fit between our own schema and a registered one, in the same words for every language."""

from __future__ import annotations


def missing(where: str) -> str:
    """Say that the registered schema lacks a field of ours."""
    return f"{where}: not in the registered schema"


def differing(where: str, own: str, registered: str) -> str:
    """Say that a field is of another type."""
    return f"{where}: {own} here, {registered} in the registered schema"


def wanted(where: str, source: str = "has no such column") -> str:
    """Say that the registered schema wants a field that the source does not always have."""
    return f"{where}: the registered schema wants a value, and the source {source}"
