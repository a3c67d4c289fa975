"""Paths in a JSON document: the name of a field, or a JSON Pointer.

A text that begins with ``/`` is a pointer (RFC 6901): ``/meta/next``. Any other text is the name of one field, "" the
entire document.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator

_WRONG_ESCAPE = re.compile("~(?![01])")


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()
"""A missing value in the result of :func:`value_at`. A null is not missing."""


def path_steps(path: str) -> tuple[str, ...]:
    """Return the names along a path.

    :raises ValueError: the path is a pointer with a wrong escape.
    """
    if not path.startswith("/"):
        return (path,) if path else ()
    if _WRONG_ESCAPE.search(path):
        raise ValueError(f"{path!r}: in a JSON Pointer '~' is written as '~0', and a '/' in a name as '~1'")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/"))


def _valid_path(path: str) -> str:
    path_steps(path)
    return path


FieldPath = Annotated[str, AfterValidator(_valid_path)]


def value_at(document: Any, path: str) -> Any:
    """Return the value at a path in a decoded document, or :data:`MISSING`."""
    return value_at_steps(document, path_steps(path), MISSING)


def value_at_steps(document: Any, steps: Sequence[str], default: Any = None) -> Any:
    """Return the value at the end of a path's steps in a decoded document, or ``default``."""
    for step in steps:
        if isinstance(document, dict):
            document = document.get(step, default)
        elif isinstance(document, list) and step.isascii() and step.isdigit() and int(step) < len(document):
            document = document[int(step)]
        else:
            return default
    return document


def put_at(document: Any, steps: tuple[str, ...], value: Any) -> Any:
    """Return a JSON document with a value at a path. Objects on the way are created."""
    if not steps:
        return value
    container = document if isinstance(document, dict) else {}
    return {**container, steps[0]: put_at(container.get(steps[0]), steps[1:], value)}


def suggest_pointer(document: Any, path: str) -> str | None:
    """Return the pointer probably meant by a name with dots, if it leads to a value."""
    if path.startswith("/") or "." not in path or value_at(document, path) is not MISSING:
        return None
    pointer = "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in path.split("."))
    return pointer if value_at(document, pointer) is not MISSING else None
