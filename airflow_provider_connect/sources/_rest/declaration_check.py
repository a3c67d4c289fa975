"""Validates the options of the REST source together. DAG files import this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.sources._rest.credential_guard import credential_problems
from airflow_provider_connect.sources._rest.pages.paging import (
    Cursor,
    LastKey,
    Offset,
    PageNumber,
    Single,
    Total,
    destinations,
    last_record_path,
    names_unique_field,
    sends_value,
    value_paths,
)
from airflow_provider_connect.sources._rest.parent_check import parent_problems
from airflow_provider_connect.sources._rest.placeholders import (
    bounds_without_granularity,
    names_page_value,
    requests_a_day,
    single_bound,
)
from airflow_provider_connect.sources._rest.placeholders import placeholder_problems as unfillable
from airflow_provider_connect.values.json.paths import MISSING, path_steps

if TYPE_CHECKING:
    from airflow_provider_connect.sources._rest.options import RestOptions
    from airflow_provider_connect.sources._rest.request import Request


def option_problems(options: RestOptions) -> list[str]:
    """Return one message for each conflict between options."""
    known_columns = options.columns_of_parents.keys() if options.has_parents else None
    problems = [
        f"request.{text}"
        for text in unfillable(options.request, known_columns, has_page_value=sends_value(options.paging))
    ]
    if options.count is not None and options.count.request is not None:
        problems += [f"count.request.{text}" for text in unfillable(options.count.request, None)]
    problems += parent_problems(options)
    problems += _paging_problems(options)
    if problems:
        return problems
    columns = [*options.records.columns, *options.parent_columns]
    problems += [
        f"records.key: {name!r} is not a column; {suggest_nearest(name, columns)}"
        for name in options.records.key
        if name not in columns
    ]
    problems += _bounds_problems(options)
    problems += _day_problems(options)
    if options.count is not None and options.has_parents:
        problems.append("count: with a parent, the API counts per parent, not per day. Remove count")
    return problems


def _paging_problems(options: RestOptions) -> list[str]:
    paging, request = options.paging, options.request
    put = getattr(paging, "put", None)
    fills_page = names_page_value(request)
    names = ("limit_param", "size_param", *(() if put is not None or fills_page else ("param",)))
    paging_params = [getattr(paging, name, None) for name in names]
    problems = [
        f"request.params.{name}: already sent by the paging. Remove it"
        for name in paging_params
        if name in request.params
    ]
    paging_names = {name for name in paging_params if name is not None}
    paging_names |= set(path_steps(put or "")[-1:])
    paging_names |= {name for name in (getattr(paging, "send_header", None),) if name is not None}
    problems += [f"request: {problem}" for problem in credential_problems(request, paging_names)]
    if options.count is not None and options.count.request is not None:
        problems += [f"count.request: {problem}" for problem in credential_problems(options.count.request, ())]
    problems += _destination_problems(options, fills_page=fills_page)
    problems += _put_problems(request, put)
    problems += _spread_problems(options)
    if options.records.format != "json":
        problems += [
            f"paging: reads {path!r} in the body, and answers in {options.records.format} have only records. Use a "
            "header"
            for path in value_paths(paging)
        ]
        if options.count is not None and options.count.request is None and options.count.at is not None:
            problems.append(
                f"count.at: answers in {options.records.format} have only records. Use a header or a request"
            )
    if options.records.order == "newest_first" and getattr(paging, "cap", None) is not None:
        problems.append("paging.cap: needs a listing sorted oldest first, and records.order says 'newest_first'")
    field = last_record_path(paging)
    if field is not None and names_unique_field(paging) and options.records.column_at(field) is None:
        problems.append(f"paging: unique=True requires a column of {field!r}, so that repeated values are noticed")
    if not options.has_parents and any(rule.then == "ignore" for rule in options.errors):
        problems.append("errors: 'ignore' requires a parent. Use 'empty' for an answer without records")
    return problems


def _put_problems(request: Request, put: str | None) -> list[str]:
    if put is None:
        return []
    steps = path_steps(put)
    if request.method != "POST":
        return ["paging.put: requires request.method='POST' with a body or a form"]
    if request.form is not None:
        return ["paging.put: the name of a form's field, which has no inner fields"] if len(steps) != 1 else []
    blocked = _blocked_step(request.body, steps)
    if blocked is None:
        return []
    return [f"paging.put: request.body has no object at {blocked!r}. Choose a place inside an object"]


def _destination_problems(options: RestOptions, *, fills_page: bool) -> list[str]:
    """Return the problems of the place in the request for the value of a page."""
    paging, names = options.paging, destinations(options.paging)
    if fills_page:
        return [f"paging.{name}: remove it, because the request has {{page.value}}" for name in names]
    problems = []
    if isinstance(paging, Cursor | LastKey):
        if not names:
            of_cursor = ", 'send_header'" if isinstance(paging, Cursor) else ""
            problems.append(
                f"paging: set one of 'param'{of_cursor} and 'put', or {{page.value}} in the request: the place of the "
                f"{'token' if of_cursor else 'value'} in the next request"
            )
        if paging.first_value:
            problems.append("paging.first_value: requires {page.value} in the request")
    if isinstance(paging, Offset | PageNumber) and paging.put is None:
        param_field, size_field = paging.size_fields
        if getattr(paging, param_field) is None and getattr(paging, size_field) is not None:
            problems.append(f"paging: set both {param_field} and {size_field}, or neither")
    return problems


def _spread_problems(options: RestOptions) -> list[str]:
    """Return the problems of a paging that counts records where the API pages the elements around them."""
    paging = options.paging
    if "*" not in path_steps(options.records.at) or isinstance(paging, Single):
        return []
    counts_records = isinstance(paging.ends, Total) and paging.ends.of == "records"
    has_cap = not isinstance(paging, LastKey) and paging.cap is not None
    return [
        f"{name}: counts records, and with '*' in records.at a page has other elements. {remedy}"
        for name, remedy, applies in (
            ("paging.ends", "Use another rule, or a total of pages", counts_records),
            ("paging.cap", "Request less at once", has_cap),
        )
        if applies
    ]


def _blocked_step(body: Any, steps: tuple[str, ...]) -> str | None:
    """Return the path of a value on the way that is no object, so that :func:`.put_at` would replace it, or None."""
    value = body
    for number, step in enumerate(steps):
        if value is None or value is MISSING:
            return None
        if not isinstance(value, Mapping):
            return "/" + "/".join(steps[:number])
        value = value.get(step, MISSING)
    return None


_STEP_REASONS = {
    "day.start": "excludes its start. A granularity that is too coarse loads records of the previous day",
    "day.end": "includes its end. A granularity that is too coarse loses the day's last moments",
}


def _bounds_problems(options: RestOptions) -> list[str]:
    requests = [options.request, *([options.count.request] if options.count and options.count.request else [])]
    names = {name for request in requests for name in bounds_without_granularity(request, options.bounds)}
    if options.records.outside == "drop":
        names.discard("day.start")  # records outside the day are dropped
    return [
        f"bounds.granularity: required for {{{name}}}, because the API {_STEP_REASONS[name]}. Set 'second' if the API "
        "cuts times to the second before it compares, else 'millisecond' or 'microsecond'"
        for name in sorted(names)
    ]


def _day_problems(options: RestOptions) -> list[str]:
    drops = options.records.day is not None and options.records.outside == "drop"
    asks = any(requests_a_day(level.request) for level in options.levels)
    if options.snapshot is None and not drops and not asks:
        return [
            "request: does not select a day. Use {day.start} and {day.end}, or records.day with outside='drop', or "
            "set snapshot"
        ]
    if options.snapshot is not None and asks:
        return ["snapshot: loads everything, but the request selects a day"]
    if options.snapshot is not None and options.records.outside != "fail":
        return ["records.outside: a snapshot has records of all days"]
    if options.snapshot is not None and options.parent is not None and options.parent.snapshot is None:
        return [
            "parent.snapshot: a snapshot needs the children of all parents, not of a day's. Set it for the parent too"
        ]
    return []


def open_range_problems(options: RestOptions) -> list[str]:
    """Return a problem if the request's only bound loads rows of other days. Children are exempt."""
    if options.snapshot is not None or options.has_parents or options.records.day is not None:
        return []
    name = single_bound(options.request, options.bounds)
    if name is None:
        return []
    missing_bound, side = ("day.end", "since") if name == "day.start" else ("day.start", "up to")
    return [
        f"request: {{{name}}} is the only bound, so each day would load all records {side} then. Add "
        f"{{{missing_bound}}}, or set records.day with outside='drop', which drops the records of other days. If one "
        f"bound selects the whole day, write it as a date, {{{name}:date}}, or into the path"
    ]
