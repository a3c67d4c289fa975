"""The places of a request: a small closed language, {day.start:iso}, {parent.id}, and how they are filled.

A place is a {, a name right behind it, perhaps a : with a format, and a }. Any other brace is itself, so
that JSON and GraphQL pass; only a path has none. Nothing is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, get_args
from urllib.parse import quote

from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sources._rest.bounds import Bounds, TimeFormat, Which, bound
from airflow_provider_connect.sources._rest.request import Request, Value
from airflow_provider_connect.window import Day

DAY = ("day.start", "day.end")
FORMATS: tuple[str, ...] = get_args(TimeFormat)
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]*)*)(?::([^{}]*))?\}")
_NEARLY = re.compile(r"\{[\s$]*(?:day|parent)\s*[.:][^{}]*\}?")


class Slot(NamedTuple):
    """A place in a text: its name, and its format if it has one."""

    name: str
    format: str | None


Fill = Callable[[Slot], str | int]
"""Returns what stands at a place; a whole number where it is one."""


def slots(text: str) -> list[Slot]:
    """Return the places of a text in their order."""
    return [Slot(found[1], found[2]) for found in _PLACE.finditer(text)]


def filled(text: str, fill: Fill, *, is_path: bool = False) -> str:
    """Return a text with its places filled.

    :param is_path: whether what is filled in is quoted, so that it stays one step of a path.
    """
    return _PLACE.sub(lambda found: _quoted(str(fill(Slot(found[1], found[2]))), is_path), text)


def filled_value(value: Any, fill: Fill) -> Any:
    """Return a JSON value with the places in its texts filled; a text that is one place alone may become a number."""
    if isinstance(value, str):
        whole = _PLACE.fullmatch(value)
        return fill(Slot(whole[1], whole[2])) if whole else filled(value, fill)
    if isinstance(value, dict):
        return {name: filled_value(each, fill) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [filled_value(each, fill) for each in value]
    return value


def texts(request: Request) -> Iterator[tuple[str, str]]:
    """Yield every text of a request that may have places, with where it stands."""
    yield "path", request.path
    for name, value in request.params.items():
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, str):
                yield f"params.{name}", each
    yield from ((f"headers.{name}", value) for name, value in request.headers.items())
    yield from _texts_of("body", request.body)
    yield from _texts_of("form", request.form)


def all_slots(request: Request) -> list[Slot]:
    """Return the places of all texts of a request."""
    return [slot for _, text in texts(request) for slot in slots(text)]


def problems(request: Request, parent: Collection[str] | None) -> list[str]:
    """Name every place that cannot be filled, with the name that was probably meant.

    :param parent: the columns of the parent's rows; None if there is no parent.
    """
    return [problem for where, text in texts(request) for problem in _problems_of(where, text, parent)]


def _problems_of(where: str, text: str, parent: Collection[str] | None) -> list[str]:
    known = [*DAY, *(f"parent.{name}" for name in parent or ())]
    found = []
    for name, form in slots(text):
        if name not in known:
            why = (
                "no parent is declared"
                if name.startswith("parent.") and parent is None
                else suggest_nearest(name, known)
            )
            found.append(f"{where}: unknown {{{name}}}; {why}")
        elif form is not None and name not in DAY:
            found.append(f"{where}: {{{name}}} takes no format")
        elif form is not None and form not in FORMATS:
            found.append(f"{where}: unknown format {form!r} of {{{name}}}; {suggest_nearest(form, FORMATS)}")
    rest = _PLACE.sub("", text)
    if (nearly := _NEARLY.search(rest)) is not None:
        found.append(f"{where}: {nearly[0][:40]!r} is none of {', '.join(f'{{{name}}}' for name in known)}")
    elif where == "path" and ("{" in rest or "}" in rest):
        found.append("path: it has a brace that belongs to no {name}")
    return found


def _texts_of(where: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _texts_of(f"{where}.{name}", each)
    elif isinstance(value, list | tuple):
        for at, each in enumerate(value):
            yield from _texts_of(f"{where}.{at}", each)


def _quoted(text: str, is_path: bool) -> str:  # noqa: FBT001
    if not is_path:
        return text
    # A step of dots alone would be taken for the folder above, quoted or not.
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


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
