"""The options of the REST source, and whether they fit together. DAG files import this."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from airflow_provider_connect.clients.http.asking.rules import ErrorRule, RateLimits
from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.source import Source
from airflow_provider_connect.sources._rest.bounds import Bounds
from airflow_provider_connect.sources._rest.paging import Cursor, Paging
from airflow_provider_connect.sources._rest.placeholders import requests_a_day, single_bound, requested_parent_columns, bounds_without_granularity
from airflow_provider_connect.sources._rest.placeholders import placeholder_problems as unfillable
from airflow_provider_connect.sources._rest.records import ParentColumn, Records
from airflow_provider_connect.sources._rest.request import Count, Request, Snapshot
from airflow_provider_connect.window import SourceKind, ZoneName

_REQUEST_TYPES = ("string", "bigint")
_CREDENTIALS = re.compile(r"authorization|proxy-authorization|cookie|(x-)?api[-_]?key|access[-_]token|client[-_]secret")
"""Names that hold credentials and nothing else: ``page_token`` and ``sort_key`` do not."""


class RestOptions(Source):
    """What is declared of one stream of an API."""

    conn_id: str = Field(
        examples=["github"], description="Airflow connection of type http: where the API is, and who may read it."
    )
    stream: str = Field(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        examples=["issues"],
        description="Name of what is read, unique among the streams of the connection: part of ledger and offset.",
    )
    request: Request = Field(
        examples=[{"path": "/repos/apache/airflow/issues", "params": {"since": "{day.start}", "state": "all"}}],
        description="What is asked: path, method, params, headers, body.",
    )
    paging: Paging = Field(
        examples=[{"kind": "link_header", "ends": "no_token"}],
        description="How pages follow each other, and how the last one is known.",
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
        description="Where the records stand, what identifies them, and which columns they become.",
    )
    bounds: Bounds = Field(default_factory=Bounds, description="How the API is told the bounds of a day.")
    zone: ZoneName = Field(default="UTC", description="IANA zone whose calendar days are loaded.")
    snapshot: Snapshot | None = Field(
        default=None,
        description="For an API that cannot be asked for a day: replace takes all there is and replaces what was "
        "there; daily keeps what there is on each day as that day's rows.",
    )
    parent_columns: dict[str, str] = Field(
        default_factory=dict,
        description='Columns that hold a value of the parent, such as {"repo_id": "id"}: the column and the '
        "parent's own.",
    )
    partitions: int = Field(
        default=1,
        ge=1,
        le=256,
        description="By how many Spark tasks the parents are shared; each of them reads the parents' pages.",
    )
    errors: tuple[ErrorRule, ...] = Field(
        default=(), description="What answers mean, by status, header, text or a value in the body; then the defaults."
    )
    limits: RateLimits | None = Field(
        default=None, description="How often the API may be asked by all who name the connection."
    )
    count: Count | None = Field(
        default=None, description="Where the API tells how many records a day has, for the operator's reconcile."
    )
    errors_tolerance: Literal["none", "all"] = Field(
        default="none",
        description="What a record that does not fit its columns does: none fails the day, all sets it aside.",
    )
    max_rejects: int = Field(default=1000, ge=0, description="How many records of a day may be set aside.")
    max_page_bytes: int = Field(
        default=64 << 20, ge=1, description="The most that one answer may hold after decoding: it is in memory whole."
    )

    if TYPE_CHECKING:

        @property
        def parent(self) -> RestOptions | None:
            """The source whose rows are the parents: a field of the face, which is its type."""

    @property
    def kind(self) -> SourceKind:
        """Days, or one snapshot that each run replaces."""
        return "snapshot" if self.snapshot == "replace" else "day"

    @property
    def reloads(self) -> bool:
        """Whether an earlier day has records of its own, and not what the API has now."""
        return self.snapshot is None

    @property
    def resolved_parent_columns(self) -> tuple[ParentColumn, ...]:
        """The columns that hold a value of the parent."""
        if self.parent is None:
            return ()
        columns = self.parent.records.columns
        return tuple(ParentColumn(name, parent_name, columns[parent_name]) for name, parent_name in self.parent_columns.items())


def option_problems(options: RestOptions) -> list[str]:
    """Say which options do not fit together; [] if all do."""
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
        f"records.key: {name!r} is no column; {suggest_nearest(name, columns)}"
        for name in options.records.key
        if name not in columns
    ]
    problems += _bounds_problems(options)
    problems += _day_problems(options)
    if options.count is not None and parent is not None:
        problems.append("count: with a parent there is a count for each of its rows, and none for the day")
    return problems


def _paging_problems(options: RestOptions) -> list[str]:
    paging, request = options.paging, options.request
    paging_params = [getattr(paging, name, None) for name in ("param", "limit_param", "size_param")]
    problems = [f"request.params.{name}: the paging sends it" for name in paging_params if name in request.params]
    problems += [
        f"request: {name!r} is a credential: it stands in the connection alone, where nobody reads it"
        for name in (*request.headers, *request.params)
        if _CREDENTIALS.fullmatch(name.lower())
    ]
    if isinstance(paging, Cursor) and paging.put is not None and (request.method != "POST" or request.form is not None):
        problems.append("paging.put: needs request.method='POST', and a body in place of a form")
    if options.parent is None and any(rule.then == "ignore" for rule in options.errors):
        problems.append("errors: 'ignore' leaves out a parent, and there is none; 'empty' means that there are no records")
    return problems


def _parent_problems(options: RestOptions, known_columns: Collection[str] | None) -> list[str]:
    parent = options.parent
    if parent is None or known_columns is None:
        problems = ["parent_columns: needs a parent"] if options.parent_columns else []
        return problems + (
            ["partitions: one day is one walk through pages; only parents are shared"] * (options.partitions > 1)
        )
    requested_columns = requested_parent_columns(options.request)
    problems = [
        f"parent_columns.{name}: the parent has no column {parent_name!r}; {suggest_nearest(parent_name, known_columns)}"
        for name, parent_name in options.parent_columns.items()
        if parent_name not in known_columns
    ]
    taken_names = {name.lower() for name in options.records.columns} | {"day", "document", "record_key"}
    problems += [
        f"parent_columns: {name!r} is a column already" for name in options.parent_columns if name.lower() in taken_names
    ]
    problems += [
        f"request: {{parent.{name}}} is of type {parent.records.columns[name].type}; only {' and '.join(_REQUEST_TYPES)} "
        "can be part of a request"
        for name in sorted(requested_columns & set(known_columns))
        if parent.records.columns[name].type not in _REQUEST_TYPES
    ]
    is_tolerant = parent.errors_tolerance != "none"
    conflicts = {
        "request: it names no {parent.…}, so every parent would be answered the same": not requested_columns,
        "parent: it has a parent itself, which is one level too many": parent.parent is not None,
        "parent.conn_id: parent and children share one connection": parent.conn_id != options.conn_id,
        "parent.errors_tolerance: a parent that is set aside would leave out its children": is_tolerant,
        "parent.limits: set limits on the child; they hold for both": parent.limits is not None,
        "parent.zone: parent and children share the zone of their days": parent.zone != options.zone,
        "records.key: with several partitions it needs one of parent_columns, as two of them could not see that they "
        "have the same record": options.partitions > 1 and not set(options.parent_columns) & set(options.records.key),
    }
    return problems + [problem for problem, applies in conflicts.items() if applies]


_STEP_REASONS = {
    "day.start": "leaves out its start. Say how large that step is: with too large a one the day before's come, too",
    "day.end": "includes its end. Say how large that step is: with too large a one the day's last moments are lost",
}


def _bounds_problems(options: RestOptions) -> list[str]:
    requests = [options.request, *([options.count.request] if options.count and options.count.request else [])]
    names = {name for request in requests for name in bounds_without_granularity(request, options.bounds)}
    if options.records.outside == "drop":
        names.discard("day.start")  # what comes beyond the day is dropped
    return [
        f"bounds.granularity: {{{name}}} is asked one step earlier, as the API {_STEP_REASONS[name]}. It is 'second' "
        "if the API cuts times to the second before it compares, else 'millisecond' or 'microsecond'"
        for name in sorted(names)
    ]


def _day_problems(options: RestOptions) -> list[str]:
    drops = options.records.day is not None and options.records.outside == "drop"
    asks = requests_a_day(options.request) or (options.parent is not None and requests_a_day(options.parent.request))
    if options.snapshot is None and not drops and not asks:
        return [
            "request: nothing says which day is wanted: use {day.start} and {day.end}, or records.day with "
            "outside='drop', or set snapshot"
        ]
    if options.snapshot is not None and asks:
        return ["snapshot: it takes all there is, but the request names a day"]
    if options.snapshot is not None and options.records.outside != "fail":
        return ["records.outside: a snapshot has the records of all days"]
    if options.snapshot is not None and options.parent is not None and options.parent.snapshot is None:
        return ["parent.snapshot: a snapshot has the children of all parents, and these are a day's: set it there, too"]
    return []


def open_range_problems(options: RestOptions) -> list[str]:
    """Say why each day may load the rows of others, too; [] if none does. Of parents that is right."""
    if options.snapshot is not None or options.parent is not None or options.records.day is not None:
        return []
    name = single_bound(options.request, options.bounds)
    if name is None:
        return []
    missing_bound, side = ("day.end", "since") if name == "day.start" else ("day.start", "up to")
    return [
        f"request: {{{name}}} is its only bound. An API that answers all {side} then would load the same rows each "
        f"day: name {{{missing_bound}}}, too, or set records.day with outside='drop', which leaves out what is another day's. "
        f"If the API takes the one moment for its whole day, write it as a date, {{{name}:date}}, or into the path"
    ]
