"""Time formats by name or pattern, for requests and records. DAG files import this."""

from __future__ import annotations

import datetime as dt
import re
from contextlib import suppress
from email.utils import format_datetime, parsedate_to_datetime
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, WithJsonSchema

from airflow_provider_connect.config import suggest_nearest

NAMED_FORMS = (
    "iso", "iso_ms", "iso_us", "iso_local", "sql", "date", "rfc2822", "epoch_s", "epoch_ms", "epoch_us",
)  # fmt: skip
FORMS_TEXT = (
    "iso (2026-03-01T00:00:00Z), iso_ms, iso_us (with milliseconds or microseconds), iso_local (without zone), sql "
    "(2026-03-01 00:00:00), date, rfc2822 (Sun, 01 Mar 2026 00:00:00 +0000), epoch_s, epoch_ms, epoch_us, or a pattern "
    "such as %Y%m%d"
)
Precision = Literal["microsecond", "millisecond", "second", "minute", "hour", "day"]

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
PER_SECOND = {"epoch_s": 1, "epoch_ms": 1_000, "epoch_us": 1_000_000}
_PRECISIONS: dict[str, Precision] = {
    "iso_ms": "millisecond",
    "iso_us": "microsecond",
    "epoch_ms": "millisecond",
    "epoch_us": "microsecond",
    "date": "day",
}
_LOCAL_PATTERNS = {"iso_local": "%Y-%m-%dT%H:%M:%S", "sql": "%Y-%m-%d %H:%M:%S"}
_ISO_FORMS = ("iso", "iso_ms", "iso_us", "iso_local", "sql", "date")
_DIRECTIVE = re.compile("%(.?)")
_DIRECTIVES = "YmdHMSfzbB%"
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_ADJACENT = re.compile("%[YmdHMSf]%[YmdHMSf]")
_RFC2822 = re.compile(
    r"(?:[A-Z][a-z]{2}, )?[0-9]{1,2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}(?::[0-9]{2})? (?:[+-][0-9]{4}|GMT|UTC|UT)"
)
_SPACED_ZONE = re.compile(r"(.*[0-9]) (UTC|GMT|Z|[+-][0-9]{2}:?[0-9]{2})")


def form_problem(form: str) -> str | None:
    """Return the problem of a time format, or None."""
    if "%" not in form:
        return None if form in NAMED_FORMS else f"unknown format {form!r}; {suggest_nearest(form, NAMED_FORMS)}"
    directives = _DIRECTIVE.findall(form)
    if unknown := [directive for directive in directives if not directive or directive not in _DIRECTIVES]:
        return f"unknown directive '%{unknown[0]}' in {form!r}. Use %Y %m %d %b %B %H %M %S %f %z"
    if not {"Y", "d"} <= set(directives) or not {"m", "b", "B"} & set(directives):
        return f"the pattern {form!r} needs %Y, %m (or %b, %B) and %d"
    return None


def _require_form(form: str) -> str:
    if (problem := form_problem(form)) is not None:
        raise ValueError(problem)
    return form


TimeForm = Annotated[
    str,
    AfterValidator(_require_form),
    WithJsonSchema({"anyOf": [{"enum": list(NAMED_FORMS)}, {"type": "string", "pattern": "%Y"}]}),
]


def precision_of(form: str) -> Precision:
    """Return the smallest unit that a time format writes."""
    if "%" not in form:
        return _PRECISIONS.get(form, "second")
    directives: tuple[tuple[str, Precision], ...] = (
        ("%f", "microsecond"), ("%S", "second"), ("%M", "minute"), ("%H", "hour"),
    )  # fmt: skip
    return next((unit for directive, unit in directives if directive in form), "day")


def is_date_form(form: str) -> bool:
    """Return True if a time format writes only the date."""
    return precision_of(form) == "day"


def is_local_form(form: str) -> bool:
    """Return True if a time format writes a time of day without zone."""
    return form in _LOCAL_PATTERNS or ("%" in form and "%z" not in form and not is_date_form(form))


def names_zone(form: str) -> bool:
    """Return True if the texts of a format need no zone."""
    return form in PER_SECOND or form == "rfc2822" or "%z" in form


def is_iso_form(form: str) -> bool:
    """Return True if texts of a format are ISO 8601, with a T or a space."""
    return form in _ISO_FORMS


def write_time(instant: dt.datetime, form: str, tz: ZoneInfo) -> str | int:
    """Return an instant in a time format. An epoch is an int."""
    if form in PER_SECOND:
        return (instant - EPOCH) // (dt.timedelta(seconds=1) / PER_SECOND[form])
    local = instant.astimezone(tz)
    if form == "date":
        return local.date().isoformat()
    if form == "rfc2822":
        return format_datetime(local)
    if form in _LOCAL_PATTERNS or "%" in form:
        return local.strftime(_with_month_name(_LOCAL_PATTERNS.get(form, form), local.month))
    text = local.isoformat(timespec={"iso_ms": "milliseconds", "iso_us": "microseconds"}.get(form, "seconds"))
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def _with_month_name(pattern: str, month: int) -> str:
    """Return a pattern with the English name of a month, whatever the locale of the process is."""
    name = _MONTHS[month - 1]
    return _DIRECTIVE.sub(lambda match: {"%b": name[:3], "%B": name}.get(match[0], match[0]), pattern)


def read_time(text: str, form: str, tz: ZoneInfo) -> dt.datetime | None:
    """Return the instant of a text. None if it has another format.

    :param form: not an epoch.
    :param tz: zone of a text without one.
    """
    with suppress(ValueError, OverflowError):
        if is_iso_form(form):
            spaced = _SPACED_ZONE.fullmatch(text)
            zone = "" if spaced is None else spaced[2].replace("UTC", "Z").replace("GMT", "Z")
            instant = dt.datetime.fromisoformat(text if spaced is None else spaced[1] + zone)
        elif form == "rfc2822":
            if not _RFC2822.fullmatch(text):
                return None
            instant = parsedate_to_datetime(text)
        else:
            instant = dt.datetime.strptime(text, form)  # noqa: DTZ007  # with the zone below
            if _ADJACENT.search(form) and instant.strftime(form) != text:
                return None  # 2026311 could be 31 January or 11 March
        return (instant if instant.tzinfo is not None else instant.replace(tzinfo=tz)).astimezone(dt.UTC)
    return None
