"""Validates the parents of a REST source. DAG files import this."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.sources._rest.placeholders import (
    PARENT_PREFIX,
    request_placeholders,
    requested_parent_columns,
)
from airflow_provider_connect.sources._rest.records import Column

if TYPE_CHECKING:
    from airflow_provider_connect.sources._rest.options import RestOptions

_REQUEST_TYPES = ("string", "bigint", "boolean", "date", "timestamp")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parent_problems(options: RestOptions) -> list[str]:
    """Return one message for each problem of the options about parents."""
    columns = options.columns_of_parents
    if not options.has_parents:
        problems = [
            f"{name}: requires a parent" for name in ("parent_columns", "parent_where") if getattr(options, name)
        ]
        return problems + (
            ["partitions: requires a parent. Only parents are shared between tasks"] * (options.partitions > 1)
        )
    requested_columns = requested_parent_columns(options.request)
    problems = [
        f"parent_columns.{name}: the parent has no column {parent_name!r}; {suggest_nearest(parent_name, columns)}"
        for name, parent_name in options.parent_columns.items()
        if parent_name not in columns
    ]
    problems += _where_problems(options)
    problems += _value_problems(options)
    taken_names = {name.lower() for name in options.records.columns} | {"day", "document", "record_key"}
    problems += [
        f"parent_columns: {name!r} is already a column"
        for name in options.parent_columns
        if name.lower() in taken_names
    ]
    problems += [
        f"request: {{parent.{name}}} has type {columns[name].type}. Only {', '.join(_REQUEST_TYPES)} can be part of a "
        "request"
        for name in sorted(requested_columns & columns.keys())
        if columns[name].type not in _REQUEST_TYPES
    ]
    problems += [
        f"request: {{{name}}} accepts no format, because its column is no timestamp"
        for name, form in request_placeholders(options.request)
        if form is not None
        and name.startswith(PARENT_PREFIX)
        and columns.get(name.removeprefix(PARENT_PREFIX), Column(type="timestamp")).type != "timestamp"
    ]
    has_key_of_parent = bool(set(options.parent_columns) & set(options.records.key))
    if options.partitions > 1 and not has_key_of_parent:
        problems.append(
            "records.key: with several partitions, add one of parent_columns. Otherwise two partitions may load the "
            "same record"
        )
    return problems + _source_problems(options, requested_columns)


def _source_problems(options: RestOptions, requested_columns: set[str]) -> list[str]:
    """Return the problems of the source of the parents."""
    parent = options.parent
    if parent is None:
        return []
    conflicts = {
        "request: no {parent.…}, so the answer would be the same for every parent": not (
            requested_columns - options.parent_values.keys()
        ),
        "parent.conn_id: must be the same as conn_id": parent.conn_id != options.conn_id,
        "parent.errors_tolerance: must be 'none', because a rejected parent would lose its children": (
            parent.errors_tolerance != "none"
        ),
        "parent.limits: set limits on the child, which apply to both": parent.limits is not None,
        "parent.partitions: set partitions on the child. Each task reads all parents": parent.partitions > 1,
        "parent.zone: must be the same as zone": parent.zone != options.zone,
    }
    return [problem for problem, applies in conflicts.items() if applies]


def _value_problems(options: RestOptions) -> Iterator[str]:
    requested_columns = requested_parent_columns(options.request)
    columns = {} if options.parent is None else options.parent.columns_with_parents
    for name, values in options.parent_values.items():
        if not _NAME.fullmatch(name):
            yield f"parent_values: {name!r} is not a valid name. Use letters, digits and _"
        elif name in columns:
            yield f"parent_values.{name}: the parent has a column with this name"
        elif name not in requested_columns:
            yield f"parent_values.{name}: the request has no {{parent.{name}}}, so each answer would be the same"
        if len(set(values)) < max(1, len(values)):
            yield f"parent_values.{name}: needs at least one value, and each only once"
        if len({type(value) for value in values}) > 1 or "" in values:
            yield f"parent_values.{name}: needs texts or whole numbers, not both, and no empty text"


_WHERE_TYPES: dict[str, type] = {"string": str, "bigint": int, "boolean": bool}


def _where_problems(options: RestOptions) -> Iterator[str]:
    columns = {} if options.parent is None else options.parent.columns_with_parents
    for name, values in options.parent_where.items():
        if name not in columns:
            yield f"parent_where.{name}: the parent has no such column; {suggest_nearest(name, columns)}"
            continue
        kind = columns[name].type
        for value in values if isinstance(values, tuple) else (values,):
            if value is not None and type(value) is not _WHERE_TYPES.get(kind):
                yield f"parent_where.{name}: a value of another type than the column, which is {kind}"
