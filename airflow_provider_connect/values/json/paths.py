"""Where something stands in a JSON document: the name of a field, or a JSON Pointer. DAG files import this.

A text that begins with ``/`` is a pointer (RFC 6901): ``/meta/next``. Any other is the name of one field, dots, ``@``
and all: so ``@odata.nextLink`` is found, and nothing is ever split by a guess. "" is the whole document.

Not jmespath, for which a missing field is null, nor jsonpath-ng: both split bare names at dots, neither reads pointers.
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
"""What :func:`value_at` returns where there is nothing, which is not the same as null."""


def path_steps(path: str) -> tuple[str, ...]:
    """Return the names on the way to a place.

    :raises ValueError: it is a pointer with a wrong escape.
    """
    if not path.startswith("/"):
        return (path,) if path else ()
    if _WRONG_ESCAPE.search(path):
        raise ValueError(f"{path!r}: in a JSON Pointer '~' is written as '~0', and a '/' in a name as '~1'")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/"))


def _checked(place: str) -> str:
    path_steps(place)
    return place


FieldPath = Annotated[str, AfterValidator(_checked)]


def value_at(document: Any, path: str) -> Any:
    """Return what stands at a place in a decoded document; :data:`MISSING` if nothing does."""
    return value_at_steps(document, path_steps(path), MISSING)


def value_at_steps(document: Any, steps: Sequence[str], default: Any = None) -> Any:
    """Return what stands in a decoded document at the end of these steps; ``nothing`` if they lead nowhere."""
    for step in steps:
        if isinstance(document, dict):
            document = document.get(step, default)
        elif isinstance(document, list) and step.isascii() and step.isdigit() and int(step) < len(document):
            document = document[int(step)]
        else:
            return default
    return document


def suggest_pointer(document: Any, path: str) -> str | None:
    """Return the pointer that was probably meant by a name with dots, if there is something; else None."""
    if path.startswith("/") or "." not in path or value_at(document, path) is not MISSING:
        return None
    pointer = "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in path.split("."))
    return pointer if value_at(document, pointer) is not MISSING else None
