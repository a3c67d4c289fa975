"""Reads a page: its posts with their JSON text, and what was sent along with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.sources._x_search.client import XClient
from airflow_provider_connect.sources._x_search.dialect import get_field as named

_T = TypeVar("_T")


class JsonPart(NamedTuple):
    """A part of an answer: parsed, and its JSON text as sent."""

    value: dict[str, Any]
    text: str


@dataclass(frozen=True)
class ResultPage:
    """What one answer brought.

    :param posts: in the order sent.
    :param includes: what the posts refer to: by kind, and by id.
    :param errors: what could not be sent along.
    """

    posts: list[JsonPart]
    includes: Mapping[str, Mapping[str, JsonPart]] = field(default_factory=dict)
    errors: list[JsonPart] = field(default_factory=list)
    next_token: str | None = None

    @cached_property
    def errors_by_id(self) -> dict[str, list[int]]:
        """The numbers of the errors that name an id."""
        found: dict[str, list[int]] = {}
        for number, error in enumerate(self.errors):
            for named_id in {str(error.value.get(name)) for name in ("resource_id", "value") if error.value.get(name)}:
                found.setdefault(named_id, []).append(number)
        return found


_KEYS = {"users": "id", "posts": "id", "media": "media_key", "polls": "id", "places": "id"}


def read_page(data: bytes, client: XClient) -> ResultPage:
    """Read an answer.

    :raises RetriableError: it is not a page of results, or tells of trouble; :class:`.ConfigError` if that is a
        person's.
    """
    return _read(_page, data, client)


def read_counts(data: bytes, client: XClient) -> tuple[list[tuple[str, int]], str | None]:
    """Read an answer of the counts: when each bucket begins and how many posts are in it, and the next token.

    :raises RetriableError: as :func:`read_page`.
    """
    return _read(_buckets, data, client)


def _read(how: Callable[[bytes, XClient], _T], data: bytes, there: XClient) -> _T:
    import msgspec

    try:
        return how(data, there)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass  # half a character is a reason: no column holds one, and msgspec reads none
    try:
        return how(_mended(data), there)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # its text would be part of the message
        raise there.incomplete_answer_error(len(data)) from None


def _mended(data: bytes) -> bytes:
    """Return a document with U+FFFD for each half of a character.

    :raises ValueError: it is not JSON.
    """
    text = json.dumps(json.loads(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _page(data: bytes, there: XClient) -> ResultPage:
    top = _members(data)
    meta = _parsed(top, "meta")
    if not isinstance(meta, dict):
        raise _no_page(data, top, there)
    included = _members(top["includes"]) if "includes" in top else {}
    includes = {
        kind: {str(each.value[key]): each for each in _texts(named(included, kind)) if each.value.get(key)}
        for kind, key in _KEYS.items()
    }
    token = meta.get("next_token")
    return ResultPage(_texts(top.get("data")), includes, _texts(top.get("errors")), str(token) if token else None)


def _buckets(data: bytes, there: XClient) -> tuple[list[tuple[str, int]], str | None]:
    top = _members(data)
    meta, counted = _parsed(top, "meta"), _parsed(top, "data")
    if not isinstance(meta, dict) or not isinstance(counted, list):
        raise _no_page(data, top, there)
    found = []
    for each in counted:
        count = named(each, "post_count") if isinstance(each, dict) else None
        if not isinstance(count, int) or isinstance(count, bool) or not isinstance(each.get("start"), str):
            raise there.incomplete_answer_error(len(data))
        found.append((each["start"], count))
    token = meta.get("next_token")
    return found, str(token) if token else None


def _members(data: Any) -> dict[str, Any]:
    """Return the members of an object, each still encoded."""
    import msgspec

    return msgspec.json.decode(data, type=dict[str, msgspec.Raw])


def _texts(array: Any) -> list[JsonPart]:
    """Return the objects of an encoded array; [] if there is none."""
    import msgspec

    if array is None:
        return []
    parts = msgspec.json.decode(array, type=list[msgspec.Raw])
    return [JsonPart(msgspec.json.decode(part, type=dict[str, Any]), bytes(part).decode()) for part in parts]


def _parsed(top: Mapping[str, Any], name: str) -> Any:
    import msgspec

    return msgspec.json.decode(top[name]) if name in top else None


def _no_page(data: bytes, top: Mapping[str, Any], there: XClient) -> ConnectError:
    """Return the error for a document that is no page: a problem that came with status 200, or nothing known."""
    if not {"title", "detail", "errors"} & top.keys():
        return there.incomplete_answer_error(len(data))
    status = _parsed(top, "status")
    is_status = isinstance(status, int) and 400 <= status <= 599
    return there.error_in_answer(status if is_status else 500, data)
