r"""Mixpanel: the raw event export, one day in one request.

Reads ``GET /api/2.0/export`` (https://developer.mixpanel.com/reference/raw-event-export, 2026-11): JSON lines,
gzipped, one event a line, without pages. The export does not drop duplicates, so this source does
(``deduplicate``): https://developer.mixpanel.com/reference/event-deduplication.

**Connection** (type ``mixpanel``)

============ =====================================================================================
login        user name of a service account; empty for a project secret
password     secret of the service account, or the project secret (which Mixpanel retires on 2027-03-03)
host         own host, as ``https://name`` or ``name``; empty for the region's. http for loopback alone
port         of an own host
extra        ``region``: us (default), eu, in · ``project_id``: needed with a service account ·
             ``timestamps``: see below · ``proxy``: URL of the only proxy that is used ·
             ``ca_bundle``: authorities to trust beside the public ones, as PEM text or as the absolute path
             of a PEM file on the worker and every Spark node: for proxies that inspect TLS
============ =====================================================================================

**Days and times.** Projects created since 1 January 2023 read dates as UTC and export true epochs
(``timestamps="utc"``). Older ones read dates in the project's zone and export what the project's clock showed
(``"project_local"``): https://docs.mixpanel.com/docs/export-methods. Which one a project has cannot be told from
its answers, so it must be said, in the connection or here, unless the project's zone is UTC. Where UTC dates serve a
project in another zone, a day is asked for with both UTC dates it touches, and rows of other days are dropped
(``other_day``). In all other cases the server decides what belongs to a day, and rows whose time lies outside it are
kept (``outside_day``). A reading that the clock showed twice is taken for the first; one it skipped moves forward.

**Rows**

.. code-block:: sql

    event            STRING NOT NULL,
    distinct_id      STRING,              -- a number keeps its JSON text
    insert_id        STRING,
    time             TIMESTAMP,           -- UTC
    time_local       TIMESTAMP_NTZ,       -- null in the regime utc
    properties       STRING NOT NULL,     -- JSON, byte for byte
    processing_time  TIMESTAMP,           -- UTC
    record_key       STRING NOT NULL,     -- 32 hex digits
    key_origin       STRING NOT NULL,     -- vendor | fallback
    ...                                   -- one column for each promoted property

**Key.** ``record_key`` is XXH3-128 over event, distinct_id, time (whole seconds) and $insert_id in UTF-8, joined by
0xFF, which UTF-8 never holds. If one is missing ($insert_id also if empty; time also if it is no whole number), it is
made from 0xFE, event, 0xFF and the bytes of the properties, and ``key_origin`` says ``fallback``.

**Counts** in the report: duplicates, rejected, rejoined, blank_lines, other_day, outside_day, time_unreadable,
processing_time_unreadable, ambiguous_time, nonexistent_time, fallback_keys, lone_surrogates, unknown_fields (records
with more than event and properties at the top: the rest is not kept), promote_null.<property>.

A lone surrogate (``\ud800``) is U+FFFD in columns; the JSON keeps it. A key that stands twice in an object counts as
it stands last. NaN, Infinity and invalid UTF-8 make a line a reject.

**Limits.** 60 queries an hour, 3 a second and 100 at once for a project, and a day is one query
(https://developer.mixpanel.com/reference/rate-limits). A query that fails counts too: one task sends at most
``retry_budget_requests`` of them for a day and then begins no further day, so a server in trouble costs a day 20 in the
four tries that the operator makes, and a window 20 for each of the ``parallel_days`` that it polls at once.
A day is one partition, read as one stream; what it takes in memory does not grow with it. Lines may be
``max_record_bytes`` long, and ``max_rejects`` lines may be set aside. ``request_deadline_seconds`` ends a request
wherever it is slow: name service, TLS, headers, chunks, trailers.

**Errors.** An answer that is cut, is no export, or ends in an error document fails the day as retriable, with what was
read so far; so do 408, 429 (with the time to wait) and 5xx. Credentials, role, plan, region and dates in the future
(400, 401, 402, 403, 404) are for a person to mend. A line that is no record fails the day, unless it is tolerated.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.source import InputPartition, Source
from airflow_provider_connect.sources._mixpanel.access import problems
from airflow_provider_connect.sources._mixpanel.columns import COLUMNS, PromotedType, Regime, schema
from airflow_provider_connect.window import Day, zone

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.polling.tally import Tally

_SOON = dt.timedelta(hours=1)


def now() -> dt.datetime:
    """Return the present instant; tests put another clock here."""
    return dt.datetime.now(dt.UTC)


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class MixpanelSource(Source):
    """Raw events of one Mixpanel project.

    :raises ConfigError: if an option is wrong, or two promoted properties would share a column.
    """

    name: ClassVar[str] = "mixpanel"
    kind: ClassVar[Literal["day", "snapshot"]] = "day"
    connection_type: ClassVar[str] = "mixpanel"
    connection_fields: ClassVar[tuple[str, ...]] = ("project_id", "region", "timestamps")

    conn_id: str = Field(default="mixpanel_default", description="Airflow connection of type mixpanel.")
    stream: Literal["export"] = Field(default="export", description="What to read: the raw event export.")
    project_timezone: str = Field(default="UTC", description="The project's time zone (IANA name): whose days count.")
    timestamps: Regime | None = Field(
        default=None,
        description="What dates and times of the project mean: utc (created since 2023) or project_local (before); "
        "the connection's extra may say it instead.",
    )
    event: Annotated[list[str] | None, BeforeValidator(_as_list)] = Field(
        default=None, min_length=1, description="Only events of these names."
    )
    where: str | None = Field(default=None, description="Only events for which this Mixpanel expression is true.")
    deduplicate: Literal["key", "off"] = Field(
        default="key", description="Keep the first of the records of a day that have one key, or keep all."
    )
    promote: dict[str, PromotedType] = Field(
        default_factory=dict,
        description="Properties that become typed columns. A value that does not fit is null there, and counted.",
    )
    errors_tolerance: Literal["none", "all"] = Field(
        default="none", description="Fail the day at a line that is no record, or set such lines aside and count them."
    )
    max_rejects: int = Field(default=1000, ge=0, description="How many lines may be set aside before the day fails.")
    connect_timeout_seconds: float = Field(default=10.0, gt=0, description="For a connection to be accepted.")
    read_timeout_seconds: float = Field(default=120.0, gt=0, description="For the next bytes to come.")
    request_deadline_seconds: float = Field(
        default=3600.0,
        gt=0,
        description="For a whole request: name service, connection, TLS, headers and body, however steadily bytes "
        "trickle in.",
    )
    max_record_bytes: int = Field(
        default=16 << 20, ge=1 << 10, description="The longest line that is read, not counting its newline."
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> MixpanelSource:
        try:
            zone(self.project_timezone)
        except ConfigError as error:
            raise ValueError(f"project_timezone: {error}") from None
        taken = {name.lower(): "a column every row has" for name in (*COLUMNS, "day")}
        for name, column, _ in self.promoted:
            if column.lower() in taken:
                raise ValueError(
                    f"promote: property {name!r} would become column {column!r}, which is {taken[column.lower()]}"
                )
            taken[column.lower()] = f"the column of property {name!r}"
        return self

    @property
    def promoted(self) -> tuple[tuple[str, str, PromotedType], ...]:
        """The promoted properties as (property, column, type)."""
        return tuple((name, re.sub(r"[ ,;{}()\n\t=.]", "_", name), kind) for name, kind in self.promote.items())

    @property
    def stream_key(self) -> str:
        """Connection and stream: another project's export is another stream, and never replaces this one's days."""
        return f"{self.conn_id}.{self.stream}"

    @property
    def timezone(self) -> str:
        """The project's zone."""
        return self.project_timezone

    def check(self, connection: Connection) -> list[str]:
        """Say what is wrong with these options and this connection together."""
        found = problems(connection)
        if not found and self._regime(connection) is None:
            found.append(
                f"timestamps: required, since project_timezone is {self.project_timezone!r} and not UTC. Mixpanel "
                "projects created before 1 January 2023 need 'project_local', later ones 'utc'; the day of creation "
                "stands in Mixpanel under Settings, Overview. Set it on the source, or as 'timestamps' in the extra of "
                f"connection {connection.conn_id!r}"
            )
        return found

    def row_schema(self) -> pa.Schema:
        """Return the schema of the rows: see the module's DDL."""
        return schema(self.promoted)

    def plan(self, day: Day, connection: Connection) -> list[InputPartition]:
        """Return the one request that reads the day.

        :raises ConfigError: if something is wrong with the options or the connection, or the day lies ahead.
        :raises RetriableError: if the day ends within the hour: a clock may be off.
        """
        regime = self._checked_regime(connection)
        if day.zone != self.project_timezone:
            raise ConfigError(f"day {day} is one of zone {day.zone}; this source counts in {self.project_timezone}")
        rest = day.end - now()
        if rest > _SOON:
            raise ConfigError(f"day {day} is not over yet in {day.zone}: it ends at {day.end.isoformat()}")
        if rest > dt.timedelta(0):
            raise RetriableError(
                f"day {day} is not over yet in {day.zone}: it ends at {day.end.isoformat()}",
                retry_after_seconds=rest.total_seconds(),
            )
        first = last = day.date
        if regime == "utc":
            first, last = day.start.date(), (day.end - dt.timedelta(microseconds=1)).date()
        params = {"from_date": first.isoformat(), "to_date": last.isoformat(), "timestamps": regime}
        return [InputPartition(day=day, params=params)]

    def poll(self, part: InputPartition, connection: Connection, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a day: one request, read to its end.

        :raises RetriableError: if it is refused for now, cut, or no export.
        :raises ConfigError: if credentials, rights, plan or options are at fault.
        :raises DataError: if a line is no record and that is not tolerated.
        """
        from airflow_provider_connect.sources._mixpanel.poll import poll_day  # noqa: PLC0415  # a DAG file need not pay for it

        return poll_day(self, part, connection, tally, now=now)

    def _regime(self, connection: Connection) -> Regime | None:
        said: Any = self.timestamps or connection.option("timestamps")
        return said or ("utc" if self.project_timezone == "UTC" else None)

    def _checked_regime(self, connection: Connection) -> Regime:
        regime = self._regime(connection) if not problems(connection) else None
        if regime is None:
            raise ConfigError("; ".join(self.check(connection)))
        return regime
