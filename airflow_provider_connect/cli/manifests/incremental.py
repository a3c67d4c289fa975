"""Translates a manifest's time cursor to the bounds of a day."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from airflow_provider_connect.cli.manifests.columns import Columns
from airflow_provider_connect.cli.manifests.remarks import UntranslatableError
from airflow_provider_connect.cli.manifests.requests import RequestDraft
from airflow_provider_connect.cli.manifests.texts import Scope
from airflow_provider_connect.cli.manifests.times import is_date_form, record_form, time_form

_OPTIONS = {"start": "start_time_option", "end": "end_time_option"}


class TimeRange(NamedTuple):
    """A cursor by time.

    :param form: format of the request's bounds.
    :param steps: path of the record's time.
    :param record_form: its format.
    """

    form: str
    steps: tuple[str, ...]
    record_form: str
    cursor: Mapping[str, Any]


def read_time_range(cursor: Any, scope: Scope) -> TimeRange | None:
    """Return a stream's time cursor, or None if it has none that the API reads.

    :raises UntranslatableError: the cursor is of another kind, or writes times in another form.
    """
    if not isinstance(cursor, Mapping) or not cursor:
        return None
    if cursor.get("type", "DatetimeBasedCursor") != "DatetimeBasedCursor":
        name = cursor.get("class_name") or cursor.get("type")
        scope.remarks.gap("snapshot", f"the cursor {name!r}: the whole listing is loaded instead")
        return None
    pattern = str(cursor.get("datetime_format") or "%Y-%m-%d")
    form = time_form(pattern)
    if form is None:
        raise UntranslatableError(f"its time format {pattern!r} has no counterpart")
    formats = cursor.get("cursor_datetime_formats")
    record_pattern = str(formats[0]) if isinstance(formats, list) and formats else pattern
    field = scope.write_text(cursor.get("cursor_field") or "", "records")
    return TimeRange(form, (field,), record_form(record_pattern), cursor)


def request_bounds(time_range: TimeRange, request: RequestDraft) -> bool:
    """Add the bounds of a day to the request. Returns False if it then selects no day."""
    for edge, name in _OPTIONS.items():
        option = time_range.cursor.get(name)
        if isinstance(option, Mapping) and option:
            request.put(option, f"{{day.{edge}}}")
    return "{day." in str(request.as_options())


def day_options(time_range: TimeRange, columns: Columns, scope: Scope) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the option ``bounds``, and the fields of ``records`` that keep only the day's."""
    if columns.is_computed(time_range.steps):
        scope.remarks.check("bounds", "records have no time of their own, so the API's bounds are taken as exact")
        return {"format": time_range.form}, {}
    kind = columns.kind_of(time_range.steps)
    if kind == "date" and time_range.record_form == "iso":
        name = columns.add(time_range.steps, "date")
    else:
        form = {} if time_range.record_form == "iso" else {"format": time_range.record_form}
        name = columns.add(time_range.steps, "timestamp", **form)
    if is_date_form(time_range.form):
        bounds: dict[str, Any] = {"format": time_range.form} | _start_of_dates(time_range)
        scope.remarks.check("bounds", "the end is the next date, and rows of other days are dropped")
    else:
        bounds = {"format": time_range.form, "start": "exclusive", "granularity": "second"}
        scope.remarks.check(
            "bounds", "the manifest names no exact bounds, so one second more is requested, and dropped by records.day"
        )
    if time_range.form in ("date", "iso_local", "sql") or "%" in time_range.form:
        scope.remarks.check(
            "bounds", "the API reads these bounds without a zone. If its zone is not UTC, set bounds.zone"
        )
    if time_range.cursor.get("lookback_window"):
        scope.remarks.check("bounds", "the manifest reads again the latest time. Set lookback on the operator")
    if time_range.cursor.get("is_data_feed"):
        scope.remarks.check("records", "the manifest stops at older records. A day that is not sorted fails")
    return bounds, {"day": name, "outside": "drop"} | _order(time_range)


def feed_options(time_range: TimeRange, columns: Columns, scope: Scope) -> dict[str, Any] | None:
    """Return the fields of ``records`` for a listing that has no bounds and is sorted newest first, or None."""
    if not _order(time_range) or columns.is_computed(time_range.steps):
        return None
    return day_options(time_range, columns, scope)[1]


def _order(time_range: TimeRange) -> dict[str, str]:
    return {"order": "newest_first"} if time_range.cursor.get("is_data_feed") is True else {}


def _start_of_dates(time_range: TimeRange) -> dict[str, Any]:
    """Return an exclusive start for a parameter such as ``created_after``: the date before is requested, too."""
    option = time_range.cursor.get("start_time_option")
    name = str(option.get("field_name")) if isinstance(option, Mapping) else ""
    return {"start": "exclusive"} if re.search(r"(?i)after|[\[_.]gt\b", name) else {}
