"""Proposes a REST declaration from an OpenAPI document or one answer. A YAML comment marks each guess."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.polling.findings import ProposalRequest
from airflow_provider_connect.sources._rest.files import read_declaration
from airflow_provider_connect.sources._rest.proposing.openapi import OpenApi
from airflow_provider_connect.sources._rest.proposing.response_shape import (
    Parameter,
    ResponseShape,
    detect_shape,
    pointer_to,
)

_PATIENCE_SECONDS = 20.0  # a person waits


def propose_declaration(request: ProposalRequest, connection: Connection | None) -> str:
    """Return a YAML declaration.

    :raises ConfigError: the path is missing, or not exactly one of document and connection is set.
    :raises ConnectError: as in a poll.
    """
    if request.path is None:
        raise ConfigError("--path: set the request's path, such as /v1/events")
    if (request.openapi is None) == (connection is None):
        raise ConfigError("set --conn-id to request one answer, or --openapi for the API's own description")
    if request.openapi is not None:
        return propose_from_document(request.path, request.openapi)
    assert connection is not None, "the check above"
    return propose_from_answer(request.path, connection)


def propose_from_document(path: str, document: Path) -> str:
    """Return a YAML declaration for ``GET path`` from an OpenAPI 3 document. No network.

    :raises ConfigError: the document is not OpenAPI 3, or lacks the path.
    """
    return declaration_yaml(path, *OpenApi(read_declaration(document)).describe_get(path))


def propose_from_answer(path: str, connection: Connection) -> str:
    """Request ``GET path`` once. Returns a YAML declaration without values of the answer.

    :raises ConnectError: as in a poll. :class:`.DataError` if the answer has no records.
    """
    with JsonApi(connection, patience_seconds=_PATIENCE_SECONDS) as api:
        reply = api.ask(Call(path))
    return declaration_yaml(path, [], detect_shape(reply.body, reply.headers))


_START_NAMES = re.compile(
    r"since|(from|start|after|begin)([_-]?(date|time|at))?|(start|from|since)[_-]?\w*|\w+[_-](after|since|from)"
    r"|\w+\[(gte?|after)\]|min[_-]\w*(time|date)\w*",
    re.IGNORECASE,
)
_END_NAMES = re.compile(
    r"until|(to|end|before)([_-]?(date|time|at))?|(end|until)[_-]?\w*|\w+[_-](before|until|to)|\w+\[(lte?|before)\]"
    r"|max[_-]\w*(time|date)\w*",
    re.IGNORECASE,
)
_TOKENS = (
    "starting_after",
    "cursor",
    "page_token",
    "pageToken",
    "next_token",
    "pagination_token",
    "after",
    "continuation",
)
_NEXT_TOKEN = re.compile(
    r"(next_?)?(cursor|page_?token|token|page_?cursor|continuation\w*)|end_?cursor|next", re.IGNORECASE
)
_NEXT_LINK = re.compile(r"(@odata\.)?next(_?(page|url|link|page_?url))?", re.IGNORECASE)
_HAS_MORE = re.compile(r"has_?(more|next)(_?page)?|more", re.IGNORECASE)
_TOTAL = re.compile(r"total(_?(count|records|results|items))?|count", re.IGNORECASE)
_SIZES = ("per_page", "page_size", "pageSize", "limit", "max_results", "maxResults", "count", "size")
_PAGES = ("page", "page_number", "pageNumber", "page[number]")
_OFFSETS = ("offset", "skip", "startAt", "start_at")
_DAYS = ("created_at", "created", "updated_at", "timestamp", "time", "date", "occurred_at", "createdAt", "updatedAt")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_NAMES = ("document", "record_key", "day")
_CHECK_END = "check the API's last page: rows are lost if this is wrong"


class _Guess(NamedTuple):
    value: Any
    reason: str


def declaration_yaml(path: str, parameters: Sequence[Parameter], shape: ResponseShape) -> str:
    """Return the declaration as YAML, readable by :meth:`.RestSource.from_file`.

    :raises DataError: the records have no scalar field.
    """
    columns = _columns(shape)
    if not columns:
        raise DataError("the records have no scalar fields: declare their columns by hand")
    names = {parameter.name: parameter for parameter in parameters}
    params, bounds = _params(names)
    paging = _paging(names, shape)
    if paging.value.get("limit_param") or paging.value.get("size_param"):
        params.pop(paging.value.get("limit_param") or paging.value["size_param"], None)
    key, day = _key(columns), _day(columns)
    stream = re.sub(r"[^A-Za-z0-9_.-]+", "_", path.rstrip("/").rpartition("/")[2]).strip("_.-") or "records"
    lines = [
        "# A proposal. Comments mark guesses: check them against the API's reference, then try it:",
        "# airflow connect preview --source rest --options FILE --conn-id ID --day YYYY-MM-DD",
        f"stream: {_yaml(stream)}",
        "request:",
        f"  path: {_yaml(path)}",
    ]
    if params:
        lines += [
            "  params:",
            *(f"    {_yaml(name)}: {_yaml(guess.value)}  # {guess.reason}" for name, guess in params.items()),
        ]
    if not bounds:
        lines += [
            "snapshot: replace  # guess: no parameter selects a day, so each run replaces everything.",
            "# If there is one, remove snapshot and set: request: {params: {since: '{day.start}'}}",
        ]
    else:
        lines += [
            "bounds: {start: inclusive, end: exclusive}  # guess: if the API includes the end: inclusive, with "
            "granularity"
        ]
    lines += [f"paging: {_yaml(paging.value)}  # guess: {paging.reason}", "records:"]
    lines += [f"  at: {_yaml(shape.at)}"] if shape.at else []
    lines += [f"  key: {_yaml([key.value])}  # guess: {key.reason}", "  columns:"]
    lines += [f"    {_yaml(name)}: {_column(name, *field)}" for name, field in columns.items()]
    if day is not None and bounds:
        lines += [f"  day: {_yaml(day)}  # guess: the time of the bounds. A record of another day fails the load"]
    return "\n".join(lines) + "\n"


def _yaml(value: Any) -> str:
    """Return a value as JSON, which is also YAML. Escapes characters that YAML forbids."""
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


def _columns(shape: ResponseShape) -> dict[str, tuple[str, str]]:
    """Return (field, type) by column name. Names differ in more than case, because sinks ignore case."""
    columns: dict[str, tuple[str, str]] = {}
    taken_names = {*_RESERVED_NAMES}
    for field, kind in shape.columns.items():
        plain = re.sub(r"[^A-Za-z0-9_]", "_", field)
        plain = plain if _NAME.fullmatch(plain) else f"_{plain}"
        names = chain([plain], (f"{plain}_{number}" for number in count(2)))
        name = next(name for name in names if name.lower() not in taken_names)
        taken_names.add(name.lower())
        columns[name] = (field, kind)
    return columns


def _column(name: str, field: str, kind: str) -> str:
    declared: Any = kind if name == field else {"type": kind, "at": pointer_to(field)}
    note = "  # guess: for money, decimal(18,2) is exact" if kind == "double" else ""
    return f"{_yaml(declared)}{note}"


def _key(columns: Mapping[str, tuple[str, str]]) -> _Guess:
    plain = [name for name, (_, kind) in columns.items() if kind in ("string", "bigint")]
    key = next((name for name in plain if name.lower() in ("id", "uuid", "guid", "key")), None)
    key = key or next((name for name in plain if name.lower().endswith("id")), None)
    if key is not None:
        return _Guess(key, "by name: does it identify a record?")
    return _Guess(
        next(iter(plain or columns)),
        "the first column, because no name looks like a key: set the columns that identify a record",
    )


def _day(columns: Mapping[str, tuple[str, str]]) -> str | None:
    times = [name for name, (_, kind) in columns.items() if kind in ("timestamp", "date")]
    return next((name for name in _DAYS if name in times), next(iter(times), None))


def _params(names: Mapping[str, Parameter]) -> tuple[dict[str, _Guess], bool]:
    params = {}
    for edge, pattern in (("start", _START_NAMES), ("end", _END_NAMES)):
        matching = [candidate for name, candidate in names.items() if name not in _TOKENS and pattern.fullmatch(name)]
        for parameter in matching[:1]:
            format_suffix = {"date": ":date", "date-time": ""}.get(
                parameter.format, ":epoch_s" if parameter.type == "integer" else ""
            )
            params[parameter.name] = _Guess(
                f"{{day.{edge}{format_suffix}}}", f"guess by name: is this the day's {edge}?"
            )
    size = next((names[name] for name in _SIZES if name in names), None)
    if size is not None:
        params[size.name] = _Guess(
            size.maximum or 100, "the largest page" if size.maximum else "guess: check the largest page size"
        )
    return params, any("{day." in str(candidate.value) for candidate in params.values())


def _paging(names: Mapping[str, Parameter], shape: ResponseShape) -> _Guess:
    return next(_pagings(names, shape))


def _pagings(names: Mapping[str, Parameter], shape: ResponseShape) -> Iterator[_Guess]:
    if shape.has_next_link:
        yield _Guess({"kind": "link_header", "ends": "no_token"}, f"the answer has a Link header. {_CHECK_END}")
    more = _first_field_matching(shape, _HAS_MORE, "boolean")
    flag = {"rule": "flag", "at": more, "last": False} if more else None
    for path in _fields_matching(shape, _NEXT_LINK, "link"):
        yield _Guess(
            {"kind": "next_link", "at": path, "ends": flag or "no_token"}, f"a link next to the records. {_CHECK_END}"
        )
    token = next((name for name in _TOKENS if name in names), None)
    for path in _fields_matching(shape, _NEXT_TOKEN, "string", "null"):
        param = token or path.rpartition("/")[2]
        guess_note = "" if token else "the parameter's name is guessed too. "
        yield _Guess(
            {"kind": "cursor", "at": path, "param": param, "ends": flag or "no_token"},
            f"a token next to the records. {guess_note}{_CHECK_END}",
        )
    if flag and token:
        yield _Guess(
            {"kind": "last_key", "param": token, "ends": flag}, f"a flag and a parameter of this name. {_CHECK_END}"
        )
    total = _first_field_matching(shape, _TOTAL, "integer")
    ends: Any = flag or ({"rule": "total", "at": total} if total else "empty_page")
    size = next((names[name] for name in _SIZES if name in names), None)
    for known_names, kind, sizes in (
        (_OFFSETS, "offset", ("limit_param", "limit")),
        (_PAGES, "page_number", ("size_param", "size")),
    ):
        for name in known_names:
            if name in names:
                asked_size = {sizes[0]: size.name, sizes[1]: size.maximum or 100} if size else {}
                yield _Guess(
                    {"kind": kind, "param": name, **asked_size, "ends": ends}, f"a parameter of this name. {_CHECK_END}"
                )
    yield _Guess({"kind": "single"}, "no next page was found. If there is one, all pages after the first are lost")


def _fields_matching(shape: ResponseShape, pattern: re.Pattern[str], *kinds: str) -> Iterator[str]:
    for path, kind in shape.other_fields.items():
        if kind in kinds and pattern.fullmatch(path.rpartition("/")[2]):
            yield path


def _first_field_matching(shape: ResponseShape, pattern: re.Pattern[str], kind: str) -> str | None:
    return next(_fields_matching(shape, pattern, kind), None)
