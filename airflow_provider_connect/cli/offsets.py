"""``airflow connect offsets …`` and ``ledger``: settled days in offsets, published days in a sink's ledger."""

from __future__ import annotations

import datetime as dt
import json
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from airflow_provider_connect import offsets
from airflow_provider_connect.cli.tasks import (
    DeclaredTask,
    RenderedTask,
    accept_former_day,
    connect_task,
    connect_tasks,
)
from airflow_provider_connect.cli.terminal import (
    EXIT_PROBLEMS,
    ask_consent,
    command,
    print_fields,
    print_note,
    print_rows,
)
from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.window import Day

_UNREADABLE = "not an offset. Reset it, and the stream's next task recomputes it"


@command
def list_offsets(args: Namespace) -> None:
    """Print a line for each offset, or for one."""
    rows = [_offset_line(name, offset) for name, offset in _selected_offsets(args).items()]
    print_rows(rows, args.output, empty="no offsets: no task has published a day yet")


@command
def show_offset(args: Namespace) -> None:
    """Print an offset's fields, and its ranges of settled and missing days."""
    name, offset = _find_offset(args)
    if offset is None:
        raise ConfigError(f"offset {name!r} is {_UNREADABLE}")
    ranges = {"days": offset.days, "missing": offset.settled.gaps.ranges}
    fields = _offset_line(name, offset) | {
        field: [_range_text(*bounds) for bounds in day_ranges] for field, day_ranges in ranges.items()
    }
    print_fields(fields, args.output)


@command
def list_gaps(args: Namespace) -> int:
    """Print each range of missing days. The exit code is :data:`.EXIT_PROBLEMS` if a day is missing."""
    selected = _selected_offsets(args)
    unreadable_names = [name for name, offset in selected.items() if offset is None]
    rows = [
        {"offset": name, "from": first, "to": last, "days": (last - first).days + 1}
        for name, offset in selected.items()
        if offset is not None
        for first, last in offset.settled.gaps.ranges
    ]
    print_rows(rows, args.output, empty=_no_gaps_text([offset for offset in selected.values() if offset is not None]))
    for name in unreadable_names:
        print_note(f"offset {name!r} is {_UNREADABLE}")
    return EXIT_PROBLEMS if rows or unreadable_names else 0


@partial(command, changes=True)
def reset_offset(args: Namespace) -> int:
    """Delete an offset after a prompt."""
    name, offset = _find_offset(args)
    if not args.yes and not _ask_reset(name, offset):
        print_note("Nothing was changed")
        return EXIT_PROBLEMS
    offsets.delete_variable(name)
    print_note(f"Offset {name!r} is deleted. The stream's next task recomputes it from the sink's ledger")
    return 0


@command
def export_offsets(args: Namespace) -> None:
    """Print all offsets as one JSON object, for ``airflow variables import``."""
    values = {
        offsets.PREFIX + name: offset.model_dump(mode="json")
        for name, offset in offsets.stored_offsets().items()
        if offset is not None
    }
    sys.stdout.write(json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def _offset_line(name: str, offset: Offset | None) -> dict[str, Any]:
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


def _no_gaps_text(readable: Sequence[Offset]) -> str:
    ranges = [offset.days for offset in readable if offset.days]
    if not ranges:
        return "no gaps: no stream has a settled day yet"
    last_days = [days[-1][1] for days in ranges]
    first, last, newest = min(days[0][0] for days in ranges), min(last_days), max(last_days)
    until = str(last) if last == newest else f"each one's last loaded day ({last} to {newest})"
    return f"no gaps in {len(readable)} stream{'' if len(readable) == 1 else 's'}, {first} to {until}"


def _selected_offsets(args: Namespace) -> dict[str, Offset | None]:
    stored = offsets.stored_offsets()
    if args.offset is None or args.offset.removeprefix(offsets.PREFIX) in stored or "/" in args.offset:
        return stored if args.offset is None else dict([_find_offset(args)])
    names = [_name_of_offset(task, stored) for task in connect_tasks(args.offset, args.task_id, args.bundle_name)]
    return {name: stored[name] for name in names}


def _find_offset(args: Namespace) -> tuple[str, Offset | None]:
    offsets_by_name = offsets.stored_offsets()
    name = args.offset.removeprefix(offsets.PREFIX)
    if name in offsets_by_name:
        return name, offsets_by_name[name]
    if "/" in name:
        hint = suggest_nearest(name, offsets_by_name) if offsets_by_name else "there are no offsets"
        raise ConfigError(f"no offset is named {name!r}: {hint}")
    name = _name_of_offset(connect_task(args.offset, args.task_id, args.bundle_name), offsets_by_name)
    return name, offsets_by_name[name]


def _name_of_offset(task: DeclaredTask, offsets_by_name: Mapping[str, Offset | None]) -> str:
    pipeline = task.render(task.parse_day(None))
    name = offsets.variable_key(pipeline.source, pipeline.sink).removeprefix(offsets.PREFIX)
    if name not in offsets_by_name:
        raise ConfigError(f"task {task.name} has no offset. It has published no day into {pipeline.sink.target}")
    return name


def _ask_reset(name: str, offset: Offset | None) -> bool:
    summary = "not an offset" if offset is None else f"{len(offset.done):,} done days into {offset.target}"
    print_note(
        f"Offset {name!r} ({summary}) will be deleted. The sink's ledger stays as it is. An origin set by hand is lost."
    )
    return ask_consent("Delete it?")


def _range_text(first: dt.date, last: dt.date) -> str:
    return str(first) if first == last else f"{first}..{last}"


@command
def show_day(args: Namespace) -> int:
    """Print each task's newest publish of a day. The exit code is :data:`.EXIT_PROBLEMS` if a ledger lacks the day."""
    rows, missing_count = [], 0
    accept_former_day(args)
    for task in connect_tasks(args.dag_id, args.task_id, args.bundle_name):
        day = task.day_of(args.day)
        pipeline = task.render(day)
        with pipeline.open_publisher() as publisher:
            row = publisher.ledger.row(day.date)
        if row is None:
            print_note(f"{task.name}: {pipeline.sink.target} has no publish of {day}")
            missing_count += 1
        else:
            rows.append(_ledger_line(pipeline, day, row))
    if len(rows) == 1:
        print_fields(rows[0], args.output)
    elif rows or args.output in ("json", "yaml"):
        print_rows(rows, args.output)
    return EXIT_PROBLEMS if missing_count else 0


def _ledger_line(pipeline: RenderedTask, day: Day, row: LedgerRow) -> dict[str, Any]:
    return {
        "task": pipeline.task.name,
        "target": pipeline.sink.target,
        "day": day,
        "generation": row.generation,
        "checks": row.checks,
        "rows": row.rows,
        "run": row.run,
        "clear_number": row.clear_number,
        "polled_at": row.polled_at,
        "published_at": row.published_at,
        "counts": dict(row.counts),
        "digest": row.digest,
        "attempt": row.attempt,
        "reference": row.reference,
        "link": row.link,
    }
