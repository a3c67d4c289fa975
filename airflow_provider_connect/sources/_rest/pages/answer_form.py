"""Describes a JSON answer for messages: its lists or fields, without values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_FIELD_NAME = re.compile(r"(?!.*[0-9]{4})@?[A-Za-z_$][\w.$-]{0,59}", re.ASCII)
_MOST_FIELDS = 40
"""A larger object is probably a map, whose names are data."""
_MOST_DEPTH = 4
_MOST_NAMED = 5


def describe_json(document: Any) -> str:
    """Return a sentence about a document's lists, or without lists about its fields.

    Names of a map are data, and left out.
    """
    if isinstance(document, list):
        return "The whole answer is a list: records.at=''"
    if not isinstance(document, dict):
        return "The answer is a single value"
    if places := list(_list_places(document, ())):
        return f"Lists are at {_joined(places)}"
    names = _field_names(document)
    return f"It has no list. Its fields are {_joined(names)}" if names else "It has no list"


def _list_places(document: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    for name in _field_names(document):
        value, place = document[name], (*path, name)
        if isinstance(value, list):
            yield name if not path else "/" + "/".join(place)
        elif isinstance(value, dict) and len(place) < _MOST_DEPTH:
            yield from _list_places(value, place)


def _field_names(document: dict[str, Any]) -> list[str]:
    if len(document) > _MOST_FIELDS:
        return []
    return [name for name in document if _FIELD_NAME.fullmatch(name)]


def joined_names(fields: list[str]) -> str:
    """Return the fields' names for a message, or their number if they do not look like field names."""
    names = [name for name in fields if _FIELD_NAME.fullmatch(name)]
    return _joined(names) if names else f"{len(fields)} of them"


def _joined(names: list[str]) -> str:
    quoted = [repr(name) for name in names[:_MOST_NAMED]]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(quoted) + more
