"""Options of the REST source and their validation. DAG files import this."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field

from airflow_provider_connect.clients.http.asking.rules import ErrorRule, RateLimits
from airflow_provider_connect.source import Source
from airflow_provider_connect.sources._rest.bounds import Bounds
from airflow_provider_connect.sources._rest.credential_guard import publish_templated_names
from airflow_provider_connect.sources._rest.pages.paging import (
    Paging,
)
from airflow_provider_connect.sources._rest.records import Column, ParentColumn, Records
from airflow_provider_connect.sources._rest.request import Count, Request, Snapshot
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
    parent_values: dict[str, tuple[str | int, ...]] = Field(
        default_factory=dict,
        examples=[{"region": ["eu", "us"]}],
        description="Values to request in turn, by a name for {parent.NAME} and parent_columns. With several names, "
        "or with parent, each combination is requested.",
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
        columns = self.columns_of_parents
        return tuple(
            ParentColumn(name, parent_name, columns[parent_name]) for name, parent_name in self.parent_columns.items()
        )

    @property
    def has_parents(self) -> bool:
        """True if requests are sent for each parent."""
        return self.parent is not None or bool(self.parent_values)

    @property
    def columns_of_parents(self) -> dict[str, Column]:
        """The columns of a parent, by the name in ``{parent.NAME}``."""
        columns = {} if self.parent is None else self.parent.columns_with_parents
        values = {
            name: Column(type="bigint" if values and type(values[0]) is int else "string")
            for name, values in self.parent_values.items()
        }
        return columns | values

    @property
    def columns_with_parents(self) -> dict[str, Column]:
        """The columns of a row with their types."""
        return self.records.columns | {column.name: column.column for column in self.resolved_parent_columns}

    @property
    def levels(self) -> list[RestOptions]:
        """These options, their parent's, and so on."""
        return [self, *(self.parent.levels if self.parent is not None else ())]


def _publish_templated_names(rendered: dict[str, Any], declared: Any) -> dict[str, Any]:
    """Return a rendered part of the options, with :func:`publish_templated_names` applied to its request."""
    request = declared.get("request") if isinstance(declared, dict) else declared.request
    changes: dict[str, Any] = {"request": publish_templated_names(rendered.get("request"), request)}
    parent = declared.get("parent") if isinstance(declared, dict) else getattr(declared, "parent", None)
    if isinstance(rendered.get("parent"), dict) and parent is not None:
        changes["parent"] = _publish_templated_names(rendered["parent"], parent)
    return rendered | changes
