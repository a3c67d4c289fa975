"""``airflow connect offsets …``: reads the Variables that tasks write, and deletes one."""

from __future__ import annotations

import datetime as dt
import json
import sys
from argparse import Namespace
from functools import partial
from typing import Any

from airflow_provider_connect import offsets
from airflow_provider_connect.cli.terminal import PROBLEMS, agreed, command, note, show, show_one
from airflow_provider_connect.config import nearest
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.window import DaySet

_UNREADABLE = "not an offset: reset it, and the stream's next task makes it anew"


@command
def list_offsets(args: Namespace) -> None:
    """Print a line for each offset."""
    show([_line(name, offset) for name, offset in offsets.stored().items()], args.output)


@command
def show_offset(args: Namespace) -> None:
    """Print one offset: a field a line, or as an object."""
    name, offset = _found(args.offset)
    if offset is None:
        raise ConfigError(f"offset {name!r} is {_UNREADABLE}")
    days = tuple(_ends(first, last) for first, last in offset.days)
    fields = _line(name, offset) | {"days": days, "missing": _spans(offset.settled.gaps)}
    show_one(fields, args.output)


@command
def list_gaps(args: Namespace) -> int:
    """Print each range of missing days; end with :data:`.PROBLEMS` if there is one."""
    chosen = offsets.stored() if args.offset is None else dict([_found(args.offset)])
    unreadable = [name for name, offset in chosen.items() if offset is None]
    rows = [
        {"offset": name, "from": first, "to": last, "days": (last - first).days + 1}
        for name, offset in chosen.items()
        if offset is not None
        for first, last in offset.settled.gaps.ranges
    ]
    show(rows, args.output)
    for name in unreadable:
        note(f"offset {name!r} is {_UNREADABLE}")
    return PROBLEMS if rows or unreadable else 0


@partial(command, changes=True)
def reset_offset(args: Namespace) -> int:
    """Delete an offset, once a person has agreed."""
    name, offset = _found(args.offset)
    if not args.yes and not _agreed(name, offset):
        note("Nothing was changed")
        return PROBLEMS
    offsets.forget(name)
    note(f"Offset {name!r} is deleted: the stream's next task makes it anew from the sink's ledger")
    return 0


@command
def export_offsets(args: Namespace) -> None:
    """Print all offsets as one JSON object: a Variable's name, and what it holds."""
    found = {
        offsets.PREFIX + name: offset.model_dump(mode="json")
        for name, offset in offsets.stored().items()
        if offset is not None
    }
    sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")


def _line(name: str, offset: Offset | None) -> dict[str, Any]:
    if offset is None:
        fields = ("source", "stream", "sink", "target", "position", "done", "gaps", "origin", "updated_at")
        return {"offset": name, **dict.fromkeys(fields), "target": _UNREADABLE}
    return {
        "offset": name,
        "source": offset.connector,
        "stream": offset.stream,
        "sink": offset.sink,
        "target": offset.target,
        "position": offset.position,
        "done": len(offset.done),
        "gaps": len(offset.settled.gaps),
        "origin": offset.origin,
        "updated_at": offset.updated_at,
    }


def _found(name: str) -> tuple[str, Offset | None]:
    """Return the offset of a name, with or without its Variable's prefix.

    :raises ConfigError: if there is none.
    """
    known = offsets.stored()
    short = name.removeprefix(offsets.PREFIX)
    if short not in known:
        hint = nearest(short, known) if known else "there is none at all"
        raise ConfigError(f"no offset is called {short!r}: {hint}")
    return short, known[short]


def _agreed(name: str, offset: Offset | None) -> bool:
    what = "which is no offset" if offset is None else f"{len(offset.done):,} done days into {offset.target}"
    note(f"Offset {name!r} ({what}) will be deleted. The sink's ledger stays as it is. An origin set by hand is lost.")
    return agreed("Delete it?")


def _spans(days: DaySet) -> tuple[str, ...]:
    return tuple(_ends(first, last) for first, last in days.ranges)


def _ends(first: dt.date, last: dt.date) -> str:
    return str(first) if first == last else f"{first}..{last}"
