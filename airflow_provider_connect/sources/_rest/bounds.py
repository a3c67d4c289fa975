"""Converts a day to the start and end that an API expects."""

from __future__ import annotations

import datetime as dt
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import Field

from airflow_provider_connect.clients.http.asking.rules import Declared
from airflow_provider_connect.sources._rest.time_forms import (
    EPOCH,
    FORMS_TEXT,
    TimeForm,
    is_date_form,
    is_local_form,
    precision_of,
    write_time,
)
from airflow_provider_connect.window import Day, start_of, zone

Granularity = Literal["microsecond", "millisecond", "second", "minute", "hour", "day"]
End = Literal["inclusive", "exclusive"]


class Bounds(Declared):
    """How the API reads ``{day.start}`` and ``{day.end}``."""

    start: End = Field(
        default="inclusive",
        description="Whether the API includes its start bound. If not, the request starts one granularity earlier.",
    )
    end: End = Field(
        default="exclusive",
        description="Whether the API includes its end bound. If inclusive, the request ends one granularity earlier.",
    )
    granularity: Granularity | None = Field(
        default=None,
        description="Precision of the API's comparison. Finer parts of a record's time are cut. Required if a bound "
        "moves one step earlier, unless it is a date.",
    )
    format: TimeForm = Field(default="iso", description=f"Default time format: {FORMS_TEXT}.")
    zone: str | None = Field(default=None, description="IANA zone of the written bounds. By default the source's zone.")


_MICRO = dt.timedelta(microseconds=1)
_STEPS = {
    "microsecond": _MICRO,
    "millisecond": dt.timedelta(milliseconds=1),
    "second": dt.timedelta(seconds=1),
    "minute": dt.timedelta(minutes=1),
    "hour": dt.timedelta(hours=1),
    "day": dt.timedelta(days=1),
}
Edge = Literal["start", "end"]


class DayBound(NamedTuple):
    """Start or end of a day, as sent to the API.

    :param includes_other_days: the API also returns records of another day.
    """

    value: str | int
    includes_other_days: bool


def day_bound(day: Day, edge: Edge, bounds: Bounds, time_format: str | None = None) -> DayBound:
    """Return the start or end of a day as the API expects it, so that no record of the day is missed.

    :param time_format: defaults to ``bounds.format``.
    """
    time_format = time_format or bounds.format
    tz = zone(bounds.zone or day.zone)
    precision = "day" if is_date_form(time_format) else bounds.granularity or "second"
    format_precision = precision_of(time_format)
    if edge == "start":
        instant = _floor(day.start, precision, tz)
        if bounds.start == "exclusive":
            instant = _earlier(instant, precision, tz)
        instant = _floor(instant, format_precision, tz)
        covered_instant = _later(instant, precision, tz) if bounds.start == "exclusive" else instant
        is_wide = covered_instant < day.start
    else:
        instant = _ceil(day.end, precision, tz)
        if bounds.end == "inclusive":
            instant = _earlier(instant, precision, tz)
        instant = _ceil(instant, format_precision, tz)
        covered_instant = _later(instant, precision, tz) if bounds.end == "inclusive" else instant
        is_wide = covered_instant > day.end
    if is_local_form(time_format):
        outward = dt.timedelta(hours=-1 if edge == "start" else 1)
        while _comes_twice(instant, tz):  # the API could read it as the other instant
            instant, is_wide = instant + outward, True
    return DayBound(write_time(instant, time_format, tz), is_wide)


def _floor(instant: dt.datetime, step: str, tz: ZoneInfo) -> dt.datetime:
    local = instant.astimezone(tz)
    if step == "day":
        return start_of(local.date(), tz.key)
    offset = local.utcoffset() or dt.timedelta()
    return instant - (instant - EPOCH + offset) % _STEPS[step]


def _ceil(instant: dt.datetime, step: str, tz: ZoneInfo) -> dt.datetime:
    floor = _floor(instant, step, tz)
    return floor if floor == instant else _later(floor, step, tz)


def _later(instant: dt.datetime, step: str, tz: ZoneInfo) -> dt.datetime:
    if step == "day":
        return start_of(instant.astimezone(tz).date() + _STEPS["day"], tz.key)
    return instant + _STEPS[step]


def _earlier(instant: dt.datetime, step: str, tz: ZoneInfo) -> dt.datetime:
    return _floor(instant - _MICRO, "day", tz) if step == "day" else instant - _STEPS[step]


def _comes_twice(instant: dt.datetime, tz: ZoneInfo) -> bool:
    local = instant.astimezone(tz)
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()
