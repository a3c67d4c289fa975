"""Parses a page: posts with their JSON text, and the objects that they refer to."""

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
    """Object of an answer, parsed and as JSON text."""

    value: dict[str, Any]
    text: str


@dataclass(frozen=True)
class ResultPage:
    """Parsed page of results.

    :param includes: objects that the posts refer to, by kind and id.
    :param errors: of objects that X could not send.
    """

    posts: list[JsonPart]
    includes: Mapping[str, Mapping[str, JsonPart]] = field(default_factory=dict)
    errors: list[JsonPart] = field(default_factory=list)
    next_token: str | None = None

    @cached_property
    def errors_by_id(self) -> dict[str, list[int]]:
        """Indexes in ``errors`` by the named id."""
        numbers_by_id: dict[str, list[int]] = {}
        for number, error in enumerate(self.errors):
            for named_id in {str(error.value.get(name)) for name in ("resource_id", "value") if error.value.get(name)}:
                numbers_by_id.setdefault(named_id, []).append(number)
        return numbers_by_id


_KEYS = {"users": "id", "posts": "id", "media": "media_key", "polls": "id", "places": "id"}


def read_page(data: bytes, client: XClient) -> ResultPage:
    """Parse an answer of a search endpoint.

    :raises ConnectError: no page of results.
    """
    return _read(_page, data, client)


def read_counts(data: bytes, client: XClient) -> tuple[list[tuple[str, int]], str | None]:
    """Parse an answer of the counts endpoint. Returns (start, count) of each hour, and the next token.

    :raises ConnectError: as :func:`read_page`.
    """
    return _read(_buckets, data, client)


def _read(parse: Callable[[bytes, XClient], _T], data: bytes, client: XClient) -> _T:
    import msgspec

    try:
        return parse(data, client)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass  # half a character is a reason: no column holds one, and msgspec reads none
    try:
        return parse(_replace_surrogates(data), client)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # its text would be part of the message
        raise client.incomplete_answer_error(len(data)) from None


def _replace_surrogates(data: bytes) -> bytes:
    text = json.dumps(json.loads(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _page(data: bytes, client: XClient) -> ResultPage:
    members = _members(data)
    meta = _decode_member(members, "meta")
    if not isinstance(meta, dict):
        raise _not_a_page_error(data, members, client)
    included_members = _members(members["includes"]) if "includes" in members else {}
    includes = {
        kind: {str(part.value[key]): part for part in _texts(named(included_members, kind)) if part.value.get(key)}
        for kind, key in _KEYS.items()
    }
    token = meta.get("next_token")
    return ResultPage(
        _texts(members.get("data")), includes, _texts(members.get("errors")), str(token) if token else None
    )


def _buckets(data: bytes, client: XClient) -> tuple[list[tuple[str, int]], str | None]:
    members = _members(data)
    meta, sent_buckets = _decode_member(members, "meta"), _decode_member(members, "data")
    if not isinstance(meta, dict) or not isinstance(sent_buckets, list):
        raise _not_a_page_error(data, members, client)
    buckets = []
    for bucket in sent_buckets:
        count = named(bucket, "post_count") if isinstance(bucket, dict) else None
        if not isinstance(count, int) or isinstance(count, bool) or not isinstance(bucket.get("start"), str):
            raise client.incomplete_answer_error(len(data))
        buckets.append((bucket["start"], count))
    token = meta.get("next_token")
    return buckets, str(token) if token else None


def _members(data: Any) -> dict[str, Any]:
    import msgspec

    return msgspec.json.decode(data, type=dict[str, msgspec.Raw])


def _texts(array: Any) -> list[JsonPart]:
    import msgspec

    if array is None:
        return []
    parts = msgspec.json.decode(array, type=list[msgspec.Raw])
    return [JsonPart(msgspec.json.decode(part, type=dict[str, Any]), bytes(part).decode()) for part in parts]


def _decode_member(members: Mapping[str, Any], name: str) -> Any:
    import msgspec

    return msgspec.json.decode(members[name]) if name in members else None


def _not_a_page_error(data: bytes, members: Mapping[str, Any], client: XClient) -> ConnectError:
    if not {"title", "detail", "errors"} & members.keys():
        return client.incomplete_answer_error(len(data))
    status = _decode_member(members, "status")
    is_status = isinstance(status, int) and 400 <= status <= 599
    return client.error_in_answer(status if is_status else 500, data)
