"""Describes an answer's fields and a request's parameters, as input for a proposal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.errors import DataError


@dataclass(frozen=True)
class Parameter:
    """One query parameter.

    :param type: JSON Schema type: string, integer, number or boolean.
    :param format: JSON Schema format, such as date or date-time, or "".
    """

    name: str
    type: str = "string"
    format: str = ""
    maximum: int | None = None


@dataclass(frozen=True)
class ResponseShape:
    """Structure of an answer, without its values.

    :param at: path of the list of records.
    :param columns: type by scalar field of a record.
    :param other_fields: kind of each scalar field outside the list, by path: ``string``, ``link``, ``integer``,
        ``boolean``, ``null`` or ``number``.
    :param has_next_link: a header Link names a next page.
    """

    at: str
    columns: Mapping[str, str]
    other_fields: Mapping[str, str] = field(default_factory=dict)
    has_next_link: bool = False


def pointer_to(*keys: str) -> str:
    """Join keys to a path. Several keys become a JSON Pointer."""
    if len(keys) == 1 and keys[0] and not keys[0].startswith("/"):
        return keys[0]
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in keys)


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_NEXT = re.compile(r'rel\s*=\s*"?[^",;]*\bnext\b', re.IGNORECASE)
_DEEPEST = 3
_LONG = 2**63


def detect_shape(body: bytes, headers: Mapping[str, str]) -> ResponseShape:
    """Return the structure of an answer. The longest list of objects counts as the records.

    :param headers: with lower-case names.
    :raises DataError: the answer is not JSON, or has no list of objects.
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise DataError("the answer is not JSON, so no declaration can be proposed") from None
    lists = sorted(_lists(answer, ()), key=lambda candidate: (-len(candidate[1]), len(candidate[0])))
    if not lists:
        raise DataError("the answer has no list of objects: use a path, or a day, with records, or declare it by hand")
    names, records = lists[0]
    fields = dict.fromkeys(name for record in records for name in record)
    columns = {name: kind for name in fields if (kind := _column([record.get(name) for record in records]))}
    return ResponseShape(
        at=pointer_to(*names) if names else "",
        columns=columns,
        other_fields=dict(_other_fields(answer, ())) if isinstance(answer, dict) else {},
        has_next_link=_NEXT.search(headers.get("link", "")) is not None,
    )


def _lists(value: Any, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[dict[str, Any]]]]:
    if isinstance(value, list):
        if value and all(isinstance(item, dict) for item in value):
            yield names, value
    elif isinstance(value, dict) and len(names) < _DEEPEST:
        for name, inner in value.items():
            yield from _lists(inner, (*names, name))


def _other_fields(value: dict[str, Any], names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name, inner in value.items():
        if isinstance(inner, dict) and len(names) < _DEEPEST - 1:
            yield from _other_fields(inner, (*names, name))
        elif not isinstance(inner, dict | list):
            yield pointer_to(*names, name), _kind(inner)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "link" if value.startswith(("http://", "https://", "/")) else "string"


def _column(values: list[Any]) -> str | None:
    """Return the narrowest column type for all values of a field. None if empty or nested."""
    kinds = {_type(value) for value in values if value is not None}
    if not kinds or "nested" in kinds:
        return None
    if kinds == {"bigint", "double"}:
        return "double"
    return kinds.pop() if len(kinds) == 1 else "string"


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "bigint" if -_LONG <= value < _LONG else "string"
    if isinstance(value, float):
        return "double"
    if not isinstance(value, str):
        return "nested"
    if _TIME.fullmatch(value):
        return "timestamp"
    return "date" if _DATE.fullmatch(value) else "string"
