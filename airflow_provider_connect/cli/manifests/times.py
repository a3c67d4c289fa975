"""Converts time formats of manifests to those of ``RestSource``."""

from __future__ import annotations

import re

_NAMED = {
    "%s": "epoch_s",
    "%s_as_float": "epoch_s",
    "%ms": "epoch_ms",
    "%epoch_microseconds": "epoch_us",
    "%Y-%m-%d": "date",
    "%Y-%m-%dT%H:%M:%SZ": "iso",
    "%Y-%m-%dT%H:%M:%S%z": "iso",
    "%Y-%m-%dT%H:%M:%S.%fZ": "iso_us",
    "%Y-%m-%dT%H:%M:%S.%f%z": "iso_us",
    "%Y-%m-%dT%H:%M:%S.%_msZ": "iso_ms",
    "%Y-%m-%dT%H:%M:%S": "iso_local",
    "%Y-%m-%d %H:%M:%S": "sql",
}
_DIRECTIVE = re.compile("%(.?)")


def time_form(pattern: str) -> str | None:
    """Return the format of a manifest's pattern, or None if ``RestSource`` cannot write it."""
    if pattern in _NAMED:
        return _NAMED[pattern]
    directives = set(_DIRECTIVE.findall(pattern.replace("%%", "")))
    has_date = {"Y", "d"} <= directives and bool({"m", "b", "B"} & directives)
    is_known = directives <= set("YmdHMSfzbB") and has_date
    return pattern if is_known else None


def is_date_form(form: str) -> bool:
    """Return True if a format writes only the date."""
    return form == "date" or ("%" in form and "%H" not in form)


def record_form(pattern: str) -> str:
    """Return the format of a record's time for a column. ISO 8601 in any variant is ``iso``."""
    form = time_form(pattern) or "iso"
    return form if form.startswith("epoch") or ("%" in form and not re.match("%Y-%m-%d($|[T ]%H)", form)) else "iso"
