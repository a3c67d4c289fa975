"""The small closed language of a declaration: ``{day.start:iso}``, ``{parent.id}``. Nothing is evaluated.

A place is a ``{``, a name right behind it, perhaps a ``:`` with a format, and a ``}``. Any other brace is itself, so
that JSON and GraphQL pass; only a path has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple, get_args
from urllib.parse import quote

from airflow_provider_connect.config import nearest
from airflow_provider_connect.sources._rest.declared.bounds import TimeFormat
from airflow_provider_connect.sources._rest.declared.request import Request

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
            why = "no parent is declared" if name.startswith("parent.") and parent is None else nearest(name, known)
            found.append(f"{where}: unknown {{{name}}}; {why}")
        elif form is not None and name not in DAY:
            found.append(f"{where}: {{{name}}} takes no format")
        elif form is not None and form not in FORMATS:
            found.append(f"{where}: unknown format {form!r} of {{{name}}}; {nearest(form, FORMATS)}")
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
