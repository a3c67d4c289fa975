"""The options of the Mixpanel source, checked together with its connection."""

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
"""The most days in one export: each has an open file while it is read."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str | int) else value


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_days(value: Any) -> Any:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if value == "auto" or (type(value) is int and 1 <= value <= MAX_DAYS_PER_REQUEST):
        return value
    raise ValueError(f"give a whole number from 1 to {MAX_DAYS_PER_REQUEST}, or 'auto'")


class MixpanelOptions(Options):
    """What a user may set.

    Which of them belong to a stream, the stream says.

    :raises ConfigError: if an option is wrong.
    """

    renamed: ClassVar[Mapping[str, str]] = {"project_timezone": "zone"}
    removed: ClassVar[Mapping[str, str]] = {
        "connect_timeout_seconds": "a connection may take 10 seconds, within request_deadline_seconds",
    }
    conn_id: str = Field(default="mixpanel_default", description="Airflow connection of type mixpanel.")
    stream: StreamName = Field(
        default="export", description="What to read; the page of the source says what each stream holds."
    )
    zone: ZoneName = Field(default="UTC", description="The project's time zone (IANA name), which defines its days.")
    timestamps: Regime | None = Field(
        default=None,
        description="What the project's dates and times mean: utc (created since 2023) or project_local (before); may "
        "be set in the connection's extra instead.",
    )
    event: Annotated[list[str] | None, BeforeValidator(_as_list)] = Field(
        default=None,
        min_length=1,
        description="Only events with these names. For retention one, that of coming back: by default any event.",
    )
    where: str | None = Field(
        default=None, description="Only events, or profiles, for which this Mixpanel expression is true."
    )
    data_group_id: Annotated[str | None, BeforeValidator(_as_text)] = Field(
        default=None,
        pattern=r"^-?[0-9]{1,20}$",
        description="Id of a group key: the profiles of its groups in place of users'. Each is a stream of its own.",
    )
    filter_by_cohort: int | None = Field(default=None, ge=1, description="Only profiles in the cohort with this id.")
    output_properties: Annotated[list[str] | None, BeforeValidator(_as_list)] = Field(
        default=None, min_length=1, description="Ask for these properties of the profiles only; by default for all."
    )
    cohorts: Annotated[list[int] | None, BeforeValidator(_as_list)] = Field(
        default=None, min_length=1, description="Ids of the cohorts whose members to read; by default of all."
    )
    on_unreadable: Literal["fail", "skip"] = Field(
        default="fail",
        description="A cohort that Mixpanel lists, but whose members cannot be read because its data group was "
        "deleted, fails the snapshot (fail), or is left out and counted (skip).",
    )
    funnels: Annotated[list[int] | None, BeforeValidator(_as_list)] = Field(
        default=None, min_length=1, description="Ids of the funnels to read; by default all that are saved."
    )
    born_event: str | None = Field(default=None, description="The event with which a user begins, for retention.")
    born_where: str | None = Field(
        default=None, description="Only beginnings for which this Mixpanel expression is true."
    )
    retention_type: Literal["birth", "compounded"] = Field(
        default="birth",
        description="Whether a user begins with the first born_event (birth), or with event each time (compounded).",
    )
    interval_days: int = Field(default=1, ge=1, le=90, description="Days in an interval in which users come back.")
    interval_count: int = Field(
        default=1, ge=1, description="How many intervals to ask for, beside that of the beginning."
    )
    bookmark_id: int | None = Field(
        default=None, ge=1, description="Id of the saved report: the number after 'report-' in its URL."
    )
    on: str | None = Field(
        default=None, description='Mixpanel expression whose values are the segments, such as properties["$os"].'
    )
    deduplicate: Literal["key", "off"] = Field(
        default="key", description="Of a day's records with the same key keep the first (key) or all (off)."
    )
    promote: Annotated[dict[str, str | tuple[str, str]], BeforeValidator(normalize_promote)] = Field(
        default_factory=dict,
        description="Properties that become columns: {property: type}, {property: (column, type)}, or a list of "
        f"properties that are strings. Types: {TYPES_TEXT}. A value that does not fit becomes null, and is "
        "counted.",
    )
    null_texts: Annotated[list[str], BeforeValidator(_as_list)] = Field(
        default_factory=list,
        description="Texts that are null in promoted columns, such as 'undefined' and '<null>'; counted. properties "
        "keeps them.",
    )
    days_per_request: Annotated[int | Literal["auto"], BeforeValidator(_as_days)] = Field(
        default=1,
        description="How many days of one window an export is asked for at once, up to 31, where the limit of requests "
        "hurts and not the size; auto: as few as bring the window into an hour's limit, by the days' sizes.",
    )
    split_rows: int | None = Field(
        default=None,
        ge=1,
        description="A day with more events than these, as Mixpanel counts them, is fetched in several exports, none "
        "of them much larger; an hour is not cut. Each day is then counted first, and must agree with its count. By "
        "default a day is one export, and not counted, unless that ran into request_deadline_seconds.",
    )
    errors_tolerance: Literal["none", "all"] = Field(
        default="none",
        description="A line or profile that is no record fails the day (none), or is set aside and counted (all).",
    )
    max_rejects: int = Field(
        default=1000, ge=0, description="How many lines or profiles may be set aside before the day fails."
    )
    read_timeout_seconds: float = Field(default=120.0, gt=0, description="Longest wait for the next bytes.")
    request_deadline_seconds: float = Field(
        default=3600.0,
        gt=0,
        description="Longest time for a whole request: name service, connection, TLS, headers and body, even while "
        "bytes still arrive.",
    )
    max_record_bytes: int = Field(
        default=16 << 20, ge=1 << 10, description="The longest line that is accepted, without its newline."
    )

    @property
    def timeouts(self) -> HttpTimeouts:
        """How long each part of a request may take."""
        return HttpTimeouts(
            read_timeout_seconds=self.read_timeout_seconds, deadline_seconds=self.request_deadline_seconds
        )

    @property
    def where_expression(self) -> str | None:
        """The expression of the option ``where``; None also for a blank one, which a template may render."""
        return self.where if self.where is not None and self.where.strip() else None

    @property
    def promoted(self) -> tuple[PromotedProperty, ...]:
        """The promoted properties, their columns and types."""
        return promoted_columns(self.promote)

    def require_regime(self, connection: Connection) -> Regime:
        """Return what the project's dates and times mean.

        :raises ConfigError: naming everything that is wrong with these options and the connection.
        """
        if found := self.export_problems(connection):
            raise ConfigError("; ".join(found))
        regime = self.configured_regime(connection)
        assert regime is not None
        return regime

    def export_problems(self, connection: Connection) -> list[str]:
        """Return what is wrong with the export's options and the connection; [] if nothing is."""
        found = access_problems(connection)
        if not found and self.configured_regime(connection) is None:
            found.append(
                f"timestamps: required, because zone is {self.zone!r}, not UTC. Mixpanel "
                "projects created before 1 January 2023 need 'project_local', later ones 'utc'; the day of creation "
                "is shown in Mixpanel under Settings, Overview. Set it on the source, or as 'timestamps' in the extra "
                f"of connection {connection.conn_id!r}"
            )
        return found

    def configured_regime(self, connection: Connection) -> Regime | None:
        """Return the regime that options or connection choose; None if neither does and the zone leaves it open."""
        chosen: Any = self.timestamps or connection.option("timestamps")
        return chosen or ("utc" if self.zone == "UTC" else None)
