"""How an API is told the bounds of a day: which ends belong to it, how fine it compares, and how it writes times."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from airflow_provider_connect.clients.http.asking.rules import Declared

TimeFormat = Literal["iso", "iso_ms", "iso_local", "sql", "date", "epoch_s", "epoch_ms", "epoch_us"]
Granularity = Literal["microsecond", "millisecond", "second", "minute", "hour", "day"]
End = Literal["inclusive", "exclusive"]


class Bounds(Declared):
    """What the API makes of ``{day.start}`` and ``{day.end}``."""

    start: End = Field(
        default="inclusive",
        description="Whether the API returns what lies exactly at the start. If not, it is asked from one granularity "
        "earlier.",
    )
    end: End = Field(
        default="exclusive",
        description="Whether the API returns what lies exactly at the end. If so, it is asked up to one granularity "
        "earlier.",
    )
    granularity: Granularity | None = Field(
        default=None,
        description="The finest step at which the API compares: it cuts what is finer from a record's time. Required "
        "where a bound is asked one step earlier, unless it is a date.",
    )
    format: TimeFormat = Field(
        default="iso",
        description="How bounds are written that name no format: iso (2026-03-01T00:00:00Z), iso_ms (with "
        "milliseconds), iso_local (without zone), sql (2026-03-01 00:00:00), date, epoch_s, epoch_ms, epoch_us.",
    )
    zone: str | None = Field(
        default=None, description="IANA zone in which bounds are written; by default the source's own zone."
    )
