"""Finds and fills placeholders of a request, such as {day.start:iso} and {parent.id}.

Other braces are literal text, so JSON and GraphQL bodies work. A path must have none. Nothing is evaluated.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import quote
from uuid import uuid4
from zoneinfo import ZoneInfo

from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sources._rest.bounds import Bounds, Edge, day_bound
from airflow_provider_connect.sources._rest.request import Request, Value
from airflow_provider_connect.sources._rest.time_forms import form_problem, is_date_form, write_time
from airflow_provider_connect.window import Day

DAY_PLACEHOLDERS = ("day.start", "day.end")
PAGE_PLACEHOLDER = "page.value"
_PAGE_MARK = f"\ue000{uuid4().hex}\ue001"
"""Stands for the value of a page in a filled request. Random, so that no value of a parent can equal it."""
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]*)+)(?::([^{}]*))?\}")
_NAME_ALONE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(?::[^{}]*)?\}")
_NEAR_MISS = re.compile(r"\{[\s$]*(?:day|parent)\s*[.:][^{}]*\}?")


class Placeholder(NamedTuple):
    """Name and optional format of a placeholder."""

    name: str
    format: str | None


Filler = Callable[[Placeholder], str | int]
"""Returns the value of a placeholder, an int for an epoch."""


def placeholders_in(text: str) -> list[Placeholder]:
    """Return the placeholders of a text in order."""
    return [Placeholder(match[1], match[2]) for match in _PLACEHOLDER.finditer(text)]


def fill_text(text: str, fill: Filler, *, is_path: bool = False) -> str:
    """Replace the placeholders in a text.

    :param is_path: quote each value, so that it stays one path segment.
    """
    return _PLACEHOLDER.sub(lambda match: _quoted(str(fill(Placeholder(match[1], match[2]))), is_path=is_path), text)


def fill_value(value: Any, fill: Filler) -> Any:
    """Fill the placeholders in a JSON value. A text that is only a placeholder may become a number."""
    if isinstance(value, str):
        match = _PLACEHOLDER.fullmatch(value)
        return fill(Placeholder(match[1], match[2])) if match else fill_text(value, fill)
    if isinstance(value, dict):
        return {name: fill_value(item, fill) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill_value(item, fill) for item in value]
    return value


def request_texts(request: Request) -> Iterator[tuple[str, str]]:
    """Yield location and text of everything in a request that may have placeholders."""
    yield "path", request.path
    for name, value in request.params.items():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, str):
                yield f"params.{name}", item
    yield from ((f"headers.{name}", value) for name, value in request.headers.items())
    yield from _texts_of("body", request.body)
    yield from _texts_of("form", request.form)


def request_placeholders(request: Request) -> list[Placeholder]:
    """Return all placeholders of a request."""
    return [placeholder for _, text in request_texts(request) for placeholder in placeholders_in(text)]


def placeholder_problems(
    request: Request, parent_column_names: Collection[str] | None, *, has_page_value: bool = False
) -> list[str]:
    """Return a message for every unknown or malformed placeholder.

    :param parent_column_names: None without a parent.
    :param has_page_value: the paging sends a value.
    """
    page_names = [PAGE_PLACEHOLDER] if has_page_value else []
    return [
        problem
        for location, text in request_texts(request)
        for problem in _problems_of(location, text, parent_column_names, page_names)
    ]


def _problems_of(location: str, text: str, parent: Collection[str] | None, page_names: list[str]) -> list[str]:
    known_names = [*DAY_PLACEHOLDERS, *page_names, *(f"parent.{name}" for name in parent or ())]
    problems = []
    for name, form in placeholders_in(text):
        if name not in known_names:
            reason = (
                "no parent is declared"
                if name.startswith("parent.") and parent is None
                else suggest_nearest(name, known_names)
            )
            problems.append(f"{location}: unknown {{{name}}}; {reason}")
        elif form is not None and name == PAGE_PLACEHOLDER:
            problems.append(f"{location}: {{{name}}} accepts no format")
        elif form is not None and (problem := form_problem(form)) is not None:
            problems.append(f"{location}: {{{name}}}: {problem}")
    literal_text = _PLACEHOLDER.sub("", text)
    text_without_names = _NAME_ALONE.sub("", literal_text)
    # A text with other braces is a document, such as a GraphQL query.
    if location == "path" or not re.search("[{}]", text_without_names):
        problems += [
            f"{location}: unknown {{{name}}}; {suggest_nearest(name, known_names)}"
            for name in _NAME_ALONE.findall(literal_text)
        ]
        literal_text = text_without_names
    if (near_miss := _NEAR_MISS.search(literal_text)) is not None:
        problems.append(
            f"{location}: {near_miss[0][:40]!r} is not one of {', '.join(f'{{{name}}}' for name in known_names)}"
        )
    elif location == "path" and ("{" in literal_text or "}" in literal_text):
        problems.append("path: a brace outside a {name}")
    return problems


def _texts_of(location: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield location, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _texts_of(f"{location}.{name}", item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _texts_of(f"{location}.{index}", item)


def _quoted(text: str, *, is_path: bool) -> str:
    if not is_path or text == _PAGE_MARK:
        return text
    # A step of only dots would mean the parent folder, even if quoted.
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


PARENT_PREFIX = "parent."
_EDGES: dict[str, Edge] = {"day.start": "start", "day.end": "end"}


class FilledRequest(NamedTuple):
    """A request with filled placeholders."""

    path: str
    method: str
    params: tuple[tuple[str, str], ...]
    headers: dict[str, str]
    body: Any
    form: dict[str, str] | None
    spaces: Literal["plus", "percent"] = "plus"


def fill_request(request: Request, day: Day, bounds: Bounds, parent_values: Mapping[str, Any]) -> FilledRequest:
    """Return a request with filled placeholders.

    :param parent_values: by column.
    :raises DataError: a used one is missing or empty.
    """

    def fill(placeholder: Placeholder) -> str | int:
        if placeholder.name == PAGE_PLACEHOLDER:
            return _PAGE_MARK
        if placeholder.name in DAY_PLACEHOLDERS:
            return day_bound(day, _EDGES[placeholder.name], bounds, placeholder.format).value
        value = parent_values[placeholder.name.removeprefix(PARENT_PREFIX)]
        if value is None or value == "":
            # Many APIs ignore an empty filter: all records would become this parent's children.
            raise DataError(
                f"a parent has no value in column {placeholder.name.removeprefix(PARENT_PREFIX)!r}, which the request "
                "for its children uses. Use a column that always has a value. If such parents have no children, set "
                "parent_without_value='skip'"
            )
        return _parent_text(value, placeholder.format)

    return FilledRequest(
        path=_fill_path(request.path, fill),
        method=request.method,
        params=tuple((name, text) for name, value in request.params.items() for text in _param_texts(value, fill)),
        headers={name: fill_text(value, fill) for name, value in request.headers.items()},
        body=fill_value(request.body, fill),
        form=None if request.form is None else {name: fill_text(value, fill) for name, value in request.form.items()},
        spaces=request.spaces,
    )


def _parent_text(value: Any, time_form: str | None) -> str | int:
    """Return a parent's value as it stands in JSON, and a time in a format, by default ``iso``."""
    if isinstance(value, dt.datetime):
        return write_time(value, time_form or "iso", ZoneInfo("UTC"))
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def fill_page(request: FilledRequest, value: Any) -> FilledRequest:
    """Return a request with the value of a page. A text in the body that is only the placeholder becomes the value."""
    text = str(value)

    def fill(part: Any) -> Any:
        if isinstance(part, str):
            return value if part == _PAGE_MARK else part.replace(_PAGE_MARK, text)
        if isinstance(part, dict):
            return {name: fill(item) for name, item in part.items()}
        return [fill(item) for item in part] if isinstance(part, list) else part

    return request._replace(
        path=request.path.replace(_PAGE_MARK, _quoted(text, is_path=True)),
        params=tuple((name, item.replace(_PAGE_MARK, text)) for name, item in request.params),
        headers={name: item.replace(_PAGE_MARK, text) for name, item in request.headers.items()},
        body=fill(request.body),
        form=None
        if request.form is None
        else {name: item.replace(_PAGE_MARK, text) for name, item in request.form.items()},
    )


