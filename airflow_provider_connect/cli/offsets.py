"""``airflow connect offsets …``: which days of a stream are done, as its Variable says."""

from __future__ import annotations

import argparse
import datetime as dt
import json
from pathlib import Path
from typing import Any

from airflow_provider_connect.cli.pipelines import Pipeline, asked_for
from airflow_provider_connect.cli.reporting import FOUND, command, note, show
from airflow_provider_connect.offsets import Offset, variable_key
from airflow_provider_connect.window import ONE_DAY, DaySet

_NONE = "no stream has an offset yet: the first task that ends well makes it"


@command()
def list_command(asked: argparse.Namespace) -> None:
    """Show every stream that has an offset."""
    show([row(offset) for offset in Offset.list()], asked.output, _NONE)


@command()
def show_command(asked: argparse.Namespace) -> None:
    """Show the offsets of a DAG's streams, with all their ranges of days."""
    rows = []
    for pipeline in asked_for(asked):
        offset = _offset(pipeline)
        ranges = ", ".join(_range(first, last) for first, last in offset.days)
        rows.append({"task": pipeline.name} | row(offset) | {"ranges": ranges})
    show(rows, asked.output, _NONE)


@command()
def gaps_command(asked: argparse.Namespace) -> int:
    """Show the days that are missing; found ones end the command with 1."""
    rows = []
    for pipeline in asked_for(asked):
        for first, last in gaps(_offset(pipeline)):
            days = (last - first).days + 1
            rows.append({"task": pipeline.name, "first": first, "last": last, "days": days})
    show(rows, asked.output, "no day is missing")
    return FOUND if rows else 0


@command()
def reset_command(asked: argparse.Namespace) -> int:
    """Delete offsets; the ledgers stay, and each stream's next task makes its offset anew."""
    chosen = asked_for(asked)
    names = ", ".join(variable_key(each.source, each.sink) for each in chosen)
    if not asked.yes and input(f"Delete {names}? The ledger stays. (y/N) ").strip().lower() not in ("y", "yes"):
        note("nothing was deleted")
        return FOUND
    for each in chosen:
        Offset.reset(each.source, each.sink)
    note(f"deleted: {names}")
    return 0


@command()
def export_command(asked: argparse.Namespace) -> None:
    """Write every offset as JSON."""
    text = json.dumps([offset.model_dump(mode="json") for offset in Offset.list()], indent=2)
    if asked.file == "-":
        print(text)
    else:
        Path(asked.file).write_text(f"{text}\n", encoding="utf-8")


def row(offset: Offset) -> dict[str, Any]:
    """Return what a table shows of an offset."""
    last = offset.days[-1][1] if offset.days else None
    return {
        "connector": offset.connector,
        "stream": offset.stream,
        "sink": offset.sink,
        "target": offset.target,
        "origin": offset.origin,
        "position": offset.position,
        "last": last,
        "days": len(offset.done),
        "missing": sum((end - start).days + 1 for start, end in gaps(offset)),
        "updated": offset.updated_at.isoformat(timespec="seconds"),
    }


def gaps(offset: Offset) -> list[tuple[dt.date, dt.date]]:
    """Return the ranges of days that are missing between the first day wanted and the last that is done."""
    found: list[tuple[dt.date, dt.date]] = []
    expected = offset.origin
    for first, last in offset.days:
        if expected is not None and first > expected:
            found.append((expected, first - ONE_DAY))
        expected = max(last + ONE_DAY, expected) if expected is not None else last + ONE_DAY
    return found


def _offset(pipeline: Pipeline) -> Offset:
    found = Offset.read(pipeline.source, pipeline.sink)
    if found is not None:
        return found
    start = pipeline.task.origin
    return Offset.of(pipeline.source, pipeline.sink, DaySet(), start, origin_is_set=start is not None)


def _range(first: dt.date, last: dt.date) -> str:
    return str(first) if first == last else f"{first}..{last}"
