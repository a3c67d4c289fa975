"""Options of the REST source and their validation. DAG files import this."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field

from airflow_provider_connect.clients.http.asking.rules import ErrorRule, RateLimits
from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.source import Source
from airflow_provider_connect.sources._rest.bounds import Bounds
from airflow_provider_connect.sources._rest.credential_guard import credential_problems, publish_templated_names
from airflow_provider_connect.sources._rest.pages.paging import (
    LastKey,
    Paging,
    Single,
    Total,
    last_record_path,
    names_unique_field,
)
from airflow_provider_connect.sources._rest.placeholders import (
    bounds_without_granularity,
    requested_parent_columns,
    requests_a_day,
    single_bound,
)
from airflow_provider_connect.sources._rest.placeholders import placeholder_problems as unfillable
from airflow_provider_connect.sources._rest.records import ParentColumn, Records
from airflow_provider_connect.sources._rest.request import Count, Request, Snapshot
from airflow_provider_connect.values.json.paths import MISSING, path_steps
from airflow_provider_connect.window import SourceKind, ZoneName

ParentValue = str | bool | int | None
_REQUEST_TYPES = ("string", "bigint")


class RestOptions(Source):
    """Declaration of one stream: all options except ``parent``."""

    conn_id: str = Field(
        examples=["github"], description="Airflow connection of type http with the API's address and credentials."
    )
    stream: str = Field(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        examples=["issues"],
        description="Name of the stream, unique within the connection. Part of ledger and offset.",
    )
    request: Request = Field(
        examples=[{"path": "/repos/apache/airflow/issues", "params": {"since": "{day.start}", "state": "all"}}],
        description="The request: path, method, params, headers, body.",
    )
    paging: Paging = Field(
        examples=[{"kind": "link_header", "ends": "no_token"}],
        description="How to request the next page, and how to detect the last one.",
    )
    records: Records = Field(
        examples=[
            {
                "key": ["id"],
                "columns": {"id": "bigint", "title": "string", "updated_at": "timestamp"},
                "day": "updated_at",
                "outside": "drop",
            }
        ],
        description="Location, key and columns of the records.",
    )
    bounds: Bounds = Field(default_factory=Bounds, description="How the API reads the bounds of a day.")
    zone: ZoneName = Field(default="UTC", description="IANA zone of the loaded calendar days.")
    snapshot: Snapshot | None = Field(
        default=None,
        description="For an API that cannot select a day. replace: load everything and replace the target. daily: "
        "store the present state as the rows of each day.",
    )
    parent_columns: dict[str, str] = Field(
        default_factory=dict,
        description='Columns with values of the parent, such as {"repo_id": "id"}: own column and parent column.',
    )
    parent_where: dict[str, ParentValue | tuple[ParentValue, ...]] = Field(
        default_factory=dict,
        examples=[{"archived": False, "kind": ["shop", "depot"]}],
        description="Columns of the parent and the values of a parent to request. Others are skipped and counted.",
    )
    parent_without_value: Literal["fail", "skip"] = Field(
        default="fail",
        description="Effect of a parent without a value that its request uses. fail: fail the day. skip: skip the "
        "parent and count it.",
    )
    partitions: int = Field(
        default=1,
        ge=1,
        le=256,
        description="Number of Spark tasks that share the parents. Each task reads all parent pages.",
    )
    errors: tuple[ErrorRule, ...] = Field(
        default=(),
        description="Rules for answers, by status, header, text or a value in the body. The defaults apply after them.",
    )
    limits: RateLimits | None = Field(default=None, description="Rate limits, shared by all users of the connection.")
    count: Count | None = Field(
        default=None, description="Location of the API's own count of a day's records, for the operator's reconcile."
    )
    errors_tolerance: Literal["none", "all"] = Field(
        default="none",
        description="Effect of a record that does not fit its columns. none: fail the day. all: reject the record.",
    )
    max_rejects: int = Field(default=1000, ge=0, description="Largest number of rejected records of a day.")
    max_page_bytes: int = Field(
        default=64 << 20, ge=1, description="Size limit for one answer after decoding. The whole answer is in memory."
    )

    if TYPE_CHECKING:

        @property
        def parent(self) -> RestOptions | None:
            """The source of the parents. :class:`.RestSource` declares the field, because its type is RestSource."""

    def rendered(self, render: Callable[[str], Any]) -> Self:
        """Return these options with rendered templates. A secret of a template passes the guard of literals."""
        rendered = super().rendered(render)
        changes: dict[str, Any] = {}
        if "request" in self.templates:
            changes["request"] = publish_templated_names(rendered.request, self.request)
        count: Any = rendered.count
        if "count" in self.templates and isinstance(count, dict):
            changes["count"] = _publish_templated_names(count, self.count)
        parent: Any = rendered.parent
        if "parent" in self.templates and isinstance(parent, dict):
            changes["parent"] = _publish_templated_names(parent, self.parent)
        return rendered.model_copy(update=changes)

    @property
    def kind(self) -> SourceKind:
        """``snapshot`` with ``snapshot="replace"``, otherwise ``day``."""
        return "snapshot" if self.snapshot == "replace" else "day"

    @property
    def reloads(self) -> bool:
        """True if an earlier day can be requested again."""
        return self.snapshot is None

    @property
    def resolved_parent_columns(self) -> tuple[ParentColumn, ...]:
        """The columns that repeat a value of the parent, with their types."""
        if self.parent is None:
            return ()
        columns = self.parent.records.columns
        return tuple(
            ParentColumn(name, parent_name, columns[parent_name]) for name, parent_name in self.parent_columns.items()
        )


def option_problems(options: RestOptions) -> list[str]:
    """Return one message for each conflict between options."""
    parent = options.parent
    known_columns = None if parent is None else parent.records.columns.keys()
    problems = [f"request.{text}" for text in unfillable(options.request, known_columns)]
    if options.count is not None and options.count.request is not None:
        problems += [f"count.request.{text}" for text in unfillable(options.count.request, None)]
    problems += _parent_problems(options, known_columns)
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
    if options.count is not None and parent is not None:
        problems.append("count: with a parent, the API counts per parent, not per day. Remove count")
    return problems


def _paging_problems(options: RestOptions) -> list[str]:
    paging, request = options.paging, options.request
    put = getattr(paging, "put", None)
    names = ("limit_param", "size_param", *(() if put is not None else ("param",)))
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
    if put is not None and (request.method != "POST" or request.form is not None):
        problems.append("paging.put: requires request.method='POST' with a body, not a form")
    elif put is not None and (blocked := _blocked_step(request.body, path_steps(put))) is not None:
        problems.append(f"paging.put: request.body has no object at {blocked!r}. Choose a place inside an object")
    problems += _spread_problems(options)
    field = last_record_path(paging)
    if field is not None and names_unique_field(paging) and options.records.column_at(field) is None:
        problems.append(f"paging: unique=True requires a column of {field!r}, so that repeated values are noticed")
    if options.parent is None and any(rule.then == "ignore" for rule in options.errors):
        problems.append("errors: 'ignore' requires a parent. Use 'empty' for an answer without records")
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


def _parent_problems(options: RestOptions, known_columns: Collection[str] | None) -> list[str]:
    parent = options.parent
    if parent is None or known_columns is None:
        problems = [
            f"{name}: requires a parent" for name in ("parent_columns", "parent_where") if getattr(options, name)
        ]
        return problems + (
            ["partitions: requires a parent. Only parents are shared between tasks"] * (options.partitions > 1)
        )
    requested_columns = requested_parent_columns(options.request)
    problems = [
        f"parent_columns.{name}: the parent has no column {parent_name!r}; "
        f"{suggest_nearest(parent_name, known_columns)}"
        for name, parent_name in options.parent_columns.items()
        if parent_name not in known_columns
    ]
    problems += _parent_where_problems(options)
    taken_names = {name.lower() for name in options.records.columns} | {"day", "document", "record_key"}
    problems += [
        f"parent_columns: {name!r} is already a column"
        for name in options.parent_columns
        if name.lower() in taken_names
    ]
    problems += [
        f"request: {{parent.{name}}} has type {parent.records.columns[name].type}. Only "
        f"{' and '.join(_REQUEST_TYPES)} can be part of a request"
        for name in sorted(requested_columns & set(known_columns))
        if parent.records.columns[name].type not in _REQUEST_TYPES
    ]
    is_tolerant = parent.errors_tolerance != "none"
    conflicts = {
        "request: no {parent.…}, so the answer would be the same for every parent": not requested_columns,
        "parent: a parent cannot have a parent itself": parent.parent is not None,
        "parent.conn_id: must be the same as conn_id": parent.conn_id != options.conn_id,
        "parent.errors_tolerance: must be 'none', because a rejected parent would lose its children": is_tolerant,
        "parent.limits: set limits on the child, which apply to both": parent.limits is not None,
        "parent.zone: must be the same as zone": parent.zone != options.zone,
        "records.key: with several partitions, add one of parent_columns. Otherwise two partitions may load the same "
        "record": options.partitions > 1 and not set(options.parent_columns) & set(options.records.key),
    }
    return problems + [problem for problem, applies in conflicts.items() if applies]


_WHERE_TYPES: dict[str, type] = {"string": str, "bigint": int, "boolean": bool}


def _parent_where_problems(options: RestOptions) -> Iterator[str]:
    if options.parent is None:
        return
    columns = options.parent.records.columns
    for name, values in options.parent_where.items():
        if name not in columns:
            yield f"parent_where.{name}: the parent has no such column; {suggest_nearest(name, columns)}"
            continue
        kind = columns[name].type
        for value in values if isinstance(values, tuple) else (values,):
            if value is not None and type(value) is not _WHERE_TYPES.get(kind):
                yield f"parent_where.{name}: a value of another type than the column, which is {kind}"


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
    asks = requests_a_day(options.request) or (options.parent is not None and requests_a_day(options.parent.request))
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
    if options.snapshot is not None or options.parent is not None or options.records.day is not None:
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


def _publish_templated_names(rendered: dict[str, Any], declared: Any) -> dict[str, Any]:
    """Return a rendered part of the options, with :func:`publish_templated_names` applied to its request."""
    request = declared.get("request") if isinstance(declared, dict) else declared.request
    return rendered | {"request": publish_templated_names(rendered.get("request"), request)}
