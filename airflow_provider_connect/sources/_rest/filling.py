"""Fills the places of a request: with the day's bounds, and with a parent's values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sources._rest.declared.bounds import Bounds
from airflow_provider_connect.sources._rest.declared.request import Request, Value
from airflow_provider_connect.sources._rest.template import (
    DAY,
    Fill,
    Slot,
    all_slots,
    filled,
    filled_value,
    slots,
    texts,
)
from airflow_provider_connect.sources._rest.times import Which, bound
from airflow_provider_connect.window import Day

PARENT = "parent."
_WHICH: dict[str, Which] = {"day.start": "start", "day.end": "end"}


class Asked(NamedTuple):
    """A request with its places filled."""

    path: str
    method: str
    params: tuple[tuple[str, str], ...]
    headers: dict[str, str]
    body: Any
    form: dict[str, str] | None


def asked(request: Request, day: Day, bounds: Bounds, parent: Mapping[str, Any]) -> Asked:
    """Return a request with its places filled.

    :param parent: the parent's values by column.
    """

    def fill(slot: Slot) -> str | int:
        if slot.name in DAY:
            return bound(day, _WHICH[slot.name], bounds, slot.format).value
        value = parent[slot.name.removeprefix(PARENT)]
        if value is None or value == "":
            # Many APIs read an empty filter as none at all: everything would be this parent's.
            raise DataError(
                f"a parent has no value in column {slot.name.removeprefix(PARENT)!r}, which the request for its "
                "children names: leave such parents out, or name a column that is always there"
            )
        return str(value)

    return Asked(
        path=filled(request.path, fill, is_path=True),
        method=request.method,
        params=tuple((name, text) for name, value in request.params.items() for text in _sent(value, fill)),
        headers={name: filled(value, fill) for name, value in request.headers.items()},
        body=filled_value(request.body, fill),
        form=None if request.form is None else {name: filled(value, fill) for name, value in request.form.items()},
    )


def require_exact(request: Request, day: Day, bounds: Bounds, *, drops_others: bool) -> None:
    """Make sure that records of other days are either not asked for, or dropped.

    :raises ConfigError: they would be kept.
    """
    if drops_others:
        return
    for slot in all_slots(request):
        if slot.name in DAY and bound(day, _WHICH[slot.name], bounds, slot.format).is_wide:
            form = slot.format or bounds.format
            raise ConfigError(
                f"day {day} of zone {day.zone}: {{{slot.name}}}, written as {form} in zone {bounds.zone or day.zone} "
                f"to the {bounds.granularity or 'second'}, also covers records of another day: set records.day and "
                "records.outside='drop'"
            )


def only_bound(request: Request, bounds: Bounds) -> str | None:
    """Return the name of the one bound of the day that a request has; None if it has both, or names the day itself.

    A date, and what stands in the path, may well be a whole day.
    """
    found = {
        (slot.name, where == "path" or (slot.format or bounds.format) == "date")
        for where, text in texts(request)
        for slot in slots(text)
        if slot.name in DAY
    }
    names = {name for name, _ in found}
    return names.pop() if len(names) == 1 and not any(is_a_day for _, is_a_day in found) else None


def unknown_steps(request: Request, bounds: Bounds) -> list[str]:
    """Return the bounds that are asked one granularity earlier, though nobody says which."""
    if bounds.granularity is not None:
        return []
    earlier = {"day.start": bounds.start == "exclusive", "day.end": bounds.end == "inclusive"}
    return sorted(
        {
            slot.name
            for slot in all_slots(request)
            if earlier.get(slot.name) and (slot.format or bounds.format) != "date"
        }
    )


def parent_columns(request: Request) -> set[str]:
    """Return the columns of the parent that a request has places for."""
    return {slot.name.removeprefix(PARENT) for slot in all_slots(request) if slot.name.startswith(PARENT)}


def names_day(request: Request) -> bool:
    """Tell whether a request has a place for a bound of the day."""
    return any(slot.name in DAY for slot in all_slots(request))


def _sent(value: Value | tuple[Value, ...], fill: Fill) -> list[str]:
    if isinstance(value, tuple):
        return [text for each in value for text in _sent(each, fill)]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [filled(value, fill) if isinstance(value, str) else str(value)]