def has_page_value(request: FilledRequest) -> bool:
    """Return True if a filled request waits for the value of a page."""
    texts = [request.path, *(text for _, text in request.params), *request.headers.values()]
    texts += [text for _, text in (*_texts_of("body", request.body), *_texts_of("form", request.form))]
    return any(_PAGE_MARK in text for text in texts)


def names_page_value(request: Request) -> bool:
    """Return True if a request has ``{page.value}``."""
    return any(placeholder.name == PAGE_PLACEHOLDER for placeholder in request_placeholders(request))


def _fill_path(path: str, fill: Filler) -> str:
    """Fill a path. An address of a parent that is the whole path is taken as it is."""
    match = _PLACEHOLDER.fullmatch(path)
    if match is not None and match[1].startswith(PARENT_PREFIX):
        value = str(fill(Placeholder(match[1], match[2])))
        if value.startswith("/") and not value.startswith("//"):
            return value
        if re.match("https?://", value, re.IGNORECASE):
            return value
    return fill_text(path, fill, is_path=True)


def require_only_this_day(request: Request, day: Day, bounds: Bounds, *, drops_other_days: bool) -> None:
    """Check that the request selects only this day, or that other days are dropped.

    :raises ConfigError: records of other days would be kept.
    """
    if drops_other_days:
        return
    for placeholder in request_placeholders(request):
        if (
            placeholder.name in DAY_PLACEHOLDERS
            and day_bound(day, _EDGES[placeholder.name], bounds, placeholder.format).includes_other_days
        ):
            form = placeholder.format or bounds.format
            raise ConfigError(
                f"day {day} of zone {day.zone}: {{{placeholder.name}}}, written as {form} in zone "
                f"{bounds.zone or day.zone} to the {bounds.granularity or 'second'}, also covers records of another "
                "day. Set records.day and records.outside='drop'"
            )


