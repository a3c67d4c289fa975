"""Options of the Mixpanel source, validated together with the connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.config import Options
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources._mixpanel.access import access_problems
from airflow_provider_connect.sources._mixpanel.columns import (
    TYPES_TEXT,
    PromotedProperty,
    Regime,
    normalize_promote,
    promoted_columns,
)
from airflow_provider_connect.window import ZoneName

StreamName = Literal[
    "export",
    "engage",
    "cohorts",
    "cohort_members",
    "annotations",
    "funnels",
    "retention",
    "insights",
    "segmentation",
]


MAX_DAYS_PER_REQUEST = 31
"""Most days in one export, each with an open file."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str | int) else value


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_days(value: Any) -> Any:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if value == "auto" or (type(value) is int and 1 <= value <= MAX_DAYS_PER_REQUEST):
        return value
    raise ValueError(f"set a whole number from 1 to {MAX_DAYS_PER_REQUEST}, or 'auto'")


class MixpanelOptions(Options):
    """Options of all streams. :attr:`.MixpanelStream.options` lists those that a stream uses.

    :raises ConfigError: a wrong option.
    """

    renamed: ClassVar[Mapping[str, str]] = {"project_timezone": "zone"}
    removed: ClassVar[Mapping[str, str]] = {
        "connect_timeout_seconds": "a connection may take 10 seconds, within request_deadline_seconds",
    }
    conn_id: str = Field(default="mixpanel_default", description="Airflow connection of type mixpanel.")
    stream: StreamName = Field(default="export", description="Stream to read. The source's page describes each stream.")
    zone: ZoneName = Field(default="UTC", description="Project's time zone (IANA name), which defines its days.")
    timestamps: Regime | None = Field(
        default=None,
        description="Regime of the project's dates and times: utc (created since 2023) or project_local (before). The "
        "connection's extra may set it instead.",
    )
    event: Annotated[list[str] | None, BeforeValidator(_as_list)] = Field(
        default=None,
        min_length=1,
        description="Names of events to load. For retention the event of coming back, by default any event.",
    )
    where: str | None = Field(default=None, description="Mixpanel expression that selects events or profiles.")
    data_group_id: Annotated[str | None, BeforeValidator(_as_text)] = Field(
        default=None,
        pattern=r"^-?[0-9]{1,20}$",
        description="Id of a group key, to load profiles of groups instead of users. Each id is a separate stream.",
    )
    filter_by_cohort: int | None = Field(default=None, ge=1, description="Id of a cohort, to load only its profiles.")
    output_properties: Annotated[list[str] | None, BeforeValidator(_as_list)] = Field(
        default=None, min_length=1, description="Properties of profiles to request. By default all."
    )
    cohorts: Annotated[list[int] | None, BeforeValidator(_as_list)] = Field(
        default=None, min_length=1, description="Ids of cohorts to read. By default all."
    )
    on_unreadable: Literal["fail", "skip"] = Field(
        default="fail",
        description="A listed cohort without readable members, because its data group was deleted, fails the snapshot "
        "(fail), or is left out and counted (skip).",
    )
    funnels: Annotated[list[int] | None, BeforeValidator(_as_list)] = Field(
        default=None, min_length=1, description="Ids of funnels to read. By default all saved funnels."
    )
    born_event: str | None = Field(default=None, description="Event with which a user begins, for retention.")
    born_where: str | None = Field(
        default=None, description="Mixpanel expression that selects beginnings, for retention."
    )
    retention_type: Literal["birth", "compounded"] = Field(
        default="birth",
        description="A user begins with the first born_event (birth), or with each event (compounded).",
    )
    interval_days: int = Field(default=1, ge=1, le=90, description="Days in an interval of retention.")
    interval_count: int = Field(default=1, ge=1, description="Number of intervals to request after the first.")
    bookmark_id: int | None = Field(
        default=None, ge=1, description="Id of a saved report: the number after 'report-' in its URL."
    )
    on: str | None = Field(
        default=None, description='Mixpanel expression whose values are the segments, such as properties["$os"].'
    )
    deduplicate: Literal["key", "off"] = Field(
        default="key", description="Keep the first of a day's records with the same key (key), or all (off)."
    )
    promote: Annotated[dict[str, str | tuple[str, str]], BeforeValidator(normalize_promote)] = Field(
        default_factory=dict,
        description="Properties that become columns: {property: type}, {property: (column, type)}, or a list of "
        f"properties that are strings. Types: {TYPES_TEXT}. A value that does not fit becomes null, and is "
        "counted in the report.",
    )
    null_texts: Annotated[list[str], BeforeValidator(_as_list)] = Field(
        default_factory=list,
        description="Texts that become null in promoted columns, such as 'undefined' and '<null>', and are counted. "
        "properties keeps them.",
    )
    days_per_request: Annotated[int | Literal["auto"], BeforeValidator(_as_days)] = Field(
        default=1,
        description="Days of one window in an export, up to 31, for many small days. auto: the fewest that fit the "
        "window into an hour's limit, by the days' sizes.",
    )
    split_rows: int | None = Field(
        default=None,
        ge=1,
        description="A day with more events by Mixpanel's count is fetched in several exports of about this size. An "
        "hour is never divided. Each day is counted first and must match its count. By default a day is one export "
        "without a count, unless the export exceeded request_deadline_seconds.",
    )
    errors_tolerance: Literal["none", "all"] = Field(
        default="none",
        description="An unreadable line or profile fails the day (none), or is set aside and counted (all).",
    )
    max_rejects: int = Field(
        default=1000, ge=0, description="Number of lines or profiles that may be set aside before the day fails."
    )
    read_timeout_seconds: float = Field(default=120.0, gt=0, description="Longest wait for the next bytes.")
    request_deadline_seconds: float = Field(
        default=3600.0,
        gt=0,
        description="Longest time for a request: name service, connection, TLS, headers and body, even while "
        "bytes still arrive.",
    )
    max_record_bytes: int = Field(
        default=16 << 20, ge=1 << 10, description="Longest accepted line, without its newline."
    )

    @property
    def timeouts(self) -> HttpTimeouts:
        return HttpTimeouts(
            read_timeout_seconds=self.read_timeout_seconds, deadline_seconds=self.request_deadline_seconds
        )

    @property
    def where_expression(self) -> str | None:
        """Option ``where``, or None if blank."""
        return self.where if self.where is not None and self.where.strip() else None

    @property
    def promoted(self) -> tuple[PromotedProperty, ...]:
        return promoted_columns(self.promote)

    def require_regime(self, connection: Connection) -> Regime:
        """Return the time regime.

        :raises ConfigError: with every problem of options and connection.
        """
        if problems := self.export_problems(connection):
            raise ConfigError("; ".join(problems))
        regime = self.configured_regime(connection)
        assert regime is not None
        return regime

    def export_problems(self, connection: Connection) -> list[str]:
        messages = access_problems(connection)
        if not messages and self.configured_regime(connection) is None:
            messages.append(
                f"timestamps: required, because zone is {self.zone!r}, not UTC. Set 'project_local' for projects "
                "created before 1 January 2023, 'utc' for later ones. Mixpanel shows the day of creation under "
                "Settings, Overview. Set it on the source, or as 'timestamps' in the extra of connection "
                f"{connection.conn_id!r}"
            )
        return messages

    def configured_regime(self, connection: Connection) -> Regime | None:
        """Return the regime of options or connection. Defaults to ``utc`` for zone UTC, else None."""
        chosen: Any = self.timestamps or connection.option("timestamps")
        return chosen or ("utc" if self.zone == "UTC" else None)