def single_bound(request: Request, bounds: Bounds) -> str | None:
    """Return the placeholder of the request's only bound, or None.

    None too if it is a date or in the path: it may then select the whole day.
    """
    bounds_in_request = {
        (placeholder.name, location == "path" or is_date_form(placeholder.format or bounds.format))
        for location, text in request_texts(request)
        for placeholder in placeholders_in(text)
        if placeholder.name in DAY_PLACEHOLDERS
    }
    names = {name for name, _ in bounds_in_request}
    return names.pop() if len(names) == 1 and not any(is_a_day for _, is_a_day in bounds_in_request) else None


def bounds_without_granularity(request: Request, bounds: Bounds) -> list[str]:
    """Return the placeholders whose bound is sent one step earlier, if the granularity of that step is not declared."""
    if bounds.granularity is not None:
        return []
    is_sent_earlier = {"day.start": bounds.start == "exclusive", "day.end": bounds.end == "inclusive"}
    return sorted(
        {
            placeholder.name
            for placeholder in request_placeholders(request)
            if is_sent_earlier.get(placeholder.name) and not is_date_form(placeholder.format or bounds.format)
        }
    )


def requested_parent_columns(request: Request) -> set[str]:
    """Return the names of the parent columns that a request uses."""
    return {
        placeholder.name.removeprefix(PARENT_PREFIX)
        for placeholder in request_placeholders(request)
        if placeholder.name.startswith(PARENT_PREFIX)
    }


def requests_a_day(request: Request) -> bool:
    """Return True if a request has ``{day.start}`` or ``{day.end}``."""
    return any(placeholder.name in DAY_PLACEHOLDERS for placeholder in request_placeholders(request))


def _param_texts(value: Value | tuple[Value, ...], fill: Filler) -> list[str]:
    if isinstance(value, tuple):
        return [text for item in value for text in _param_texts(item, fill)]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [fill_text(value, fill) if isinstance(value, str) else str(value)]
